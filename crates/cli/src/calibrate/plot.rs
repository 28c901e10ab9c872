//! Rates by depth, as bars on the terminal.

use weir_calibrate::{Order, Step};
use weir_units::{Bytes, BytesPerSec, IosPerSec};

/// Characters of the longest bar.
const WIDTH: usize = 40;

/// One block of lines for each kind of load that was measured at several depths.
pub(super) fn lines(steps: &[Step]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rest = steps;
    while let [first, ..] = rest {
        let alike = rest.iter().take_while(|step| step.load.is_alike(&first.load)).count();
        let (block, after) = rest.split_at(alike);
        rest = after;
        if block.len() > 1 {
            lines.push(String::new());
            lines.push(first.load.to_string());
            lines.extend(bars(block));
        }
    }
    lines
}

fn bars(block: &[Step]) -> impl Iterator<Item = String> + '_ {
    let most = block.iter().map(Step::per_sec).fold(0.0, f64::max);
    block.iter().map(move |step| {
        let bar = bar(step.per_sec() / most);
        let unsteady = if step.is_steady { "" } else { "  did not settle" };
        format!("{:>5} at once  {:>11}  {bar}{unsteady}", step.load.depth, rate(step))
            .trim_end()
            .to_owned()
    })
}

/// The rate in the load's unit: bytes of long requests, number of short ones.
pub(super) fn rate(step: &Step) -> String {
    let is_long = step.load.len >= 1 << 20;
    match step.load.order {
        Order::Sequential { .. } if is_long => {
            BytesPerSec(step.bytes_per_sec() as u64).rounded().to_string()
        }
        _ => IosPerSec(step.per_sec() as u64).rounded().to_string(),
    }
}

/// A bar of this share of the longest, in eighths of a character.
fn bar(share: f64) -> String {
    const PARTS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let eighths = (share.clamp(0.0, 1.0) * (WIDTH * 8) as f64).round() as usize;
    let mut bar = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        bar.push(PARTS[eighths % 8]);
    }
    bar
}

/// A size for people.
pub(super) fn size(bytes: u64) -> String {
    Bytes(bytes).rounded().to_string()
}

#[cfg(test)]
mod tests {
    use weir_calibrate::Load;
    use weir_engine::Direction;

    use super::*;

    fn step(depth: u32, requests: u64, is_steady: bool) -> Step {
        let load = Load { direction: Direction::Read, order: Order::Random, len: 4096, depth };
        Step { load, requests, elapsed_ns: 1_000_000_000, is_steady }
    }

    #[test]
    fn bars_are_as_long_as_rates_are_high() {
        let steps = [step(1, 120, true), step(4, 200, false), step(16, 240, true)];
        let wanted = [
            "",
            "random reads of 4 KiB",
            "    1 at once        120/s  ████████████████████",
            "    4 at once        200/s  █████████████████████████████████▍  did not settle",
            "   16 at once        240/s  ████████████████████████████████████████",
        ];
        assert_eq!(lines(&steps), wanted);
        // One depth alone shows nothing.
        assert_eq!(lines(&steps[..1]), Vec::<String>::new());
        assert_eq!(
            (bar(0.0).as_str(), bar(f64::NAN).as_str(), bar(7.0).len()),
            ("", "", 3 * WIDTH)
        );
    }
}
