//! One picture of the jobs: figures and, drawn small, how their latencies are spread.

use super::figures::Figures;

/// Columns of the plot, and microseconds in each: wide enough for today's kernels, whose reads wait up to 60 ms, and
/// such that the waits to be seen (6, 12, 22 ms) lie inside columns, not between two.
const PLOT_COLUMNS: usize = 24;
const PLOT_COLUMN_US: u64 = 2_500;

/// Whether a picture has plots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Plot {
    Yes,
    No,
}

/// The line above the rows.
pub(super) fn head(plot: Plot) -> String {
    let figures = format!(
        "{:27}{:>7}{:>8}{:>8}{:>8}{:>8}{:>8}",
        "latencies in ms", "IOPS", "mean", "p50", "p99", "p99.9", "max"
    );
    match plot {
        // A mark every 8 columns is one every 20 ms.
        Plot::Yes => format!("{figures}  0       20      40    60"),
        Plot::No => figures,
    }
}

/// One job.
pub(super) fn row(title: &str, figures: &Figures, now_ns: u64, plot: Plot) -> String {
    let mut line = format!("{title:27}{:>7.1}", figures.ios_per_sec(now_ns));
    let latencies = [
        figures.mean_ms(),
        figures.percentile_ms(50.0),
        figures.percentile_ms(99.0),
        figures.percentile_ms(99.9),
        figures.max_ms(),
    ];
    for latency in latencies {
        match figures.is_empty() {
            true => line.push_str("       -"),
            false => line.push_str(&format!("{latency:>8.2}")),
        }
    }
    if plot == Plot::Yes {
        line.push_str("  ");
        line.push_str(&bars(&figures.columns(PLOT_COLUMNS, PLOT_COLUMN_US)));
    }
    line
}

/// Parts of the whole as bars of eight heights; what is not nothing is seen.
fn bars(parts: &[f64]) -> String {
    const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let bar = |part: &f64| match (part * 8.0).ceil() as usize {
        0 => ' ',
        height => HEIGHTS[height.min(8) - 1],
    };
    parts.iter().map(bar).collect()
}

/// How far it is: `████····  12 s of 20 s`.
pub(super) fn progress(elapsed_secs: f64, seconds: u64) -> String {
    const WIDTH: usize = 40;
    let part = (elapsed_secs / seconds.max(1) as f64).clamp(0.0, 1.0);
    let done = (part * WIDTH as f64).round() as usize;
    let bar = "━".repeat(done) + &"·".repeat(WIDTH - done);
    format!("{bar}  {:.0} s of {seconds} s", elapsed_secs.min(seconds as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_fits_a_hundred_columns() {
        let mut figures = Figures::new(0);
        (0..1990).for_each(|_| figures.note(6_000_000));
        (0..10).for_each(|_| figures.note(59_008_000));
        let line = row("Linux 4.18, before the fix", &figures, 20_000_000_000, Plot::Yes);
        let expected = "Linux 4.18, before the fix   100.0    6.26    6.00    6.00   59.02   59.02    █                    ▁";
        assert_eq!(line, expected);
        assert!(line.chars().count() <= 100 && head(Plot::Yes).chars().count() <= 100);
    }

    #[test]
    fn progress_ends_full() {
        assert_eq!(progress(20.3, 20), format!("{}  20 s of 20 s", "━".repeat(40)));
        assert_eq!(progress(0.0, 20), format!("{}  0 s of 20 s", "·".repeat(40)));
    }
}
