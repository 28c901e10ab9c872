//! Measuring a disk model: in real time, as `weir serve emulated:…` would answer, or in virtual time.

use weir_calibrate::{Calibration, Outcome, virtual_time};
use weir_disk::Spec;

use super::watch::Watch;
use crate::clock;
use crate::failure::Failure;

/// `None` if a signal ended it.
pub(super) fn measure(
    spec: &Spec,
    in_virtual_time: bool,
    calibration: Calibration,
    watch: &mut Watch,
) -> Result<Option<Outcome>, Failure> {
    let mut disk = spec.build();
    if in_virtual_time {
        let go_on = &mut |calibration: &Calibration| watch.look(clock::now_ns(), calibration);
        return Ok(virtual_time::run_while(calibration, &mut *disk, go_on));
    }
    let mut calibration = calibration;
    loop {
        let mut now_ns = clock::now_ns();
        if !watch.look(now_ns, &calibration) {
            return Ok(None);
        }
        while disk.poll_complete(now_ns).is_some() {
            calibration.handle_completion(now_ns);
        }
        while let Some(ask) = calibration.poll_request(now_ns) {
            virtual_time::submit(&mut *disk, now_ns, &ask);
        }
        if calibration.is_over() {
            return Ok(calibration.outcome());
        }
        let look_ns = Watch::next_look_ns(now_ns);
        let wake_ns = disk.next_event().map_or(look_ns, |event_ns| event_ns.min(look_ns));
        now_ns = clock::now_ns();
        if wake_ns > now_ns {
            clock::sleep_until(wake_ns);
        }
    }
}
