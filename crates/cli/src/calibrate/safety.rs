//! Write protection of devices that are in use or hold data.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{SeekFrom, major, minor, seek};
use weir_units::Bytes;

use crate::failure::Failure;
use crate::mount_text::unescaped;
use crate::output;

/// So much at either end must be zeroes for a device to look empty: labels, boot records and superblocks of all common file
/// systems, volume managers and RAIDs lie within.
const ENDS: u64 = 1 << 20;

/// Refuses a device that is mounted, used for swap or held by another device; without `force` also one that does not look
/// empty.
pub(super) fn check(path: &Path, force: bool) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::failed(format!("{}: {error}", path.display()));
    let path = &path.canonicalize().map_err(failed)?;
    if let Some(use_) = in_use(path).map_err(failed)? {
        return Err(Failure::wrong(format!("{} is in use: {use_}", path.display())).hint(
            "unmount it or take it apart first; --force does not write to what is in use"
                .to_owned(),
        ));
    }
    if force {
        return Ok(());
    }
    let found = contents(path).map_err(failed)?;
    found.map_or(Ok(()), |what| {
        Err(Failure::wrong(format!("{} does not look empty: {what}", path.display())).hint(
            "--force writes over it; `wipefs` and `blkdiscard` make a device empty".to_owned(),
        ))
    })
}

/// Warns where reads of a file would not reach the device.
pub(super) fn warn_of_holes(path: &Path) {
    let Ok(metadata) = fs::metadata(path) else { return };
    let (size, held) = (metadata.len(), metadata.blocks().saturating_mul(512));
    if metadata.is_file() && held < size / 10 * 9 {
        let (held, size, path) = (Bytes(held).rounded(), Bytes(size).rounded(), path.display());
        output::tell(&format!(
            "note: {path} holds {held} of its {size}: the rest are holes, and reading them takes no time of the device"
        ));
    }
}

/// Users of a block device or one of its partitions, or the file.
fn in_use(path: &Path) -> io::Result<Option<String>> {
    let metadata = fs::metadata(path)?;
    let users = Users::read();
    if !metadata.file_type().is_block_device() {
        return Ok(users.of_file(path));
    }
    let name = format!("{}:{}", major(metadata.rdev()), minor(metadata.rdev()));
    // The directory of a partition is in that of its disk.
    let place = fs::canonicalize(format!("/sys/dev/block/{name}"))?;
    let mut parts = vec![place.clone()];
    parts.extend(children(&place).into_iter().filter(|child| child.join("partition").exists()));
    Ok(parts.iter().find_map(|part| users.of_device(part)))
}

fn children(place: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// Mounts, swaps and loop devices of the system.
struct Users {
    /// Numbers of devices, as `8:1`, and where each is mounted.
    mounts: Vec<(String, String)>,
    /// Files and devices that are swapped to.
    swaps: BTreeSet<PathBuf>,
    /// Files behind loop devices, and the devices.
    loops: Vec<(PathBuf, String)>,
}

impl Users {
    fn read() -> Users {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let loops = children(Path::new("/sys/block")).into_iter().filter_map(|place| {
            let file = fs::read_to_string(place.join("loop/backing_file")).ok()?;
            let device = place.file_name()?.to_string_lossy().into_owned();
            Some((PathBuf::from(file.trim_end_matches('\n')), device))
        });
        Users {
            mounts: mounts(&text("/proc/self/mountinfo"), number_of),
            swaps: swaps(&text("/proc/swaps")),
            loops: loops.collect(),
        }
    }

    fn of_file(&self, path: &Path) -> Option<String> {
        let behind = self.loops.iter().find(|(file, _)| file == path);
        let behind = behind.map(|(_, device)| format!("it is behind /dev/{device}"));
        behind.or_else(|| self.swaps.contains(path).then(|| "it is swapped to".to_owned()))
    }

    /// `place` is the device's directory in sysfs.
    fn of_device(&self, place: &Path) -> Option<String> {
        let number = fs::read_to_string(place.join("dev")).unwrap_or_default();
        let name = place.file_name().unwrap_or_default().to_string_lossy();
        if let Some((_, at)) = self.mounts.iter().find(|(mounted, _)| mounted == number.trim()) {
            return Some(format!("{name} is mounted at {at}"));
        }
        let swapped =
            self.swaps.iter().any(|swap| number_of(swap).as_deref() == Some(number.trim()));
        if swapped {
            return Some(format!("{name} is swapped to"));
        }
        let holder = children(&place.join("holders")).into_iter().next()?;
        let holder = holder.file_name()?.to_string_lossy().into_owned();
        Some(format!("{name} is part of {holder}"))
    }
}

/// A block device's number, as sysfs writes it.
fn number_of(path: &Path) -> Option<String> {
    let metadata =
        fs::metadata(path).ok().filter(|metadata| metadata.file_type().is_block_device())?;
    Some(format!("{}:{}", major(metadata.rdev()), minor(metadata.rdev())))
}

/// Devices that are mounted: by their number, and by that of the source, which differs where a file system has several
/// devices or numbers of its own.
fn mounts(mountinfo: &str, number_of: impl Fn(&Path) -> Option<String>) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for line in mountinfo.lines() {
        let Some((before, after)) = line.split_once(" - ") else { continue };
        let mut fields = before.split(' ').skip(2);
        let (Some(number), Some(at)) = (fields.next(), fields.nth(1)) else { continue };
        let at = unescaped(at);
        found.push((number.to_owned(), at.clone()));
        if let Some(source) = after.split(' ').nth(1).filter(|source| source.starts_with('/'))
            && let Some(number) = number_of(Path::new(&unescaped(source)))
        {
            found.push((number, at));
        }
    }
    found
}

fn swaps(text: &str) -> BTreeSet<PathBuf> {
    let paths = text.lines().skip(1).filter_map(|line| line.split_ascii_whitespace().next());
    paths.map(|path| PathBuf::from(unescaped(path))).collect()
}

/// Description of a device's data; `None` if both ends are zeroes.
fn contents(path: &Path) -> io::Result<Option<String>> {
    let file = File::open(path)?;
    let size = seek(&file, SeekFrom::End(0))?;
    let read = |offset: u64| {
        let mut bytes = vec![0; ENDS.min(size) as usize];
        file.read_exact_at(&mut bytes, offset).map(|()| bytes)
    };
    let (head, tail) = (read(0)?, read(size - ENDS.min(size))?);
    Ok(told_by(&head).or_else(|| {
        match [&head, &tail].map(|end| end.iter().any(|&byte| byte != 0)) {
            [true, _] => Some("there is data at its beginning".to_owned()),
            [_, true] => Some("there is data at its end".to_owned()),
            _ => None,
        }
    }))
}

/// Offsets and magic bytes of common formats.
const MARKS: [(usize, &[u8], &str); 12] = [
    (1080, b"\x53\xef", "an ext2, ext3 or ext4 file system"),
    (0, b"XFSB", "an XFS file system"),
    (0x1_0040, b"_BHRfS_M", "a Btrfs file system"),
    (3, b"NTFS    ", "an NTFS file system"),
    (3, b"EXFAT   ", "an exFAT file system"),
    (82, b"FAT32", "a FAT file system"),
    (1024, b"\x10\x20\xf5\xf2", "an F2FS file system"),
    (0, b"LUKS\xba\xbe", "an encrypted volume (LUKS)"),
    (512, b"LABELONE", "a physical volume of LVM"),
    (4086, b"SWAPSPACE2", "swap space"),
    (512, b"EFI PART", "a partition table (GPT)"),
    (510, b"\x55\xaa", "a boot record or partition table (MBR)"),
];

fn told_by(head: &[u8]) -> Option<String> {
    let has = |at: usize, mark: &[u8]| head.get(at..at + mark.len()) == Some(mark);
    let found = MARKS.iter().find(|(at, mark, _)| has(*at, mark));
    found.map(|(_, _, what)| format!("it begins with {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mounted_device_is_found_by_number_and_by_source() {
        let text = "\
            22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
            30 22 0:40 / /srv/a\\040b rw - btrfs /dev/sdb rw\n\
            31 22 0:5 / /proc rw - proc proc rw\n\
            broken\n";
        let number = |path: &Path| (path == Path::new("/dev/sdb")).then(|| "8:16".to_owned());
        let pair = |number: &str, at: &str| (number.to_owned(), at.to_owned());
        let wanted = [
            pair("8:1", "/"),
            pair("0:40", "/srv/a b"),
            pair("8:16", "/srv/a b"),
            pair("0:5", "/proc"),
        ];
        assert_eq!(mounts(text, number), wanted);
    }

    #[test]
    fn swaps_are_the_first_column() {
        let text = "Filename\tType\tSize\tUsed\tPriority\n/swap\\040file file 1024 0 -2\n/dev/sda2 partition 1 0 -3\n";
        let wanted = ["/swap file", "/dev/sda2"].map(PathBuf::from);
        assert_eq!(swaps(text), BTreeSet::from(wanted));
        assert!(swaps("").is_empty());
    }

    #[test]
    fn users_of_a_file_are_told() {
        let users = Users {
            mounts: Vec::new(),
            swaps: BTreeSet::from([PathBuf::from("/swap")]),
            loops: vec![(PathBuf::from("/disk.img"), "loop3".to_owned())],
        };
        let of = |path: &str| users.of_file(Path::new(path));
        assert_eq!(of("/disk.img").as_deref(), Some("it is behind /dev/loop3"));
        assert_eq!(of("/swap").as_deref(), Some("it is swapped to"));
        assert_eq!(of("/other"), None);
    }

    #[test]
    fn what_is_there_is_named() {
        let marked = |at: usize, mark: &[u8]| {
            let mut head = vec![0; 1 << 20];
            head[at..at + mark.len()].copy_from_slice(mark);
            told_by(&head)
        };
        for (at, mark, what) in MARKS {
            assert_eq!(marked(at, mark), Some(format!("it begins with {what}")));
        }
        assert_eq!(marked(99, b"x"), None);
        assert_eq!(told_by(b"XFSB").as_deref(), Some("it begins with an XFS file system"));
        assert_eq!(told_by(b""), None);
    }

    #[test]
    fn zeroes_are_empty_and_both_ends_count() {
        let path = std::env::temp_dir().join(format!("weir-safety-{}", std::process::id()));
        let look = |at: usize| {
            let mut bytes = vec![0; 3 << 20];
            if at > 0 {
                bytes[at] = 1;
            }
            fs::write(&path, &bytes).unwrap();
            contents(&path).unwrap()
        };
        let seen = [0, 7, 1_500_000, (3 << 20) - 1].map(look);
        let (fresh, force) = (check(&path, false).is_ok(), check(&path, true).is_ok());
        fs::remove_file(&path).unwrap();
        let data = |at: &str| Some(format!("there is data at its {at}"));
        assert_eq!(seen, [None, data("beginning"), None, data("end")]);
        assert_eq!((fresh, force), (false, true));
    }
}
