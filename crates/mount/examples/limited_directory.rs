//! Smallest mount: a directory whose reads and writes have limits.
//!
//! ```sh
//! cargo run -p weir-mount --example limited_directory -- SOURCE MOUNTPOINT 'rbps=10M wbps=10M'
//! umount MOUNTPOINT
//! ```

use std::env::args;
use std::error::Error;

use weir_engine::Limits;
use weir_mount::{Mounted, Pattern, Settings, TreeSettings};
use weir_passthrough::Options;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = args().skip(1).collect();
    let [source, mountpoint, limits] = &arguments[..] else {
        return Err("usage: limited_directory SOURCE MOUNTPOINT LIMITS".into());
    };
    let limits = vec![(Pattern::root(), Limits::parse(limits)?)];
    let mounted = Mounted::new(Settings {
        source: source.into(),
        mountpoint: mountpoint.into(),
        tree: TreeSettings { limits, ..TreeSettings::default() },
        options: Options { by_name: std::env::var_os("BY_NAME").is_some(), ..Options::default() },
    })?;
    for cgroup in mounted.wait()?.cgroups {
        println!("{cgroup:?}");
    }
    Ok(())
}
