//! Calibration of a disk model in virtual time.

use weir_disk::{DiskModel, DiskOp};
use weir_engine::Op;

use crate::calibration::{Ask, Calibration};
use crate::fit::Outcome;

/// Measures `disk` to the end: the clock jumps from completion to completion.
pub fn run(calibration: Calibration, disk: &mut dyn DiskModel) -> Outcome {
    run_while(calibration, disk, &mut |_| true).expect("nobody ended it")
}

/// The same, with `go_on` asked about every thousand requests; `None` if it returned false.
///
/// # Panics
/// If the model loses a request.
pub fn run_while(
    mut calibration: Calibration,
    disk: &mut dyn DiskModel,
    go_on: &mut dyn FnMut(&Calibration) -> bool,
) -> Option<Outcome> {
    const ASK_EVERY: u64 = 1024;
    let (mut now_ns, mut sent) = (0, 0u64);
    loop {
        while let Some(ask) = calibration.poll_request(now_ns) {
            submit(disk, now_ns, &ask);
            sent += 1;
            if sent.is_multiple_of(ASK_EVERY) && !go_on(&calibration) {
                return None;
            }
        }
        if calibration.is_over() {
            return Some(calibration.outcome().expect("a calibration that is over has an outcome"));
        }
        now_ns = disk.next_event().expect("requests are at the disk").max(now_ns);
        while disk.poll_complete(now_ns).is_some() {
            calibration.handle_completion(now_ns);
        }
    }
}

/// Hands a request to a model.
pub fn submit(disk: &mut dyn DiskModel, now_ns: u64, ask: &Ask) {
    let op = match ask.op {
        Op::Write => DiskOp::Write,
        Op::Flush => DiskOp::Flush,
        _ => DiskOp::Read,
    };
    disk.submit(now_ns, ask.id, op, ask.offset, ask.len);
}
