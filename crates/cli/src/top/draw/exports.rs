//! Lines of the exports: what their clients have.

use ratatui::text::{Line, Span};

use super::cgroups;
use crate::status::SortKey;
use crate::top::figures::{bytes, cut, ios, time};
use crate::top::reading::View;
use crate::top::state::State;

/// Columns of CONN, DEPTH, READ, WRITE, IOPS, and latencies of reads and writes.
const FIGURES: usize = 5 + 6 + 6 + 6 + 6 + 4 * 7;
/// Narrower than this a picture is cut off at the right.
const WIDTH_MIN: usize = 80;

/// Columns whose width depends on the terminal's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::top) struct Columns {
    name: usize,
    cause: usize,
}

impl Columns {
    /// For a picture so wide.
    pub(super) fn of(width: usize) -> Columns {
        // One blank before the cause.
        let room = width.clamp(WIDTH_MIN, 140) - FIGURES - 1;
        let name = room * 3 / 7;
        Columns { name, cause: room - name }
    }

    pub(super) fn head(self, state: &State) -> Line<'static> {
        let mark = |key: SortKey, name: &str| match state.sort == key {
            true if state.is_reversed => format!("▲{name}"),
            true => format!("▼{name}"),
            false => format!(" {name}"),
        };
        let Columns { name, cause } = self;
        let text = format!(
            "{:<name$}{:>5}{:>6}{:>6}{:>6}{:>6}{:>7}{:>7}{:>7}{:>7} {:<cause$}",
            mark(SortKey::Path, "EXPORT").trim_start(),
            "CONN",
            "DEPTH",
            mark(SortKey::Read, "READ"),
            mark(SortKey::Write, "WRITE"),
            mark(SortKey::Iops, "IOPS"),
            "R P50",
            mark(SortKey::P99, "R P99"),
            "W P50",
            "W P99",
            "WAITS FOR",
        );
        Line::styled(text, state.theme().heading())
    }

    /// The export at `index` of the reading, which is one of this device.
    pub(super) fn row(
        self,
        state: &State,
        view: View<'_>,
        index: usize,
        is_chosen: bool,
    ) -> Line<'static> {
        let theme = state.theme();
        let (export, rates) = view.export(index);
        let is_idle = rates.answered_ios_per_sec == 0.0;
        let base = if is_idle { theme.dim() } else { theme.plain() };
        let Columns { name, cause } = self;
        let inside = match rates.inside_mean {
            0.0 => "-".to_owned(),
            inside if inside < 100.0 => format!("{inside:.1}"),
            inside => format!("{inside:.0}"),
        };
        let [read, write] = [export.latency.read.recent, export.latency.write.recent];
        let of_cgroup = view.place(&export.cgroup).filter(|_| !is_idle);
        let waits = of_cgroup
            .map_or("-".to_owned(), |place| cut(&cgroups::cause(view, place, cause), cause));
        let text = format!(
            "{:<name$} {:>4} {inside:>5} {:>5} {:>5} {:>5} {:>6} {:>6} {:>6} {:>6} {waits:<cause$}",
            cut(&export.export, name),
            export.connections,
            bytes(rates.read_bytes_per_sec),
            bytes(rates.write_bytes_per_sec),
            ios(rates.answered_ios_per_sec),
            time(read.p50_ns),
            time(read.p99_ns),
            time(write.p50_ns),
            time(write.p99_ns),
        );
        let line = Line::from(Span::styled(text, base));
        if is_chosen { line.style(theme.chosen()) } else { line }
    }
}
