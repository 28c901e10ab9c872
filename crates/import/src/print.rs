//! A plan as the text of a configuration.

use std::fmt::Write;

use weir_engine::{Dimension, PerDimension};
use weir_text::LimitKey;

use crate::Format;
use crate::fit::fit;
use crate::names::Taken;
use crate::plan::{Cgroup, Device, Plan};

/// The text. What a plan has no device for gets one whose path is to be filled in.
pub(crate) fn print(mut plan: Plan, format: Format) -> String {
    let mut text = format!("# Imported from {}.\n", format.described());
    for line in format.meaning() {
        comment(&mut text, line);
    }
    if plan.devices.is_empty() {
        let note = "no device is named there: write the path of yours";
        plan.devices.push(Device {
            name: "disk0".into(),
            path: "disk0.img".into(),
            iops_size: None,
            is_read_only: false,
            notes: vec![note.into()],
        });
    }
    for cgroup in &mut plan.cgroups {
        for (device, on) in &mut cgroup.devices {
            let name = &plan.devices[*device].name;
            let notes = fit(&mut on.limits);
            cgroup.notes.extend(notes.into_iter().map(|note| format!("{name}: {note}")));
        }
    }
    plan.notes.iter().for_each(|note| comment(&mut text, note));
    for (index, device) in plan.devices.iter().enumerate() {
        section(&mut text, "device", &device.name, &device.notes);
        key(&mut text, "path", &quoted(&device.path));
        if device.is_read_only {
            key(&mut text, "read_only", "true");
        }
        if let Some(size) = device.iops_size {
            key(&mut text, "iops_size", &size.to_string());
        }
        let tenants =
            plan.cgroups.iter().filter(|cgroup| cgroup.devices.contains_key(&index)).count();
        if tenants > 1 {
            let note = format!(
                "{tenants} exports have all of {}: give each its part of it, with `range`",
                device.name
            );
            comment(&mut text, &note);
        }
    }
    for cgroup in &plan.cgroups {
        print_cgroup(&mut text, cgroup, &plan.devices);
    }
    exports(&mut text, &plan);
    text
}

fn print_cgroup(text: &mut String, cgroup: &Cgroup, devices: &[Device]) {
    section(text, "cgroup", &cgroup.path, &cgroup.notes);
    for limit in LimitKey::ALL {
        let lines = cgroup.devices.iter().filter_map(|(device, on)| {
            let values = match limit {
                LimitKey::Max => on.limits.max,
                LimitKey::Burst => on.limits.burst,
                LimitKey::Peak => on.limits.peak,
            };
            (!values.is_none()).then(|| format!("{}{}", devices[*device].name, words(values)))
        });
        list(text, limit.key(), lines.collect());
    }
    let own = cgroup.devices.iter().filter_map(|(device, on)| {
        on.weight.map(|weight| format!("{} {weight}", devices[*device].name))
    });
    let default = cgroup.weight.map(|weight| format!("default {weight}"));
    list(text, "io.weight", default.into_iter().chain(own).collect());
}

/// An export for each device of each cgroup, and one at least, which a server needs.
fn exports(text: &mut String, plan: &Plan) {
    let mut taken = Taken::default();
    let mut export = |device: &Device, cgroup: &str, name: &str| {
        section(text, "export", &taken.take(name), &[]);
        key(text, "device", &quoted(&device.name));
        key(text, "cgroup", &quoted(cgroup));
    };
    for cgroup in &plan.cgroups {
        let name = cgroup.path.trim_start_matches('/').replace('/', "-");
        for device in cgroup.devices.keys().map(|device| &plan.devices[*device]) {
            if cgroup.devices.len() == 1 {
                export(device, &cgroup.path, &name);
            } else {
                export(device, &cgroup.path, &format!("{name}-{}", device.name));
            }
        }
    }
    if plan.cgroups.iter().all(|cgroup| cgroup.devices.is_empty()) {
        for cgroup in &plan.cgroups {
            let name = cgroup.path.trim_start_matches('/').replace('/', "-");
            export(&plan.devices[0], &cgroup.path, &name);
        }
    }
}

/// ` rbps=4194304 riops=100`: what is limited, in plain numbers.
fn words(values: PerDimension) -> String {
    let set = Dimension::ALL.into_iter().filter_map(|dimension| {
        values.get(dimension).map(|value| format!(" {}={value}", dimension.key()))
    });
    set.collect()
}

fn section(text: &mut String, kind: &str, name: &str, notes: &[String]) {
    text.push('\n');
    notes.iter().for_each(|note| comment(text, note));
    let _ = writeln!(text, "[{kind}.{}]", quoted(name));
}

fn key(text: &mut String, key: &str, value: &str) {
    let _ = writeln!(text, "{key} = {value}");
}

fn list(text: &mut String, name: &str, values: Vec<String>) {
    let values: Vec<String> = values.iter().map(|value| quoted(value)).collect();
    match values.as_slice() {
        [] => {}
        [value] => key(text, &quoted(name), value),
        values => key(text, &quoted(name), &format!("[{}]", values.join(", "))),
    }
}

/// `text` as a basic string of TOML. Nothing in a plan has control characters.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// A line of comment; control characters have no place in one.
fn comment(text: &mut String, line: &str) {
    let line: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let _ = writeln!(text, "# {line}");
}
