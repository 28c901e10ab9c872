//! Direct I/O: whether a device is used past the page cache, and in which blocks.

use std::fs::File;

use rustix::fs::{AtFlags, OFlags, StatxFlags, fcntl_getfl, fcntl_setfl, ioctl_blksszget, statx};

use super::info::DiskKind;
use crate::mapping::PAGE;

/// Whether to leave out the kernel's page cache (`O_DIRECT`).
///
/// Direct, what the scheduler sends is what the device does, and memory is not used twice; buffered, data that was
/// read lately is quick, and writes are quick until they are flushed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DirectMode {
    /// Where the file system or device can, and the size is a multiple of its blocks.
    #[default]
    Auto,
    /// Always; opening fails where it cannot be had.
    On,
    /// Never.
    Off,
}

/// The largest block that is handled directly. Real ones have 512 or 4,096 bytes; 65,536 occur on large-page machines.
const BLOCK_MAX: u32 = 64 << 10;

/// What was decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Granted {
    pub(super) direct: bool,
    pub(super) block_bytes: u32,
}

/// Decides on an open file and switches it over; a refusal of `On` gives the reason.
pub(super) fn decide(
    file: &File,
    kind: DiskKind,
    size: u64,
    mode: DirectMode,
) -> Result<Granted, String> {
    let buffered_block = match kind {
        DiskKind::Block => ioctl_blksszget(file).unwrap_or(512),
        DiskKind::File | DiskKind::Memory => 1,
    };
    let buffered = Granted { direct: false, block_bytes: buffered_block };
    if mode == DirectMode::Off {
        return Ok(buffered);
    }
    let direct = direct_block(file, kind)
        .and_then(|block| check_size(block, size))
        .and_then(|block| switch_over(file).map(|()| block));
    match (direct, mode) {
        (Ok(block_bytes), _) => Ok(Granted { direct: true, block_bytes }),
        (Err(_), DirectMode::Auto) => Ok(buffered),
        (Err(why), _) => Err(why),
    }
}

/// The block in which a file can be read and written directly.
///
/// Offsets and memory have alignments of their own (`STATX_DIOALIGN`, Linux 6.1): memory is no question here, because
/// every buffer starts on a page.
fn direct_block(file: &File, kind: DiskKind) -> Result<u32, String> {
    let stat =
        statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::from_bits_retain(libc::STATX_DIOALIGN))
            .map_err(|errno| format!("its alignment cannot be asked for ({errno})"))?;
    let known = stat.stx_mask & libc::STATX_DIOALIGN != 0;
    let (memory, block) = match (known, kind) {
        (true, _) => (stat.stx_dio_mem_align, stat.stx_dio_offset_align),
        // Older kernels: the logical block is the rule for devices, for memory too.
        (false, DiskKind::Block) => {
            let block = ioctl_blksszget(file)
                .map_err(|errno| format!("its block size cannot be asked for ({errno})"))?;
            (block, block)
        }
        (false, _) => {
            return Err("the kernel does not tell its alignment (Linux 6.1 and later do)".into());
        }
    };
    if block == 0 {
        return Err("its file system has no direct I/O".into());
    }
    if memory as usize > PAGE || block > BLOCK_MAX || !block.is_power_of_two() {
        return Err(format!(
            "it needs memory aligned to {memory} bytes and blocks of {block} bytes; up to {PAGE} and powers of two \
             up to {BLOCK_MAX} are handled"
        ));
    }
    Ok(block)
}

fn check_size(block: u32, size: u64) -> Result<u32, String> {
    match size.is_multiple_of(u64::from(block)) {
        true => Ok(block),
        false => {
            Err(format!("its size, {size} bytes, is not a multiple of its blocks of {block} bytes"))
        }
    }
}

fn switch_over(file: &File) -> Result<(), String> {
    let switched = fcntl_getfl(file).and_then(|flags| fcntl_setfl(file, flags | OFlags::DIRECT));
    switched.map_err(|errno| format!("its file system refuses direct I/O ({errno})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_must_be_whole_blocks() {
        assert_eq!(check_size(512, 5120), Ok(512));
        assert_eq!(
            check_size(4096, 5120).unwrap_err(),
            "its size, 5120 bytes, is not a multiple of its blocks of 4096 bytes"
        );
    }
}
