//! Frame of the tenants: limit, rate, and the rate over the last seconds.

use super::plan::{DISK, TENANTS, Tenant};
use super::rates::Rates;

/// Columns of a bar of the whole disk.
const BAR: usize = 16;

const MIB: f64 = 1_048_576.0;

/// Lines of at most 80 columns.
pub(super) fn picture(rates: &Rates, dim: impl Fn(&str) -> String) -> Vec<String> {
    let now = rates.now();
    let whole = format!("{:.0} MiB/s", DISK as f64 / MIB);
    let head = format!(
        "{:8}{:>11}{:>13}  0{whole:>width$}  the last seconds",
        "",
        "limit",
        "now",
        width = BAR - 1
    );
    let mut lines = vec![dim(&head)];
    for (index, tenant) in TENANTS.iter().enumerate() {
        lines.push(row(tenant, now.map(|now| now[index]), rates.past(index)));
    }
    let Some(reading) = rates.last() else { return lines };
    let limits = match reading.multiplier {
        1.0 => "limits hold as written".to_owned(),
        multiplier => format!("limits are multiplied by {multiplier:.2}"),
    };
    let split = match now {
        Some([one, two, _]) if two > 0.0 => format!("   one : two = {:.2} : 1", one / two),
        _ => String::new(),
    };
    lines.push(String::new());
    lines.push(format!("disk busy {:3.0} %   {limits}{split}", reading.utilisation_percent));
    lines
}

fn row(tenant: &Tenant, now: Option<f64>, past: impl Iterator<Item = f64>) -> String {
    let limit = match tenant.limit {
        Some(limit) => format!("{:.0} MiB/s", limit as f64 / MIB),
        None => "none".into(),
    };
    let rate = now.map_or("-".into(), |now| format!("{:.1} MiB/s", now / MIB));
    let part = now.unwrap_or(0.0) / DISK as f64;
    let full = ((part * BAR as f64).round() as usize).min(BAR);
    let bar = "█".repeat(full) + &"·".repeat(BAR - full);
    let past: String = past.map(|rate| height(rate / DISK as f64)).collect();
    format!("{:8}{limit:>11}{rate:>13}  {bar}  {past}", tenant.cgroup())
}

/// A part of the whole as one of eight heights; any non-zero part is visible.
fn height(part: f64) -> char {
    const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    match (part * 8.0).ceil() as usize {
        0 => ' ',
        height => HEIGHTS[height.min(8) - 1],
    }
}

#[cfg(test)]
mod tests {
    use super::super::rates::Rates;
    use super::*;

    #[test]
    fn a_row_fits_eighty_columns() {
        let line = row(&TENANTS[0], Some(16.0 * MIB), (0..28).map(|_| 16.0 * MIB));
        assert!(
            line.starts_with("/one        4 MiB/s   16.0 MiB/s  ███████████·····  ▆▆▆"),
            "{line}"
        );
        assert_eq!(line.chars().count(), 80);
        let line = row(&TENANTS[2], None, [0.0, 0.1].into_iter());
        assert_eq!(line, format!("/three         none            -  {}   ▁", "·".repeat(16)));
        assert_eq!(picture(&Rates::default(), str::to_owned).len(), 4);
    }
}
