//! `weir disk list`.

use serde_json::json;
use weir_disk::{Preset, Spec, presets};

use crate::failure::Failure;
use crate::output::{self, Format};
use crate::table::{Align, Table};

const EXAMPLES: &str = "\
Examples:
  weir disk list
  weir disk list --format json | jq -r '.[] | \"\\(.name): \\(.source)\"'

Settings follow a name: \"hdd7200,size=10G,ncq=1\" is that disk, smaller and
without a queue. One that the disk has not got is refused, with a list of those
it has.

JSON: a list of disks, each with `name`, `size_bytes`, `about`, and `source`,
where its figures are from.";

/// List the disks that can be emulated
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// What to print
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match args.format {
        Format::Table => {
            let mut table = Table::new(&["DISK", "GB", "WHAT"]);
            for disk in presets() {
                // As disks are sold.
                let size = format!("{}", size(&disk) / 1_000_000_000);
                table.row([disk.name.to_owned(), size, disk.about.to_owned()]);
            }
            output::print(&(table.lines(&[Align::Left, Align::Right]).join("\n") + "\n"))
        }
        Format::Json => {
            let disks = presets().map(|disk| {
                let Preset { name, about, source } = disk;
                let size = size(&disk);
                json!({ "name": name, "size_bytes": size, "about": about, "source": source })
            });
            output::print_json(&disks.collect::<Vec<_>>(), false)
        }
    }
}

/// Bytes on a disk that is not told its size.
fn size(disk: &Preset) -> u64 {
    disk.name.parse().map_or(0, |spec: Spec| spec.size())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_disk_has_a_size() {
        for disk in presets() {
            assert!(size(&disk) > 0, "{}", disk.name);
        }
    }
}
