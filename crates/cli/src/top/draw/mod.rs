//! The picture: lines of the state, and their places on a terminal.

mod cgroups;
mod details;
mod devices;
mod exports;
mod help;

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use weir_lab::report::wrap;

pub(super) use self::cgroups::Columns;
use super::input::Input;
use super::reading::View;
use super::state::{Mode, State};
use super::theme::Theme;
use crate::status::SortKey;

/// Draws the state on the whole terminal, and puts the cursor where something is typed.
pub(super) fn draw(frame: &mut Frame<'_>, state: &State) {
    let area = frame.area();
    if area.is_empty() {
        return;
    }
    let lines = picture(state);
    let buffer = frame.buffer_mut();
    for (row, line) in lines.iter().take(area.height.into()).enumerate() {
        buffer.set_line(area.x, area.y + row as u16, line, area.width);
    }
    if let Mode::Help = state.mode {
        help::draw(buffer, area, state.theme());
    }
    if let Some(column) = state.typed_at() {
        let column = (column as u16).min(area.width - 1);
        frame.set_cursor_position((area.x + column, area.bottom() - 1));
    }
}

/// The lines of the picture, from above, as many as the terminal has.
fn picture(state: &State) -> Vec<Line<'static>> {
    let (theme, width) = (state.theme(), usize::from(state.size.0));
    let layout = state.layout();
    let mut lines = vec![title(state), devices::head(width, theme)];
    let views = state.reading.iter().flat_map(|reading| reading.views().enumerate());
    for (place, view) in views.skip(layout.first_device).take(layout.devices) {
        lines.push(devices::row(state, view, place == state.device));
    }
    let odd = state.odd_lines().into_iter().take(layout.odd);
    lines.extend(odd.map(|text| Line::styled(text, theme.warning())));
    let columns = Columns::of(width);
    let of_exports = exports::Columns::of(width);
    lines.push(if state.has_exports { of_exports.head(state) } else { columns.head(state) });
    let shown = state.listed.iter().enumerate().skip(state.first).take(layout.list);
    if let Some(view) = state.view() {
        for (place, &index) in shown {
            let is_chosen = place == state.cursor;
            lines.push(match state.has_exports {
                true => of_exports.row(state, view, index, is_chosen),
                false => columns.row(state, view, index, is_chosen),
            });
        }
    }
    let list_end = layout.list_at + layout.list;
    if state.listed.is_empty() && layout.list > 0 {
        lines.push(Line::styled(nothing(state), theme.dim()));
    }
    lines.resize(list_end, Line::default());
    let panel = match &state.mode {
        Mode::Edit(_) => state.panel_lines(),
        _ => details::lines(state),
    };
    lines.extend(panel.into_iter().take(layout.panel));
    lines.resize(list_end + layout.panel, Line::default());
    // On a very low terminal the last line stays.
    lines.truncate(usize::from(state.size.1).saturating_sub(1));
    lines.push(foot(state));
    lines
}

/// What stands in an empty list.
fn nothing(state: &State) -> String {
    match &state.reading {
        None => "waiting for a second reading".into(),
        Some(_) if state.has_exports && !state.filter.is_empty() => {
            format!("no export of this device has {:?} in its name", state.filter)
        }
        Some(_) if state.has_exports => "no exports of this device".into(),
        Some(_) if !state.filter.is_empty() => {
            format!("no cgroup has {:?} in its path", state.filter)
        }
        Some(_) => "no cgroups".into(),
    }
}

fn title(state: &State) -> Line<'static> {
    let theme = state.theme();
    let mut spans = vec![Span::styled("Weir top", theme.heading())];
    if let Some((reading, view)) = state.reading.as_ref().zip(state.view()) {
        let version = &reading.status.version;
        let counted = match state.has_exports {
            true => format!("{} exports", view.exports(SortKey::Path, false).len()),
            false => format!("{} cgroups", view.status.cgroups.len().saturating_sub(1)),
        };
        let mut text = format!("  {version}   {counted}");
        if !state.filter.is_empty() {
            text += &format!(", those with {:?}", state.filter);
        }
        spans.push(Span::raw(text));
        let order = if state.is_reversed { " reversed" } else { "" };
        let list = if state.is_flat { ", without the tree" } else { "" };
        spans.push(Span::raw(format!("   by {}{order}{list}", state.sort.name())));
    }
    if state.is_frozen {
        spans.push(Span::styled("   FROZEN, space goes on", theme.warning()));
    }
    if let Some(why) = &state.unread {
        spans.push(Span::styled(format!("   NO ANSWER: {why}"), theme.error()));
    }
    Line::from(spans)
}

/// The last line: what is typed, what happened, or the keys.
fn foot(state: &State) -> Line<'static> {
    let theme = state.theme();
    match &state.mode {
        Mode::Filter(input) => Line::from(format!("/{}", state.scrolled(input, 1).0)),
        Mode::Edit(edit) => {
            let prompt = prompt(&edit.cgroup);
            let (text, _) = state.scrolled(&edit.input, prompt.chars().count());
            Line::from(vec![Span::styled(prompt, theme.bold()), Span::raw(text)])
        }
        Mode::Help => Line::styled("any key: back   q quit", theme.dim()),
        Mode::Look if !state.message.is_empty() => {
            Line::styled(state.message.join("; "), theme.bold())
        }
        Mode::Look => Line::styled(KEYS, theme.dim()),
    }
}

const KEYS: &str = "q quit  ? help  e limits  w weight  x exports  s sort  / filter  space freeze";

fn prompt(cgroup: &str) -> String {
    format!("{} ", super::figures::cut(cgroup, 30))
}

impl State {
    pub(super) fn theme(&self) -> Theme {
        Theme { coloured: self.options.coloured }
    }

    /// What a setting will do, or why it was refused, below a rule.
    pub(super) fn panel_lines(&self) -> Vec<Line<'static>> {
        let Mode::Edit(edit) = &self.mode else { return Vec::new() };
        let (theme, width) = (self.theme(), usize::from(self.size.0).max(20));
        let asks = match (edit.is_sent, edit.refusal.is_empty()) {
            (true, _) => "the server is asked",
            (false, false) => "refused; Esc leaves it",
            (false, true) => "Enter sets it, Esc leaves it",
        };
        let heading = format!("{} on {}: {asks}", edit.cgroup, edit.device);
        let mut lines = vec![details::rule(&heading, width, theme)];
        let (told, style) = match (edit.refusal.is_empty(), self.preview(edit)) {
            (false, _) => (edit.refusal.clone(), theme.error()),
            (true, Ok(preview)) => (preview.lines, theme.plain()),
            (true, Err(why)) => (vec![why], theme.warning()),
        };
        // A number stays with its sign.
        let told = told.iter().map(|text| format!(" {}", text.replace(" %", "\u{a0}%")));
        let told = told.flat_map(|text| wrap(&text, width, 3));
        lines.extend(told.map(|text| Line::styled(text, style)));
        lines
    }

    /// Column of the cursor in the last line, where something is typed.
    fn typed_at(&self) -> Option<usize> {
        let (input, before) = match &self.mode {
            Mode::Filter(input) => (input, 1),
            Mode::Edit(edit) => (&edit.input, prompt(&edit.cgroup).chars().count()),
            Mode::Look | Mode::Help => return None,
        };
        let (_, cut) = self.scrolled(input, before);
        Some((before + input.cursor()).saturating_sub(cut))
    }

    /// The part of a typed text that fits behind a prompt, with its cursor, and how many characters before it do not.
    fn scrolled(&self, input: &Input, before: usize) -> (String, usize) {
        let (text, room) = (input.text(), usize::from(self.size.0).saturating_sub(before + 1));
        let cut = text.chars().count().saturating_sub(room.max(1)).min(input.cursor());
        (text.chars().skip(cut).collect(), cut)
    }
}

/// All devices and the `most` busiest cgroups and exports of each that are used, as plain text, `width` columns wide.
pub(super) fn text(state: &State, width: usize, most: usize) -> String {
    let Some(reading) = &state.reading else { return String::new() };
    let theme = state.theme();
    let mut lines = vec![devices::head(width, theme)];
    lines.extend(reading.views().map(|view| devices::row(state, view, false)));
    let columns = Columns::of(width);
    for view in reading.views() {
        lines.push(Line::default());
        if reading.devices.len() > 1 {
            lines.push(Line::from(format!("{}:", view.status.device)));
        }
        let odd = view.found.odd.iter().flat_map(|odd| wrap(odd, width, 2));
        lines.extend(odd.map(Line::from));
        lines.push(columns.head(state));
        let mut listed = view.listed(state.sort, false, |_| true);
        let all = listed.len();
        listed.retain(|&index| index == 0 || !is_unused(view, index));
        listed.truncate(most);
        lines.extend(listed.iter().map(|&index| columns.row(state, view, index, false)));
        match all - listed.len() {
            0 => {}
            more => lines.push(Line::from(format!("and {more} that do less"))),
        }
        let mut listed = view.exports(state.sort, false);
        let all = listed.len();
        listed.retain(|&index| {
            let (export, rates) = view.export(index);
            rates.answered_ios_per_sec > 0.0 || export.connections > 0
        });
        listed.truncate(most);
        if !listed.is_empty() {
            let columns = exports::Columns::of(width);
            lines.extend([Line::default(), columns.head(state)]);
            lines.extend(listed.iter().map(|&index| columns.row(state, view, index, false)));
            match all - listed.len() {
                0 => {}
                more => lines.push(Line::from(format!("and {more} exports that do less"))),
            }
        }
    }
    plain(&lines)
}

fn plain(lines: &[Line<'_>]) -> String {
    let text = |line: &Line<'_>| {
        let text: String = line.spans.iter().map(|span| span.content.as_ref()).collect();
        format!("{}\n", text.trim_end())
    };
    lines.iter().map(text).collect()
}

/// Makes an area blank.
fn clear(buffer: &mut Buffer, area: Rect) {
    for row in area.rows() {
        for column in row.columns() {
            if let Some(cell) = buffer.cell_mut((column.x, column.y)) {
                cell.reset();
            }
        }
    }
}

/// Whether nothing happens in a cgroup.
fn is_idle(view: View<'_>, index: usize) -> bool {
    let rates = view.rates(index);
    rates.completed_ios_per_sec == 0.0 && rates.throttled_ios_per_sec == 0.0
}

/// Whether no client is there either, so that a printed picture can do without.
fn is_unused(view: View<'_>, index: usize) -> bool {
    is_idle(view, index) && view.cgroup(index).connections == 0
}
