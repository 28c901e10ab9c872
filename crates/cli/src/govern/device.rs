//! Finds the disk that limits of cgroups are for, from a device, a partition, a mount point or a path.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};
use weir_govern::kernel::DeviceNumber;

use crate::failure::Failure;
use crate::mount_text::unescaped;

/// A disk with a queue, to which requests are submitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Disk {
    pub(super) number: DeviceNumber,
    /// Its name in `/sys/block`.
    pub(super) name: String,
    /// What the operator should know.
    pub(super) notes: Vec<String>,
}

/// The disk behind `asked`.
///
/// # Errors
/// There is none, or no file.
pub(super) fn find(asked: &str, sysfs: &Path) -> Result<Disk, Failure> {
    let number = match asked.parse() {
        Ok(number) => number,
        Err(_) => number_of(Path::new(asked))?,
    };
    disk(asked, number, sysfs)
}

fn number_of(path: &Path) -> Result<DeviceNumber, Failure> {
    let failed = |error: std::io::Error| Failure::failed(format!("{}: {error}", path.display()));
    let metadata = fs::metadata(path).map_err(failed)?;
    if metadata.file_type().is_block_device() {
        return Ok(device_number(metadata.rdev()));
    }
    // Major 0 is a file system without a device, or with several.
    let number = device_number(metadata.dev());
    if number.major != 0 {
        return Ok(number);
    }
    let whole = path.canonicalize().map_err(failed)?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").map_err(failed)?;
    let Some(mount) = mount_of(&mounts, &whole) else {
        return Err(Failure::failed(format!("{}: no mount is known for it", path.display())));
    };
    let source =
        fs::metadata(&mount.source).ok().filter(|source| source.file_type().is_block_device());
    match source {
        Some(source) => Ok(device_number(source.rdev())),
        None => Err(Failure::wrong(format!(
            "{} is on {}, a file system without a block device: limits of cgroups do not reach it",
            path.display(),
            mount.kind,
        ))
        .hint(instead(&mount.kind).to_owned())),
    }
}

fn device_number(device: u64) -> DeviceNumber {
    DeviceNumber { major: major(device), minor: minor(device) }
}

/// What to do where a file system has no block device.
fn instead(kind: &str) -> &'static str {
    match kind {
        "overlay" => {
            "name the file system that its `upperdir` is on: `findmnt -no OPTIONS PATH` shows it"
        }
        "zfs" => {
            "ZFS does not tell cgroups from each other: share a volume of it with `weir serve`"
        }
        "nfs" | "nfs4" | "cifs" | "9p" | "ceph" | "virtiofs" => {
            "govern the disk on the server, or share it with `weir serve`"
        }
        "tmpfs" | "ramfs" | "devtmpfs" => "it is in memory: name the disk that is meant",
        _ => "name the disk that is meant, such as /dev/sda",
    }
}

/// A mount in `/proc/self/mountinfo`.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    kind: String,
    source: PathBuf,
}

/// The mount that `path` is in: the last one of those with the longest mount point.
fn mount_of(mountinfo: &str, path: &Path) -> Option<Mount> {
    let mut found: Option<(usize, Mount)> = None;
    for line in mountinfo.lines() {
        let Some((before, after)) = line.split_once(" - ") else { continue };
        let Some(at) = before.split(' ').nth(4).map(unescaped) else { continue };
        let mut after = after.split(' ');
        let (Some(kind), Some(source)) = (after.next(), after.next()) else { continue };
        let is_longest = found.as_ref().is_none_or(|(length, _)| at.len() >= *length);
        if path.starts_with(&at) && is_longest {
            let mount = Mount { kind: kind.to_owned(), source: unescaped(source).into() };
            found = Some((at.len(), mount));
        }
    }
    found.map(|(_, mount)| mount)
}

/// The whole disk of device `number`.
fn disk(asked: &str, number: DeviceNumber, sysfs: &Path) -> Result<Disk, Failure> {
    let place = sysfs.join(format!("dev/block/{number}"));
    let place = place.canonicalize().map_err(|_| {
        Failure::failed(format!("{asked}: there is no block device {number}"))
            .hint("`lsblk` lists what there is".to_owned())
    })?;
    let name_of =
        |place: &Path| place.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut notes = Vec::new();
    let (mut whole, mut of_whole) = (place.clone(), number);
    // The directory of a partition is in that of its disk.
    if place.join("partition").exists() {
        whole = place.parent().unwrap_or(&place).to_owned();
        let text = fs::read_to_string(whole.join("dev")).unwrap_or_default();
        of_whole = text.trim().parse().map_err(|error| {
            Failure::failed(format!("{}: {error}", whole.join("dev").display()))
        })?;
        notes.push(format!(
            "{} is a partition: limits of cgroups are those of the whole disk {} ({of_whole})",
            name_of(&place),
            name_of(&whole),
        ));
    }
    let below: Vec<String> = fs::read_dir(whole.join("slaves"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    if !below.is_empty() {
        notes.push(format!(
            "{} is mapped to {}: limits count where a request is submitted, so those on {} are governed, and those on {} are not",
            name_of(&whole),
            below.join(", "),
            of_whole,
            below.join(", "),
        ));
    }
    Ok(Disk { number: of_whole, name: name_of(&whole), notes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_mount_point_counts() {
        let text = "\
            22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
            30 22 0:40 /x /srv/a\\040b rw shared:1 - btrfs /dev/sdb rw\n\
            31 22 0:5 / /srv rw - nfs4 host:/x rw\n\
            32 22 0:6 / /srv rw - overlay overlay rw\n\
            broken\n";
        let kind = |path: &str| mount_of(text, Path::new(path)).map(|mount| mount.kind);
        assert_eq!(kind("/srv/a b/c").as_deref(), Some("btrfs"));
        assert_eq!(kind("/srv/a").as_deref(), Some("overlay"));
        assert_eq!(kind("/home").as_deref(), Some("ext4"));
        assert_eq!(mount_of("", Path::new("/")), None);
    }

    #[test]
    fn limits_are_those_of_the_whole_disk() {
        let place = crate::govern::tests::Place::new("device");
        let disk = place.path("sys/devices/sdb");
        fs::create_dir_all(disk.join("sdb1")).unwrap();
        fs::create_dir_all(disk.join("slaves")).unwrap();
        fs::create_dir_all(place.path("sys/devices/dm-0/slaves/sdb")).unwrap();
        fs::create_dir_all(place.path("sys/dev/block")).unwrap();
        fs::write(disk.join("dev"), "8:16\n").unwrap();
        fs::write(disk.join("sdb1/partition"), "1\n").unwrap();
        for (number, to) in [("8:16", "sdb"), ("8:17", "sdb/sdb1"), ("253:0", "dm-0")] {
            let to = format!("../../devices/{to}");
            std::os::unix::fs::symlink(to, place.path("sys/dev/block").join(number)).unwrap();
        }
        let find = |asked: &str| find(asked, &place.path("sys"));
        let said = |asked: &str| {
            let disk = find(asked).expect("it is there");
            (disk.number.to_string(), disk.name, disk.notes.len())
        };
        assert_eq!(said("8:16"), ("8:16".into(), "sdb".into(), 0));
        assert_eq!(said("8:17"), ("8:16".into(), "sdb".into(), 1));
        assert_eq!(said("253:0"), ("253:0".into(), "dm-0".into(), 1));
        find("8:32").expect_err("no such device");
    }
}
