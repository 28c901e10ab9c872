//! `io.max`, `io.burst` and `io.peak` of one cgroup: lines of `DEVICE KEY=VALUE...`, applied in their order.

use weir_engine::{Dimension, LimiterKind, Limits, PerDimension};
use weir_text::{IoMaxError, LimitKey, parse_limits, split_device};

use crate::device::Devices;
use crate::report::{Problem, Report};
use crate::source::{Span, Text};
use crate::table::Section;
use crate::validate::{self, Contradiction};
use crate::value::unknown_name;

/// Limits of one cgroup from its lines so far.
pub(crate) struct LimitLines {
    /// By device.
    limits: Vec<Limits>,
    /// Its source: the last line for each device and key.
    said: Vec<[Option<Said>; LimitKey::ALL.len()]>,
}

/// Place of a limit's text.
#[derive(Clone)]
struct Said {
    key: String,
    span: Span,
}

impl LimitLines {
    /// No limits, for `devices` devices.
    pub(crate) fn new(devices: usize) -> LimitLines {
        LimitLines {
            limits: vec![Limits::default(); devices],
            said: vec![[const { None }; 3]; devices],
        }
    }

    /// Reads the three keys of `section`; lines of a later file come after those of an earlier one.
    pub(crate) fn read(
        section: &Section<'_>,
        devices: &Devices,
        report: &mut Report,
    ) -> LimitLines {
        let said = LimitKey::ALL.iter().any(|limit| section.get(limit.key()).is_some());
        // Most cgroups of a large file say nothing, or one line.
        let mut lines = LimitLines::new(if said { devices.configs.len() } else { 0 });
        for section in section.files() {
            for limit in LimitKey::ALL {
                let entry = section.get(limit.key());
                for line in entry.map(|entry| entry.texts(report)).unwrap_or_default() {
                    lines.line(limit, &line, devices, report);
                }
            }
        }
        lines
    }

    /// Applies `DEVICE KEY=VALUE...`.
    fn line(&mut self, limit: LimitKey, line: &Text, devices: &Devices, report: &mut Report) {
        let (device, rest) = match split_device(&line.value) {
            Ok(split) => split,
            Err(error) => {
                let (message, hint) = device_error(&error, devices);
                report.refuse(line, message, hint);
                return;
            }
        };
        let targets = devices.targets(device, line, report);
        self.words(limit, line, rest, targets, report);
    }

    /// Applies the words of `rest`, a part of `line`, to the devices of `targets`; reports all that are refused.
    pub(crate) fn words(
        &mut self,
        limit: LimitKey,
        line: &Text,
        rest: &str,
        targets: std::ops::Range<usize>,
        report: &mut Report,
    ) {
        for index in targets.clone() {
            self.said[index][limit as usize] =
                Some(Said { key: line.key.clone(), span: line.span });
        }
        let (mut before, mut is_in_number) = (None, false);
        for word in rest.split_ascii_whitespace() {
            if let Err(error) = parse_limits(limit, word, PerDimension::NONE) {
                let error = error.after(before);
                // The groups after the first of `1 000 000` say the same.
                let was_in_number = is_in_number;
                is_in_number = matches!(error, IoMaxError::BlankInNumber { .. });
                if is_in_number && was_in_number {
                    continue;
                }
                before = if is_in_number { before } else { Some(word) };
                let problem = Problem::new(line.place_of(word), &line.key, error.to_string());
                report.add(problem.hint(error.hint()));
                continue;
            }
            (before, is_in_number) = (Some(word), false);
            for limits in &mut self.limits[targets.clone()] {
                let values = match limit {
                    LimitKey::Max => &mut limits.max,
                    LimitKey::Burst => &mut limits.burst,
                    LimitKey::Peak => &mut limits.peak,
                };
                if let Ok(new) = parse_limits(limit, word, *values) {
                    *values = new;
                }
            }
        }
    }

    /// Rates of the device at `index`.
    pub(crate) fn max(&self, index: usize) -> PerDimension {
        self.limits[index].max
    }

    /// Whether `io.max` limits `dimension` of the device at `index`.
    pub(crate) fn has_max(&self, index: usize, dimension: Dimension) -> bool {
        self.limits[index].max.get(dimension).is_some()
    }

    /// Devices with their limits; contradictions are reported and left out.
    pub(crate) fn finish(
        self,
        limiter: LimiterKind,
        devices: &Devices,
        report: &mut Report,
    ) -> Vec<(usize, Limits)> {
        let mut valid = Vec::new();
        for (device, (limits, said)) in self.limits.into_iter().zip(self.said).enumerate() {
            let limits = Limits { limiter, ..limits };
            if limits.max.is_none() && limits.burst.is_none() && limits.peak.is_none() {
                continue;
            }
            match validate::find(&limits) {
                None => valid.push((device, limits)),
                Some(Contradiction { limit, message, hint }) => {
                    let said = said[limit as usize].clone().or(said.into_iter().flatten().next());
                    let Some(said) = said else { continue };
                    let message = match devices.configs.get(device) {
                        Some(device) if devices.configs.len() > 1 => {
                            format!("device {:?}: {message}", device.name)
                        }
                        _ => message,
                    };
                    report.add(Problem::new(said.span, &said.key, message).hint(hint));
                }
            }
        }
        valid
    }
}

/// For a line without a device, the line with the only one.
fn device_error(error: &IoMaxError, devices: &Devices) -> (String, Option<String>) {
    let IoMaxError::Device { device } = error else { return (error.to_string(), error.hint()) };
    let message = format!("{device:?} is no device's name");
    let hint = if device.contains('=') {
        let name = devices.names().next().unwrap_or("*");
        Some(format!(
            "begin with the device: \"{name} {device}\", or \"* {device}\" for every device"
        ))
    } else {
        unknown_name("", devices.names())
    };
    (message, hint)
}
