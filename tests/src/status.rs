//! `weir status`, by the names that its JSON promises.

use serde_json::Value;

/// One device at one moment.
#[derive(Clone, Debug)]
pub struct Device(pub(crate) Value);

/// One cgroup of a device.
#[derive(Clone, Debug)]
pub struct Cgroup(Value);

impl Device {
    /// A number of the device's own.
    ///
    /// # Panics
    /// When there is none of this name: names are stable.
    #[track_caller]
    pub fn number(&self, name: &str) -> u64 {
        number(&self.0, name)
    }

    /// Whether everything dispatched was charged.
    ///
    /// # Panics
    /// When the status does not say.
    pub fn balances(&self) -> bool {
        self.0["audit_balances"].as_bool().expect("audit_balances is there")
    }

    /// Whether no request is inside.
    pub fn is_idle(&self) -> bool {
        ["in_flight", "ready", "throttled"].iter().all(|name| self.number(name) == 0)
    }

    /// A member of the whole status that is no number.
    pub fn member(&self, name: &str) -> &Value {
        &self.0[name]
    }

    /// How many cgroups it has.
    ///
    /// # Panics
    /// When the status does not say.
    pub fn cgroups(&self) -> usize {
        self.0["cgroups"].as_array().expect("cgroups are there").len()
    }

    /// Those of its cgroups whose paths begin with `prefix`.
    ///
    /// # Panics
    /// When the status does not say.
    pub fn cgroups_below(&self, prefix: &str) -> Vec<Cgroup> {
        let cgroups = self.0["cgroups"].as_array().expect("cgroups are there");
        let is_below = |cgroup: &&Value| {
            cgroup["cgroup"].as_str().is_some_and(|path| path.starts_with(prefix))
        };
        cgroups.iter().filter(is_below).map(|cgroup| Cgroup(cgroup.clone())).collect()
    }

    /// One of its cgroups.
    ///
    /// # Panics
    /// When it has none of this path.
    #[track_caller]
    pub fn cgroup(&self, path: &str) -> Cgroup {
        let cgroups = self.0["cgroups"].as_array().expect("cgroups are there");
        let found = cgroups.iter().find(|cgroup| cgroup["cgroup"] == path);
        Cgroup(found.unwrap_or_else(|| panic!("no {path} in {:#}", self.0)).clone())
    }
}

impl Cgroup {
    /// A number; `throttled_ios/riops` goes one deeper.
    ///
    /// # Panics
    /// When there is none of this name: names are stable.
    #[track_caller]
    pub fn number(&self, name: &str) -> u64 {
        number(&self.0, name)
    }

    /// All that requests have waited for, in nanoseconds.
    pub fn waits_ns(&self) -> u64 {
        sum(&self.0["wait"])
    }

    /// `io.max` as it would be read back.
    pub fn io_max(&self) -> Option<&str> {
        self.text("io_max")
    }

    /// A text, where there is one.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0[name].as_str()
    }
}

/// All numbers in a value.
fn sum(value: &Value) -> u64 {
    match value {
        Value::Number(number) => number.as_u64().unwrap_or_default(),
        Value::Array(values) => values.iter().map(sum).sum(),
        Value::Object(values) => values.values().map(sum).sum(),
        _ => 0,
    }
}

#[track_caller]
fn number(value: &Value, name: &str) -> u64 {
    let found = value.pointer(&format!("/{name}")).and_then(Value::as_u64);
    found.unwrap_or_else(|| panic!("no number {name} in {value:#}"))
}
