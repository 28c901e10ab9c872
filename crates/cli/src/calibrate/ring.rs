//! Measuring a real device, past the page cache, on a ring as the server has one.

use std::path::Path;

use weir_calibrate::{Ask, Outcome, Settings};
use weir_engine::Op;
use weir_units::Bytes;
use weir_uring::{
    Backend, Completion, Config, DirectMode, Disk, Durability, IoBuf, OpenError, OpenOptions, Ring,
};

use super::begin;
use super::watch::Watch;
use crate::clock;
use crate::failure::Failure;
use crate::pattern::pattern;

/// Memory for the largest load, 64 requests of 1 MiB, and a little more.
const POOL_BYTES: usize = 80 << 20;

/// `None` if a signal ended it.
pub(super) fn measure(
    path: &Path,
    settings: Settings,
    watch: &mut Watch,
) -> Result<Option<Outcome>, Failure> {
    let options = OpenOptions {
        read_only: !settings.writes,
        direct: DirectMode::On,
        ..OpenOptions::default()
    };
    let backend = Backend::open(path, options).map_err(|error| refused(&error))?;
    let (size, block) = (backend.info().size, backend.info().block_bytes);
    let mut calibration = begin(size, block, settings)?;
    let config = Config { pool_bytes: POOL_BYTES, registered_files: 8, ..Config::default() };
    let mut ring = Ring::new(&config).map_err(Failure::failed)?;
    let disk = ring.attach(backend);
    let mut sender = Sender { disk, spare: Vec::new(), filler: Vec::new() };
    loop {
        let mut now_ns = clock::now_ns();
        if !watch.look(now_ns, &calibration) {
            // Dropping the ring waits for requests at the device.
            return Ok(None);
        }
        while let Some(ask) = calibration.poll_request(now_ns) {
            sender.send(&mut ring, &ask)?;
        }
        if calibration.is_over() {
            return Ok(calibration.outcome());
        }
        ring.wait(Some(Watch::next_look_ns(now_ns)))
            .map_err(|error| Failure::failed(format!("io_uring: {error}")))?;
        now_ns = clock::now_ns();
        while let Some(completion) = ring.poll_completion() {
            if sender.is_done(completion, path)? {
                calibration.handle_completion(now_ns);
            }
        }
    }
}

/// Payload of writes.
struct Sender {
    disk: Disk,
    /// Buffers of the last length, to be used again.
    spare: Vec<IoBuf>,
    filler: Vec<u8>,
}

impl Sender {
    fn send(&mut self, ring: &mut Ring, ask: &Ask) -> Result<(), Failure> {
        if ask.op == Op::Flush {
            ring.flush(&self.disk, ask.id);
            return Ok(());
        }
        let buffer = self.buffer(ring, ask)?;
        match ask.op {
            Op::Write => ring.write(&self.disk, ask.offset, buffer, Durability::Volatile, ask.id),
            _ => ring.read(&self.disk, ask.offset, buffer, ask.id),
        }
        Ok(())
    }

    fn buffer(&mut self, ring: &Ring, ask: &Ask) -> Result<IoBuf, Failure> {
        let len = ask.len as usize;
        // Between two loads nothing is at the device: all buffers of another length are here.
        if self.spare.last().is_some_and(|buffer| buffer.len() != len) {
            self.spare.clear();
        }
        if let Some(buffer) = self.spare.pop() {
            return Ok(buffer);
        }
        let buffer = ring.pool().get(len);
        let mut buffer =
            buffer.ok_or_else(|| Failure::failed("there is no memory for a request"))?;
        if ask.op == Op::Write {
            if self.filler.len() < len {
                self.filler = pattern(len);
            }
            buffer.copy_from_slice(&self.filler[..len]);
        }
        Ok(buffer)
    }

    /// Handles completions; returns whether one was a request.
    fn is_done(&mut self, completion: Completion, path: &Path) -> Result<bool, Failure> {
        let (what, buffer, result) = match completion {
            Completion::Read { buffer, result, .. } => ("read", Some(buffer), result),
            Completion::Written { buffer, result, .. } => ("write", Some(buffer), result),
            Completion::Done { result, .. } => ("flush", None, result),
            _ => return Ok(false),
        };
        if let Err(error) = result {
            let len = buffer.map_or(0, |buffer| buffer.len() as u64);
            let path = path.display();
            return Err(Failure::failed(format!(
                "{path}: a {what} of {} failed: {error}",
                Bytes(len)
            )));
        }
        self.spare.extend(buffer);
        Ok(true)
    }
}

fn refused(error: &OpenError) -> Failure {
    let failure = Failure::failed(error);
    match error {
        OpenError::Open { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
            failure.hint("block devices belong to root; a file on the device needs no rights".to_owned())
        }
        OpenError::Direct { .. } => failure.hint(
            "the page cache would be measured instead; take a file on another file system, or the device"
                .to_owned(),
        ),
        OpenError::Busy { .. } | OpenError::Kind { .. } | OpenError::Empty { .. } => Failure::wrong(error),
        _ => failure,
    }
}
