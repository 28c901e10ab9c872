//! Meaning of keys and of the mouse.

use crossterm::event::{
    KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};

use super::preview;
use super::state::{Effect, Mode, State};

/// Lines that a turn of the wheel moves.
const WHEEL: usize = 3;

impl State {
    pub(super) fn key(&mut self, key: KeyEvent) -> Option<Effect> {
        if key.kind == KeyEventKind::Release {
            return None;
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if control && key.code == KeyCode::Char('c') {
            return Some(Effect::Quit);
        }
        self.message.clear();
        match &self.mode {
            Mode::Look => return self.look(key.code),
            Mode::Help => match key.code {
                KeyCode::Char('q') => return Some(Effect::Quit),
                _ => self.mode = Mode::Look,
            },
            Mode::Filter(_) => self.type_filter(key),
            Mode::Edit(_) => return self.type_setting(key),
        }
        None
    }

    fn look(&mut self, code: KeyCode) -> Option<Effect> {
        let page = self.layout().list.max(1);
        match code {
            KeyCode::Char('q') => return Some(Effect::Quit),
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.mode = Mode::Help,
            KeyCode::Char(' ') => self.freeze(),
            KeyCode::Char('s') => {
                self.sort = self.sort.next();
                self.list();
            }
            KeyCode::Char('r') => {
                self.is_reversed = !self.is_reversed;
                self.list();
            }
            KeyCode::Char('t') => {
                self.is_flat = !self.is_flat;
                self.list();
            }
            KeyCode::Char('x') => self.switch(),
            KeyCode::Char('/') => {
                self.mode = Mode::Filter(super::input::Input::new(&self.filter));
            }
            KeyCode::Esc => {
                self.filter.clear();
                self.list();
            }
            KeyCode::Up | KeyCode::Char('k') => self.go(self.cursor.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.go(self.cursor + 1),
            KeyCode::PageUp => self.go(self.cursor.saturating_sub(page)),
            KeyCode::PageDown => self.go(self.cursor + page),
            KeyCode::Home | KeyCode::Char('g') => self.go(0),
            KeyCode::End | KeyCode::Char('G') => self.go(usize::MAX),
            KeyCode::Left => self.fold(true),
            KeyCode::Right => self.fold(false),
            KeyCode::Char('*') => self.fold_all(),
            KeyCode::Tab => self.next_device(true),
            KeyCode::BackTab => self.next_device(false),
            KeyCode::Char(digit @ '1'..='9') => {
                self.choose_device(usize::from(digit as u8 - b'1'));
            }
            KeyCode::Char('e') => self.edit(preview::limits_line),
            KeyCode::Char('w') => self.edit(preview::weight_line),
            KeyCode::Char(':') => self.edit(|_, _| String::new()),
            _ => {}
        }
        None
    }

    fn next_device(&mut self, forwards: bool) {
        let count = self.reading.as_ref().map_or(0, |reading| reading.devices.len());
        if count > 0 {
            let steps = if forwards { 1 } else { count - 1 };
            self.choose_device((self.device + steps) % count);
        }
    }

    fn type_filter(&mut self, key: KeyEvent) {
        let Mode::Filter(input) = &mut self.mode else { return };
        match key.code {
            KeyCode::Enter => self.mode = Mode::Look,
            KeyCode::Esc => {
                self.mode = Mode::Look;
                self.filter.clear();
                self.list();
            }
            _ => {
                input.key(key);
                self.filter = input.text();
                self.list();
            }
        }
    }

    fn type_setting(&mut self, key: KeyEvent) -> Option<Effect> {
        let Mode::Edit(edit) = &mut self.mode else { return None };
        match key.code {
            // What has been asked for may still be made; the answer is told.
            KeyCode::Esc => {
                self.mode = Mode::Look;
                self.scroll();
            }
            _ if edit.is_sent => {}
            KeyCode::Enter => return self.send(),
            _ => {
                if edit.input.key(key) {
                    edit.refusal.clear();
                }
            }
        }
        None
    }

    pub(super) fn mouse(&mut self, mouse: MouseEvent) {
        if self.mode != Mode::Look {
            return;
        }
        match mouse.kind {
            MouseEventKind::ScrollUp => self.go(self.cursor.saturating_sub(WHEEL)),
            MouseEventKind::ScrollDown => self.go(self.cursor + WHEEL),
            MouseEventKind::Down(MouseButton::Left) => self.click(usize::from(mouse.row)),
            _ => {}
        }
    }

    fn click(&mut self, row: usize) {
        let layout = self.layout();
        if let Some(place) = row.checked_sub(layout.list_at).filter(|&place| place < layout.list) {
            if self.first + place < self.listed.len() {
                self.go(self.first + place);
            }
        } else if let Some(place) = row.checked_sub(layout.devices_at)
            && place < layout.devices
        {
            self.choose_device(layout.first_device + place);
        }
    }
}
