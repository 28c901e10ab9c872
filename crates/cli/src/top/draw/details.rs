//! Lines about the chosen cgroup.

use ratatui::text::Line;
use weir_server::status::Percentiles;

use crate::status::{breakable, rounded};
use crate::top::figures::{percent, time};
use crate::top::reading::View;
use crate::top::state::State;
use crate::top::theme::Theme;
use weir_lab::report::wrap;

/// Limits, latencies by direction and waits, below a rule with its path.
pub(super) fn lines(state: &State) -> Vec<Line<'static>> {
    let Some((view, index)) = state.view().zip(state.chosen()) else { return Vec::new() };
    let (theme, width) = (state.theme(), usize::from(state.size.0).max(20));
    let cgroup = view.cgroup(index);
    let trend = state.history.of_cgroup(&view.status.device, &cgroup.cgroup, width / 4);
    let connected = match cgroup.connections {
        0 => String::new(),
        1 => ", 1 connection".into(),
        count => format!(", {count} connections"),
    };
    let heading = format!(
        "{}: weight {}, {}{connected}  {}",
        cgroup.cgroup,
        cgroup.io_weight,
        cgroup.limiter,
        trend.trim_start()
    );
    let waited = breakable(&view.rates(index).waited_for);
    let waited = if waited.is_empty() { "for nothing".to_owned() } else { format!("for {waited}") };
    let mut told = vec![format!(" limits  {}", limits(view, index))];
    let latency = &cgroup.latency;
    for (name, recent) in [("reads", latency.read.recent), ("writes", latency.write.recent)] {
        if !recent.is_empty() {
            told.push(format!(" {name:<7} {}", percentiles(recent)));
        }
    }
    told.push(format!(" waited  {waited}"));
    let mut lines = vec![rule(&heading, width, theme)];
    let wrapped = told.iter().flat_map(|text| wrap(text, width, 9));
    lines.extend(wrapped.map(Line::from));
    lines
}

/// Each limit: what is used of what holds, and what it is multiplied by.
fn limits(view: View<'_>, index: usize) -> String {
    let limits = view.limits(index);
    let told = limits.iter().map(|used| {
        let rate = |rate: f64| rounded(used.dimension, rate);
        let (key, now, written) =
            (used.dimension.key(), rate(used.used), rate(used.written as f64));
        let part = percent(used.percent());
        match used.multiplier {
            1.0 => format!("{key} {now} of {written}/s ({part})"),
            by if by.is_infinite() => format!("{key} {now}/s, {written}/s is lifted"),
            by => format!("{key} {now} of {written}/s × {by:.2} ({part})"),
        }
    });
    let told: Vec<String> = told.collect();
    match told[..] {
        [] => "none of its own".into(),
        _ => told.join(", "),
    }
}

fn percentiles(recent: Percentiles) -> String {
    let [p50, p99, p999, max] =
        [recent.p50_ns, recent.p99_ns, recent.p999_ns, recent.max_ns].map(time);
    format!("p50 {p50}, p99 {p99}, p99.9 {p999}, max {max} in the last seconds")
}

/// `── TEXT ────`
pub(super) fn rule(text: &str, width: usize, theme: Theme) -> Line<'static> {
    let text = crate::top::figures::cut(text, width.saturating_sub(6));
    let rest = width.saturating_sub(text.chars().count() + 4);
    Line::styled(format!("── {text} {}", "─".repeat(rest)), theme.heading())
}
