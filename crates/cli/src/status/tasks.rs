//! Effect of limits on each connection: `weir status --tasks`.

use weir_server::status::{Status, TaskStatus};
use weir_units::Nanos;

use crate::table::{Align, Table};

/// One line for each connection that a limit has held back since it was opened, with all devices; empty if none was.
pub(super) fn table(status: &Status) -> String {
    let mut table = Table::new(&[
        "CLIENT",
        "CONNECTION",
        "DEVICE",
        "CGROUP",
        "LIMIT",
        "HELD",
        "TIME HELD",
        "EACH",
    ]);
    let mut lines = 0;
    for device in &status.devices {
        for task in &device.tasks {
            for (limit, held, wait_ns) in limits(task) {
                lines += 1;
                table.row([
                    task.client.clone(),
                    task.connection.to_string(),
                    device.device.clone(),
                    task.cgroup.clone().unwrap_or_else(|| "(removed)".into()),
                    limit.into(),
                    held.to_string(),
                    Nanos(wait_ns).rounded().to_string(),
                    wait_ns
                        .checked_div(held)
                        .map_or("-".into(), |each| Nanos(each).rounded().to_string()),
                ]);
            }
        }
    }
    if lines == 0 {
        return "\nno connection has been held by a limit\n".into();
    }
    use Align::{Left, Right};
    let align = [Left, Right, Left, Left, Left, Right, Right, Right];
    format!("\n  {}\n", table.lines(&align).join("\n  "))
}

/// The limits that did something: each with how often, and for how long in all.
fn limits(task: &TaskStatus) -> impl Iterator<Item = (&'static str, u64, u64)> {
    let both = task.throttled_ios.pairs().into_iter().zip(task.wait_ns.pairs());
    let all = both.map(|((name, held), (_, wait_ns))| (name, held, wait_ns));
    all.filter(|&(_, held, wait_ns)| held > 0 || wait_ns > 0)
}

#[cfg(test)]
mod tests {
    use weir_server::status::{DeviceStatus, PerDimension};

    use super::*;

    #[test]
    fn a_line_for_each_limit_of_each_connection() {
        let task = TaskStatus {
            client: "process 4711".into(),
            connection: 3,
            cgroup: Some("/vm1".into()),
            throttled_ios: PerDimension { rbps: 200, wiops: 7, ..PerDimension::default() },
            wait_ns: PerDimension { rbps: 1_200_000_000, ..PerDimension::default() },
        };
        let device =
            DeviceStatus { device: "disk".into(), tasks: vec![task], ..Default::default() };
        let mut status = Status {
            version: "1".into(),
            uptime_secs: 1,
            generation: String::new(),
            listeners: Default::default(),
            sandbox: Default::default(),
            exports: Vec::new(),
            recording: None,
            devices: vec![device],
        };
        let expected = "
  CLIENT        CONNECTION  DEVICE  CGROUP  LIMIT  HELD  TIME HELD     EACH
  process 4711           3  disk    /vm1    rbps    200     1.20 s  6.00 ms
  process 4711           3  disk    /vm1    wiops     7       0 ns     0 ns
";
        assert_eq!(table(&status), expected);
        status.devices[0].tasks.clear();
        assert_eq!(table(&status), "\nno connection has been held by a limit\n");
    }
}
