//! Last readings of each cgroup and device, for sparklines.

use std::collections::{HashMap, VecDeque};

use super::reading::Reading;

/// Readings that are kept, and the widest sparkline.
pub(super) const READINGS: usize = 60;

/// Bytes a second of each cgroup, and utilisation of each device.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct History {
    devices: HashMap<String, OfDevice>,
}

#[derive(Clone, PartialEq, Debug, Default)]
struct OfDevice {
    utilisation: VecDeque<f32>,
    bytes: HashMap<String, VecDeque<f32>>,
}

impl History {
    /// Adds a reading. What is not there any more is forgotten. O(cgroups).
    pub(super) fn push(&mut self, reading: &Reading) {
        let mut devices = HashMap::new();
        for view in reading.views() {
            let mut old = self.devices.remove(&view.status.device).unwrap_or_default();
            let mut bytes = HashMap::with_capacity(view.status.cgroups.len());
            for (cgroup, rates) in view.status.cgroups.iter().zip(&view.found.rates) {
                let (path, mut values) = old
                    .bytes
                    .remove_entry(&cgroup.cgroup)
                    .unwrap_or_else(|| (cgroup.cgroup.clone(), VecDeque::new()));
                let sum = rates.read_bytes_per_sec as f32 + rates.write_bytes_per_sec as f32;
                push(&mut values, sum);
                bytes.insert(path, values);
            }
            push(&mut old.utilisation, view.found.utilisation_percent as f32);
            let utilisation = old.utilisation;
            devices.insert(view.status.device.clone(), OfDevice { utilisation, bytes });
        }
        self.devices = devices;
    }

    /// Utilisation of a device in `width` columns, of 100 %.
    pub(super) fn of_device(&self, device: &str, width: usize) -> String {
        let values = self.devices.get(device).map(|of| &of.utilisation);
        values.map_or(String::new(), |values| sparkline(values, 100.0, width))
    }

    /// Bytes a second of a cgroup in `width` columns, of the most that it had.
    pub(super) fn of_cgroup(&self, device: &str, path: &str, width: usize) -> String {
        let values = self.devices.get(device).and_then(|of| of.bytes.get(path));
        values.map_or(String::new(), |values| {
            sparkline(values, values.iter().copied().fold(0.0, f32::max), width)
        })
    }
}

fn push(values: &mut VecDeque<f32>, value: f32) {
    if values.len() == READINGS {
        values.pop_front();
    }
    values.push_back(value);
}

/// The last values as bars of eight heights, the newest on the right. Nothing is a dot, anything more can be seen.
fn sparkline(values: &VecDeque<f32>, of: f32, width: usize) -> String {
    const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let bar = |&value: &f32| match (value > 0.0, of > 0.0) {
        (true, true) => HEIGHTS[((8.0 * value / of).ceil() as usize).clamp(1, 8) - 1],
        _ => '·',
    };
    let shown = values.iter().skip(values.len().saturating_sub(width));
    let bars: String = shown.map(bar).collect();
    format!("{bars:>width$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_value_is_on_the_right() {
        let values: VecDeque<f32> = [0.0, 1.0, 50.0, 100.0, 100.0].into();
        assert_eq!(sparkline(&values, 100.0, 7), "  ·▁▄██");
        assert_eq!(sparkline(&values, 100.0, 3), "▄██");
        assert_eq!(sparkline(&values, 0.0, 3), "···");
        let mut values = VecDeque::new();
        (0..100).for_each(|value| push(&mut values, value as f32));
        assert_eq!((values.len(), values[0]), (READINGS, 40.0));
    }
}
