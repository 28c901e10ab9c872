//! Metrics as a file for the textfile collector of Prometheus' node_exporter.

use weir_govern::kernel::parse_limits;

use super::status::Status;

/// Most cgroups of a device that have metrics.
const CGROUPS_MAX: usize = 1_000;

/// The file's text. Names are an interface: docs/govern.md has them.
pub(super) fn text(statuses: &[&Status]) -> String {
    let mut text = String::new();
    let device = |status: &Status| format!("device=\"{}\"", escaped(&status.device));
    let mut family = |name: &str, kind: &str, help: &str, samples: Vec<(String, String)>| {
        text.push_str(&format!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
        for (labels, value) in samples {
            text.push_str(&format!("{name}{{{labels}}} {value}\n"));
        }
    };
    let of_each = |value: &dyn Fn(&Status) -> String| {
        statuses.iter().map(|status| (device(status), value(status))).collect::<Vec<_>>()
    };
    let factor =
        |status: &Status| status.lambda.map_or("+Inf".to_owned(), |lambda| lambda.to_string());
    family(
        "weir_govern_lambda",
        "gauge",
        "Factor by which limits are raised; 1 is as written, +Inf is none.",
        of_each(&factor),
    );
    family(
        "weir_govern_utilisation_ratio",
        "gauge",
        "Use of the device lately.",
        of_each(&|status| (status.utilisation_percent / 100.0).to_string()),
    );
    let states = statuses.iter().flat_map(|status| {
        ["starting", "others", "full", "idle", "raised"].map(|state| {
            let is = u8::from(status.state == state);
            (format!("{},state=\"{state}\"", device(status)), is.to_string())
        })
    });
    family(
        "weir_govern_state",
        "gauge",
        "1 for the reason why limits are as they are.",
        states.collect(),
    );
    for (name, help, value) in [
        (
            "weir_govern_writes_total",
            "Cgroups whose limits have been written.",
            (|status: &Status| status.writes) as fn(&Status) -> u64,
        ),
        (
            "weir_govern_refused_writes_total",
            "Cgroups whose limits the kernel has refused.",
            |status| status.refused_writes,
        ),
        (
            "weir_govern_adopted_total",
            "Limits that others or rules have set, each time that they were adopted.",
            |status| status.adopted,
        ),
    ] {
        family(name, "counter", help, of_each(&|status| value(status).to_string()));
    }
    family(
        "weir_govern_cgroups",
        "gauge",
        "Governed cgroups.",
        of_each(&|status| status.cgroups.len().to_string()),
    );
    let limits = |of: fn(&super::status::CgroupStatus) -> &str| {
        let mut samples = Vec::new();
        for status in statuses {
            for cgroup in status.cgroups.iter().take(CGROUPS_MAX) {
                let limits = parse_limits(of(cgroup)).unwrap_or_default();
                let values = [
                    ("rbps", limits.rbps),
                    ("wbps", limits.wbps),
                    ("riops", limits.riops),
                    ("wiops", limits.wiops),
                ];
                for (limit, value) in values {
                    let Some(value) = value else { continue };
                    let (device, cgroup) = (device(status), escaped(&cgroup.cgroup));
                    samples.push((
                        format!("{device},cgroup=\"{cgroup}\",limit=\"{limit}\""),
                        value.to_string(),
                    ));
                }
            }
        }
        samples
    };
    family(
        "weir_govern_limit",
        "gauge",
        "Limits as written, a second.",
        limits(|cgroup| &cgroup.limits),
    );
    family(
        "weir_govern_effective_limit",
        "gauge",
        "Limits that the kernel has now, a second.",
        limits(|cgroup| &cgroup.limits_now),
    );
    text
}

/// A label's value.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_values_are_escaped() {
        assert_eq!(escaped("a\\x2d\"b\"\n"), "a\\\\x2d\\\"b\\\"\\n");
    }
}
