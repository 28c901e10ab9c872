//! Lines of the cgroups: a tree, with columns.

use ratatui::text::{Line, Span};

use super::is_idle;
use crate::status::{SortKey, slower};
use crate::top::figures::{bar, bytes, cut, ios, percent, time};
use crate::top::history::READINGS;
use crate::top::reading::View;
use crate::top::state::State;

/// Columns of a limit's bar.
const BAR: usize = 4;
/// Columns of all figures, and of the blanks before them: READ, WRITE, IOPS, LIMIT, P50, P99.
const FIGURES: usize = 6 + 6 + 6 + 17 + 7 + 7;
/// Narrower than this a picture is cut off at the right, not pressed together.
const WIDTH_MIN: usize = 72;
/// Widths from which on there is room for a share, and for sparklines.
const SHARE_FROM: usize = 90;
const TREND_FROM: usize = 100;
/// Columns of names and of causes at most.
const NAME_MAX: usize = 48;
/// Indentation of a level, and most levels that are indented.
const INDENT: usize = 2;
const LEVELS_MAX: usize = 6;

/// Columns whose width depends on the terminal's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::top) struct Columns {
    name: usize,
    has_share: bool,
    cause: usize,
    trend: usize,
}

impl Columns {
    /// For a picture so wide.
    pub(in crate::top) fn of(width: usize) -> Columns {
        let has_share = width >= SHARE_FROM;
        let trend = match width {
            ..TREND_FROM => 0,
            width => ((width - 84) / 2).min(READINGS / 2),
        };
        let taken = FIGURES + if has_share { 6 } else { 0 } + if trend > 0 { trend + 1 } else { 0 };
        // One blank before the cause.
        let room = width.max(WIDTH_MIN).saturating_sub(taken + 1).max(20);
        let name = (room * 8 / 15).clamp(10, NAME_MAX);
        Columns { name, has_share, cause: room - name, trend }
    }

    pub(super) fn head(&self, state: &State) -> Line<'static> {
        let name = self.name;
        // The mark takes the blank between two columns.
        let mark = |key: SortKey, name: &str| match state.sort == key {
            true if state.is_reversed => format!("▲{name}"),
            true => format!("▼{name}"),
            false => format!(" {name}"),
        };
        let mut text = match state.sort {
            SortKey::Path => format!("{:<name$}", mark(SortKey::Path, "CGROUP")),
            _ => format!("{:<name$}", "CGROUP"),
        };
        if self.has_share {
            text += &format!("{:>6}", mark(SortKey::Share, "SHARE"));
        }
        text += &format!(
            "{:>6}{:>6}{:>6}{:<17}{:>7}{:>7} {:<cause$}",
            mark(SortKey::Read, "READ"),
            mark(SortKey::Write, "WRITE"),
            mark(SortKey::Iops, "IOPS"),
            mark(SortKey::Held, "LIMIT"),
            " P50",
            mark(SortKey::P99, "P99"),
            "WAITS FOR",
            cause = self.cause,
        );
        if self.trend > 0 {
            text += &format!(" {:>trend$}", "LAST READINGS", trend = self.trend);
        }
        Line::styled(text, state.theme().heading())
    }

    pub(super) fn row(
        &self,
        state: &State,
        view: View<'_>,
        index: usize,
        is_chosen: bool,
    ) -> Line<'static> {
        let theme = state.theme();
        let (cgroup, rates) = (view.cgroup(index), view.rates(index));
        let latency = slower(cgroup);
        let base = if is_idle(view, index) { theme.dim() } else { theme.plain() };
        let name = format!("{:<name$}", self.name(state, view, index), name = self.name);
        let mut figures = String::new();
        if self.has_share {
            figures += &format!(" {:>5}", percent(rates.share()));
        }
        figures += &format!(
            " {:>5} {:>5} {:>5} ",
            bytes(rates.read_bytes_per_sec),
            bytes(rates.write_bytes_per_sec),
            ios(rates.completed_ios_per_sec)
        );
        let mut spans = vec![Span::styled(name, base), Span::styled(figures, base)];
        spans.extend(limit(state, view, index));
        let times = format!(" {:>6} {:>6} ", time(latency.p50_ns), time(latency.p99_ns));
        spans.push(Span::styled(times, base));
        let waits = cause(view, index, self.cause);
        spans.push(Span::styled(format!("{waits:<width$}", width = self.cause), base));
        if self.trend > 0 {
            let trend = state.history.of_cgroup(&view.status.device, &cgroup.cgroup, self.trend);
            spans.push(Span::styled(format!(" {trend}"), theme.dim()));
        }
        let line = Line::from(spans);
        if is_chosen { line.style(theme.chosen()) } else { line }
    }

    /// Indented by level, with a mark where there is something below; without a tree, the path.
    fn name(&self, state: &State, view: View<'_>, index: usize) -> String {
        let path = &view.cgroup(index).cgroup;
        let tree = &view.found.tree;
        let mark = match tree.children(index) {
            [] => ' ',
            _ if state.is_folded(&view.status.device, path) => '▸',
            _ => '▾',
        };
        let own = path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(path);
        // Where an ancestor is not listed as its parent, the path tells which one is meant.
        let own = if state.is_flat || tree.parent(index).is_none() { path } else { own };
        let level = if state.is_flat { 0 } else { tree.level(index).min(LEVELS_MAX) };
        let room = self.name.saturating_sub(INDENT * level + 2);
        let own = match state.is_flat {
            true => cut_before(own, room),
            false => cut(own, room),
        };
        format!("{:indent$}{mark} {own}", "", indent = INDENT * level)
    }
}

/// The fullest limit: its key, a bar, and how much of it is used.
fn limit(state: &State, view: View<'_>, index: usize) -> [Span<'static>; 3] {
    let theme = state.theme();
    let limits = view.limits(index);
    let percent_used = limits.first().map_or(0.0, |used| used.percent());
    let [key, bar, part] = match limits.first() {
        None => [format!("{:<7}", "-"), " ".repeat(BAR), " ".repeat(5)],
        Some(used) if used.multiplier.is_infinite() => {
            let key = used.dimension.key();
            [format!("{key:<6} "), format!("{:<BAR$}", "lift"), "ed   ".into()]
        }
        Some(used) => {
            let key = used.dimension.key();
            let part = percent(percent_used);
            [format!("{key:<6} "), bar(percent_used, BAR), format!("{part:>5}")]
        }
    };
    [Span::raw(key), Span::styled(bar, theme.bar(percent_used)), Span::raw(part)]
}

/// What requests waited for longest, in `width` columns.
pub(super) fn cause(view: View<'_>, index: usize, width: usize) -> String {
    let rates = view.rates(index);
    let Some(cause) = rates.waited_for.first() else {
        let is_held = rates.throttled_ios_per_sec > 0.0;
        return if is_held { "a limit".into() } else { "-".into() };
    };
    let words = cause.words();
    match (cause.dimension, &cause.cgroup) {
        (Some(key), Some(path)) if *path == view.cgroup(index).cgroup => format!("its own {key}"),
        // The end of a path says more than its beginning.
        (Some(key), Some(path)) if words.chars().count() > width => {
            let own = path.rsplit('/').next().unwrap_or_default();
            cut(&format!("{key} …/{own}"), width)
        }
        _ => cut(&words, width),
    }
}

/// At most `width` characters from the end.
fn cut_before(text: &str, width: usize) -> String {
    let count = text.chars().count();
    if count <= width {
        return text.into();
    }
    let kept: String = text.chars().skip(count + 1 - width.max(1)).collect();
    format!("…{kept}")
}
