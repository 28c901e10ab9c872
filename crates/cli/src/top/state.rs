//! State of `weir top`, and what each event makes of it. Pure: no clock, no terminal, no server.

use std::collections::HashSet;

use weir_server::control::SetRequest;

use super::history::History;
use super::input::Input;
use super::preview::{self, Preview};
use super::reading::{Reading, View};
use crate::status::SortKey;

/// Something that happened.
#[derive(Debug)]
pub(super) enum Event {
    Key(crossterm::event::KeyEvent),
    Mouse(crossterm::event::MouseEvent),
    /// Columns and rows of the terminal.
    Resized(u16, u16),
    Read(Box<Reading>),
    /// The server did not answer, and why.
    NotRead(String),
    /// The answer to [`Effect::Set`]: what holds now with its generation, or the refusal.
    Set(Result<(Vec<String>, String), Vec<String>>),
}

/// Something to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Effect {
    Quit,
    /// Make this change, if nothing has been set since that generation.
    Set(SetRequest, String),
}

/// What keys mean.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) enum Mode {
    #[default]
    Look,
    Help,
    Filter(Input),
    Edit(Edit),
}

/// A setting that is being typed.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Edit {
    pub(super) device: String,
    pub(super) cgroup: String,
    pub(super) input: Input,
    /// Whether the server has been asked.
    pub(super) is_sent: bool,
    /// The server's refusal.
    pub(super) refusal: Vec<String>,
}

/// What a command line says once and for all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Options {
    pub(super) sort: SortKey,
    pub(super) coloured: bool,
    /// Changes are forgotten at the next reload.
    pub(super) runtime: bool,
}

/// All of it.
#[derive(Debug)]
pub(super) struct State {
    pub(super) reading: Option<Reading>,
    /// The newest reading while the picture is frozen.
    waiting: Option<Reading>,
    pub(super) history: History,
    pub(super) is_frozen: bool,
    pub(super) mode: Mode,
    /// The chosen device.
    pub(super) device: usize,
    pub(super) sort: SortKey,
    pub(super) is_reversed: bool,
    /// Whether cgroups are listed without their tree.
    pub(super) is_flat: bool,
    /// Whether exports are listed instead of cgroups.
    pub(super) has_exports: bool,
    pub(super) filter: String,
    /// Device and path of cgroups whose children are not listed.
    pub(super) folded: HashSet<(String, String)>,
    /// Cgroups or exports of the chosen device that are listed, by their place in the reading.
    pub(super) listed: Vec<usize>,
    /// Place in `listed` of the chosen one.
    pub(super) cursor: usize,
    /// Its path, or the name of the export.
    pub(super) chosen_name: Option<String>,
    /// Place in `listed` of the first one in the picture.
    pub(super) first: usize,
    /// Columns and rows.
    pub(super) size: (u16, u16),
    /// What to say instead of the keys.
    pub(super) message: Vec<String>,
    /// Why the last reading failed.
    pub(super) unread: Option<String>,
    /// Whether the server has been asked for a change and has not answered.
    is_asked: bool,
    /// Generation of the last own change.
    generation: Option<String>,
    pub(super) options: Options,
}

impl State {
    pub(super) fn new(options: Options, size: (u16, u16)) -> State {
        State {
            reading: None,
            waiting: None,
            history: History::default(),
            is_frozen: false,
            mode: Mode::Look,
            device: 0,
            sort: options.sort,
            is_reversed: false,
            is_flat: false,
            has_exports: false,
            filter: String::new(),
            folded: HashSet::new(),
            listed: Vec::new(),
            cursor: 0,
            chosen_name: None,
            first: 0,
            size,
            message: Vec::new(),
            unread: None,
            is_asked: false,
            generation: None,
            options,
        }
    }

    /// The chosen device.
    pub(super) fn view(&self) -> Option<View<'_>> {
        self.reading.as_ref()?.device(self.device)
    }

    /// The chosen cgroup, by its place in the reading; that of the chosen export.
    pub(super) fn chosen(&self) -> Option<usize> {
        let place = self.listed.get(self.cursor).copied()?;
        match self.has_exports {
            true => {
                let view = self.view()?;
                view.place(&view.export(place).0.cgroup)
            }
            false => Some(place),
        }
    }

    /// What the line that is being typed will do.
    pub(super) fn preview(&self, edit: &Edit) -> Result<Preview, String> {
        let view = self.edited(edit).ok_or("the device is gone")?;
        let index = view.place(&edit.cgroup).ok_or("the cgroup is gone")?;
        preview::preview(view, index, &edit.input.text())
    }

    /// The device of an edit.
    fn edited(&self, edit: &Edit) -> Option<View<'_>> {
        self.reading.as_ref()?.views().find(|view| view.status.device == edit.device)
    }

    /// Takes an event.
    pub(super) fn handle(&mut self, event: Event) -> Option<Effect> {
        match event {
            Event::Key(key) => return self.key(key),
            Event::Mouse(mouse) => self.mouse(mouse),
            Event::Resized(columns, rows) => {
                self.size = (columns, rows);
                self.scroll();
            }
            Event::Read(reading) => self.read(*reading),
            Event::NotRead(why) => self.unread = Some(why),
            Event::Set(answer) => self.answered(answer),
        }
        None
    }

    fn read(&mut self, reading: Reading) {
        self.unread = None;
        if self.is_frozen {
            self.waiting = Some(reading);
        } else {
            self.show(reading);
        }
    }

    fn show(&mut self, reading: Reading) {
        self.history.push(&reading);
        let chosen = self.view().map(|view| view.status.device.clone());
        let place =
            |name: String| reading.status.devices.iter().position(|device| device.device == name);
        self.device = chosen.and_then(place).unwrap_or(0);
        self.reading = Some(reading);
        self.generation = None;
        self.list();
    }

    /// The picture stands still, or goes on with the newest reading.
    pub(super) fn freeze(&mut self) {
        self.is_frozen = !self.is_frozen;
        if let Some(reading) = self.waiting.take() {
            self.show(reading);
        }
    }

    /// Begins to edit a setting of the chosen cgroup.
    pub(super) fn edit(&mut self, line: fn(View<'_>, usize) -> String) {
        let Some((view, index)) = self.view().zip(self.chosen()) else { return };
        self.mode = Mode::Edit(Edit {
            device: view.status.device.clone(),
            cgroup: view.cgroup(index).cgroup.clone(),
            input: Input::new(&line(view, index)),
            is_sent: false,
            refusal: Vec::new(),
        });
        self.scroll();
    }

    /// Asks the server for what has been typed, if it makes sense and changes something.
    pub(super) fn send(&mut self) -> Option<Effect> {
        let Mode::Edit(edit) = &self.mode else { return None };
        // One change at a time, so that an answer is that of the line on the screen.
        if self.is_asked {
            return None;
        }
        let preview = self.preview(edit).ok().filter(|preview| !preview.is_same)?;
        let several = self.reading.as_ref()?.devices.len() > 1;
        let request = SetRequest {
            cgroup: edit.cgroup.clone(),
            key: preview.key,
            value: preview.value,
            device: several.then(|| edit.device.clone()),
            create: false,
            runtime: self.options.runtime,
        };
        let known = self.reading.as_ref()?.status.generation.clone();
        let generation = self.generation.clone().unwrap_or(known);
        if let Mode::Edit(edit) = &mut self.mode {
            edit.is_sent = true;
            self.is_asked = true;
            edit.refusal.clear();
        }
        Some(Effect::Set(request, generation))
    }

    fn answered(&mut self, answer: Result<(Vec<String>, String), Vec<String>>) {
        self.is_asked = false;
        match (answer, &mut self.mode) {
            (Ok((lines, generation)), mode) => {
                if matches!(mode, Mode::Edit(edit) if edit.is_sent) {
                    self.mode = Mode::Look;
                }
                self.message = lines;
                self.generation = Some(generation);
                self.scroll();
            }
            (Err(lines), Mode::Edit(edit)) if edit.is_sent => {
                edit.is_sent = false;
                edit.refusal = lines;
            }
            (Err(lines), _) => self.message = lines,
        }
    }
}
