//! Devices opened, and what clients are told of their exports.

use std::sync::Arc;
use tracing::info;
use weir_config::{Backend as Source, BlockSize, Config, DeviceConfig, Direct, ExportConfig};
use weir_disk::DiskModel;
use weir_nbd::{BlockSizes, Export, ExportId, Features};
use weir_uring::{Backend, DirectMode, DiskKind, OpenError, OpenOptions};

use super::ApplyError;
use crate::device::DeviceFacts;
use crate::exports::{DeviceId, Served};

/// The largest read or write: what clients expect of every server.
const MAX_PAYLOAD: u32 = 32 << 20;

pub(super) type Opened = (Backend, Option<Box<dyn DiskModel>>);

/// Opens what a device is on.
///
/// # Errors
/// The system refuses.
pub(super) fn open(device: &DeviceConfig) -> Result<Opened, OpenError> {
    match &device.backend {
        Source::File { path, direct } => {
            let direct = match direct {
                Direct::Auto => DirectMode::Auto,
                Direct::On => DirectMode::On,
                Direct::Off => DirectMode::Off,
            };
            let options =
                OpenOptions { read_only: device.read_only, direct, ..OpenOptions::default() };
            Ok((Backend::open(path, options)?, None))
        }
        Source::Memory { size } => Ok((Backend::memory(*size)?, None)),
        Source::Emulated(spec) => Ok((Backend::memory(spec.size())?, Some(spec.build()))),
    }
}

/// How a status calls it.
pub(crate) fn source_name(source: &Source) -> String {
    match source {
        Source::File { path, .. } => path.display().to_string(),
        Source::Memory { size } => format!("memory:{size}"),
        Source::Emulated(spec) => format!("emulated:{spec}"),
    }
}

/// What others than its thread know of an opened device.
pub(super) fn facts(device: &DeviceConfig, backend: &Backend) -> DeviceFacts {
    let info = backend.info();
    if info.kind == DiskKind::Memory {
        let device = &device.name;
        info!(device, "memory: what is written, flushed or not, is gone when the server ends");
    }
    DeviceFacts {
        size: info.size,
        read_only: info.read_only,
        block_bytes: info.block_bytes,
        is_rotational: is_rotational(device, info.rotational),
    }
}

/// An export as clients are told of it.
///
/// # Errors
/// Its range ends after its device, or amid a block.
pub(super) fn serve(
    config: &Config,
    export: &ExportConfig,
    id: ExportId,
    (device, facts): (DeviceId, &DeviceFacts),
) -> Result<Served, ApplyError> {
    let end = export.range.end.unwrap_or(facts.size);
    if end > facts.size || export.range.start >= end {
        return Err(ApplyError::Range {
            export: export.name.clone(),
            device: config.devices[export.device].name.clone(),
            end: end.max(export.range.start),
            size: facts.size,
        });
    }
    let features = Features {
        read_only: export.read_only || facts.read_only,
        flush: true,
        fua: true,
        rotational: export.rotational.unwrap_or(facts.is_rotational),
        trim: true,
        write_zeroes: true,
        fast_zero: true,
        // One queue of one device is behind every connection: what one has flushed, all have. A client that is told
        // so opens several, and would fail where there may be one.
        multi_conn: export.multi_conn
            && config.server.max_connections > 1
            && export.max_connections != Some(1),
        cache: true,
    };
    let size = end - export.range.start;
    let nbd = Export {
        id,
        name: export.name.clone(),
        description: export.description.clone(),
        size,
        features,
        block_sizes: block_sizes(export, facts.block_bytes, size)?,
    };
    let of_export = config.server.max_connections_per_export(config.exports.len());
    Ok(Served {
        nbd,
        device,
        cgroup: export.cgroup.clone(),
        start: export.range.start,
        connections_max: export.max_connections.unwrap_or(of_export),
        client_max: export.client_max,
        counters: Arc::default(),
    })
}

/// What clients are told of the sizes of requests: what is configured, and what suits a device with blocks of
/// `block_bytes`.
fn block_sizes(
    export: &ExportConfig,
    block_bytes: u32,
    size: u64,
) -> Result<BlockSizes, ApplyError> {
    let BlockSize { min, preferred, max } = export.block_size;
    let (min, max) = (min.unwrap_or(1), max.unwrap_or(MAX_PAYLOAD));
    if !size.is_multiple_of(u64::from(min)) {
        return Err(ApplyError::BlockSize { export: export.name.clone(), size, min });
    }
    let usual = block_bytes.clamp(4096, 1 << 20).max(min);
    // The largest power of two that a payload may have.
    let preferred = preferred.unwrap_or(usual.min(1 << max.ilog2()));
    Ok(BlockSizes::new(min, preferred, max).expect("the configuration has been checked"))
}

/// Whether seeks take time: the model of an emulated device knows, of others the system.
fn is_rotational(device: &DeviceConfig, known: Option<bool>) -> bool {
    match &device.backend {
        Source::Emulated(spec) => spec.is_rotational(),
        Source::File { .. } | Source::Memory { .. } => known == Some(true),
    }
}
