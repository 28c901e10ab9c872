//! Rows of the picture.

use weir_lab::report::wrap;

use super::state::{Mode, State};

/// Rows of a terminal from which on there is room for details of the chosen cgroup.
const DETAILS_FROM: usize = 18;
/// Rows of these details: a rule, limits, latencies of both directions, waits.
const DETAILS: usize = 5;
/// Most rows of what a setting will do.
const PREVIEW_MAX: usize = 10;
/// Most rows of the sentence about a device.
const ODD_MAX: usize = 2;

/// Where each part is, from above. Parts without rows are left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Layout {
    /// Row of the first device, below its heading.
    pub(super) devices_at: usize,
    /// Devices in the picture, and the first of them.
    pub(super) devices: usize,
    pub(super) first_device: usize,
    /// Rows of the sentence about the chosen device.
    pub(super) odd: usize,
    /// Row of the first cgroup, below its heading.
    pub(super) list_at: usize,
    pub(super) list: usize,
    /// Rows of details, or of what a setting will do.
    pub(super) panel: usize,
}

impl State {
    /// The rows, for the size of the terminal. Devices are always in view: of very many, those around the chosen one.
    pub(super) fn layout(&self) -> Layout {
        let rows = usize::from(self.size.1);
        let count = self.reading.as_ref().map_or(0, |reading| reading.devices.len());
        let devices = count.min((rows / 4).max(1));
        let first_device = self.device.saturating_sub(devices.saturating_sub(1));
        // Title, heading of devices, heading of cgroups, keys.
        let fixed = 4;
        let panel = match &self.mode {
            Mode::Edit(_) => self.panel_lines().len().clamp(3, PREVIEW_MAX).min(rows / 2),
            _ if rows >= DETAILS_FROM => DETAILS,
            _ => 0,
        };
        let odd = self.odd_lines().len();
        let odd = if rows > fixed + devices + odd + panel + 3 { odd } else { 0 };
        let list = rows.saturating_sub(fixed + devices + odd + panel);
        let list_at = 3 + devices + odd;
        Layout { devices_at: 2, devices, first_device, odd, list_at, list, panel }
    }

    /// The sentence about the chosen device, if there is one, in lines.
    pub(super) fn odd_lines(&self) -> Vec<String> {
        let odd = self.view().and_then(|view| view.found.odd.as_ref());
        let width = usize::from(self.size.0).max(20);
        let lines = odd.map(|odd| wrap(&format!("  {odd}"), width, 2)).unwrap_or_default();
        lines.into_iter().take(ODD_MAX).collect()
    }
}
