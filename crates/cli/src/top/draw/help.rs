//! The page of keys.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::clear;
use crate::top::theme::Theme;

const TEXT: &str = " ↑ ↓ k j PgUp PgDn g G   another cgroup        Tab  1 to 9   another device
 ← →  fold, unfold       * all                 t   without the tree
 s    sort by the next column                  r   the other way round
 /    only cgroups with this in their path     Esc all of them
 x    exports, or cgroups again                space  stand still, or go on
 q    quit

 e    change limits      w  its weight         :   any setting of `weir set`
      Before Enter it says what the change will do; the server may refuse it.

 IN FLIGHT   requests at the device, of those that it may have at once
 FOR LIMIT, FOR DEVICE   requests that wait: for a limit, for their turn there
 LIMITS      what a watermark does to them: hold, × a factor, lifted
 READ WRITE  bytes a second (K, M, G by 1024), with all cgroups below
 LIMIT       the fullest limit, and the part of it that is used; of what holds
             now: the limit as written times the watermark's factor
 P50 P99     latency in the last seconds, of reads or writes: the slower ones
 WAITS FOR   what requests waited for longest
 DEPTH       of an export: requests inside at once, on average
 Marks: ▾ there is more below, ▸ folded, ▼ sorted by this column.";

/// Draws it over the picture below the title.
pub(super) fn draw(buffer: &mut Buffer, area: Rect, theme: Theme) {
    let rows = area.height.saturating_sub(2);
    let below = Rect { y: area.y + 1.min(area.height), height: rows, ..area };
    clear(buffer, below);
    for (row, text) in TEXT.lines().enumerate().take(rows.into()) {
        let line = Line::styled(text, theme.plain());
        buffer.set_line(area.x, below.y + row as u16, &line, area.width);
    }
}

#[cfg(test)]
mod tests {
    use super::TEXT;

    #[test]
    fn the_page_fits_a_small_terminal() {
        assert!(TEXT.lines().count() <= 22);
        assert_eq!(TEXT.lines().find(|line| line.chars().count() > 80), None);
    }
}
