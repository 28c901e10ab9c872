//! Lines of the devices.

use ratatui::text::{Line, Span};

use crate::top::figures::{bar, cut, percent};
use crate::top::reading::View;
use crate::top::state::State;
use crate::top::theme::Theme;

/// Columns of a name, without the mark of the chosen device.
const NAME: usize = 10;
const BAR: usize = 10;
/// Columns of everything but the sparkline.
const ALL: usize = 80;
/// Widest sparkline.
const TREND_MAX: usize = 40;

pub(super) fn head(width: usize, theme: Theme) -> Line<'static> {
    let trend = if width >= ALL + 10 { "  LAST READINGS" } else { "" };
    let text = format!(
        "  {:<NAME$} {:<16} {:>10} {:>9} {:>10} {:>9} {:>8}{trend}",
        "DEVICE", "UTILISATION", "IN FLIGHT", "FOR LIMIT", "FOR DEVICE", "WATERMARK", "LIMITS"
    );
    Line::styled(text, theme.heading())
}

pub(super) fn row(state: &State, view: View<'_>, is_chosen: bool) -> Line<'static> {
    let (theme, width) = (state.theme(), usize::from(state.size.0));
    let device = view.status;
    let used = view.found.utilisation_percent;
    let mark = if is_chosen { '▸' } else { ' ' };
    let root = device.cgroups.first().and_then(|root| root.io_watermark.as_ref());
    let watermark = device.watermarks.iter().find(|mark| Some(&mark.watermark) == root);
    // Where the device has none, one of its cgroups may.
    let watermark = watermark.or(device.watermarks.first());
    let (level, limits) = match watermark {
        None => ("-".to_owned(), "hold".to_owned()),
        Some(mark) => {
            let limits = match (mark.lifted, mark.multiplier) {
                (true, _) => "lifted".to_owned(),
                (false, 1.0) => "hold".to_owned(),
                (false, by) if by >= 1000.0 => format!("× {by:.0}"),
                (false, by) => format!("× {by:.2}"),
            };
            let mode = if mark.watermark.contains("gate") { " gate" } else { "" };
            (format!("{}{mode}", mark.watermark_percent), limits)
        }
    };
    let name = cut(&device.device, NAME);
    let in_flight = format!("{} of {}", device.in_flight, device.depth);
    let mut spans = vec![
        Span::styled(format!("{mark} {name:<NAME$} "), theme.bold()),
        Span::styled(bar(used, BAR), theme.bar(used)),
        Span::raw(format!(" {:>5} {in_flight:>10}", percent(used))),
        Span::raw(format!(" {:>9} {:>10}", device.throttled, device.ready)),
        Span::raw(format!(" {level:>9} {limits:>8}")),
    ];
    if width >= ALL + 10 {
        let room = (width - ALL - 2).min(TREND_MAX);
        let trend = state.history.of_device(&device.device, room);
        spans.push(Span::styled(format!("  {trend}"), theme.dim()));
    }
    Line::from(spans)
}
