//! One picture of the jobs, 80 columns wide: figures and, drawn small, how their latencies are spread.

use super::figures::Figures;

/// Columns of a picture: those of a terminal of the usual size.
pub(super) const WIDTH: usize = 80;

/// Columns of the plot, and microseconds in each: wide enough for today's kernels, whose reads wait up to 60 ms, and
/// such that the waits to be seen (6, 12, 22 ms) lie inside columns, not between two.
const PLOT_COLUMNS: usize = 16;
const PLOT_COLUMN_US: u64 = 3_750;

/// Whether a picture has plots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Plot {
    Yes,
    No,
}

impl Plot {
    /// Columns of a latency. Without a plot there is room for seconds.
    fn width(self) -> usize {
        match self {
            Plot::Yes => 6,
            Plot::No => 9,
        }
    }
}

/// The line above the rows.
pub(super) fn head(plot: Plot) -> String {
    let mut line = format!("{:26}{:>6}", "latencies in ms", "IOPS");
    let width = plot.width();
    for name in ["mean", "p50", "p99", "p99.9", "max"] {
        line.push_str(&format!("{name:>width$}"));
    }
    if plot == Plot::Yes {
        // 20 ms are five columns and a third.
        line.push_str("  0    20   40  60");
    }
    line
}

/// One job.
pub(super) fn row(title: &str, figures: &Figures, now_ns: u64, plot: Plot) -> String {
    let mut line = format!("{title:26}{:>6.1}", figures.ios_per_sec(now_ns));
    let width = plot.width();
    let latencies = [
        figures.mean_ms(),
        figures.percentile_ms(50.0),
        figures.percentile_ms(99.0),
        figures.percentile_ms(99.9),
        figures.max_ms(),
    ];
    for latency in latencies {
        let told = match figures.is_empty() {
            true => "-".to_owned(),
            // Four digits stay apart from the next column, whatever the machine did to a read.
            false if plot == Plot::Yes && latency >= 99.995 => format!("{latency:.0}"),
            false => format!("{latency:.2}"),
        };
        line.push_str(&format!("{told:>width$}"));
    }
    if plot == Plot::Yes {
        line.push_str("  ");
        line.push_str(&bars(&figures.columns(PLOT_COLUMNS, PLOT_COLUMN_US)));
    }
    line
}

/// Parts of the whole as bars of eight heights; any non-zero part is visible.
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
    fn a_row_fits_eighty_columns() {
        let mut figures = Figures::new(0);
        (0..1990).for_each(|_| figures.note(6_000_000));
        (0..10).for_each(|_| figures.note(59_008_000));
        let line = row("Linux 4.18, before the fix", &figures, 20_000_000_000, Plot::Yes);
        let expected =
            "Linux 4.18, before the fix 100.0  6.26  6.00  6.00 59.02 59.02   █             ▁";
        assert_eq!(line.trim_end(), expected);
        assert!(line.chars().count() <= 80 && head(Plot::Yes).chars().count() <= 80);
        (0..10).for_each(|_| figures.note(2_820_670_000));
        let line = row("Linux 4.18, before the fix", &figures, 20_000_000_000, Plot::Yes);
        assert!(line.chars().count() <= 80 && line.contains("  2823  2823"), "{line}");
        let line = row("/weir/backup  32 at a time", &figures, 20_000_000_000, Plot::No);
        let max = format!("{:>9.2}", figures.max_ms());
        assert!(line.ends_with(&max) && line.chars().count() <= 80, "{line}");
        assert_eq!(head(Plot::No).chars().count(), line.chars().count());
    }

    #[test]
    fn progress_ends_full() {
        assert_eq!(progress(20.3, 20), format!("{}  20 s of 20 s", "━".repeat(40)));
        assert_eq!(progress(0.0, 20), format!("{}  0 s of 20 s", "·".repeat(40)));
    }
}
