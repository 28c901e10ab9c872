//! Rate limiter of changes, by caller: GCRA with one theoretical arrival time each.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Changes a second of one caller in the long run: a script that sets a thousand limits a second is still served.
const PER_SECOND: u32 = 1_000;
/// Changes at once after a pause.
const BURST: u32 = 2_000;
/// Callers that are kept track of; as many as connections by far.
const CALLERS_MAX: usize = 1_024;

const INTERVAL: Duration = Duration::from_nanos(1_000_000_000 / PER_SECOND as u64);

/// The arrival times by caller: its user, or its token.
#[derive(Debug, Default)]
pub(super) struct ChangeRate {
    due: Mutex<BTreeMap<String, Instant>>,
}

impl ChangeRate {
    /// Leave for one change now, or how long to wait for it.
    pub(super) fn take(&self, caller: &str, now: Instant) -> Result<(), Duration> {
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        if due.len() >= CALLERS_MAX {
            // One whose time has come has its whole burst, as one that is not known.
            due.retain(|_, due| *due > now);
        }
        let known = due.get(caller).copied();
        if known.is_none() && due.len() >= CALLERS_MAX {
            return Err(INTERVAL);
        }
        let from = known.map_or(now, |due| due.max(now));
        let ahead = from.duration_since(now);
        if let Some(wait) = (ahead + INTERVAL).checked_sub(INTERVAL * BURST)
            && !wait.is_zero()
        {
            return Err(wait);
        }
        due.insert(caller.to_owned(), from + INTERVAL);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_goes_at_once_and_then_one_a_millisecond() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let _entered = runtime.enter();
        let (rate, start) = (ChangeRate::default(), Instant::now());
        let taken = (0..).take_while(|_| rate.take("a", start).is_ok()).count();
        assert_eq!(taken, 2_000);
        assert_eq!(rate.take("a", start), Err(Duration::from_millis(1)));
        assert_eq!(rate.take("b", start), Ok(()), "another caller has its own");
        let later = start + Duration::from_millis(5);
        let taken = (0..).take_while(|_| rate.take("a", later).is_ok()).count();
        assert_eq!(taken, 5);
    }

    #[test]
    fn callers_are_bounded_and_forgotten_when_their_time_has_come() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let _entered = runtime.enter();
        let (rate, start) = (ChangeRate::default(), Instant::now());
        for caller in 0..CALLERS_MAX {
            assert_eq!(rate.take(&caller.to_string(), start), Ok(()));
        }
        assert_eq!(rate.take("one more", start), Err(INTERVAL));
        assert_eq!(rate.take("one more", start + INTERVAL), Ok(()));
        assert_eq!(rate.due.lock().unwrap().len(), 1);
    }
}
