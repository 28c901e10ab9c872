//! Service manager that started this process, if one did: what it is told over `NOTIFY_SOCKET`, as in sd_notify(3).
//!
//! | when | message |
//! |---|---|
//! | clients may connect | `READY=1` |
//! | the configuration is read again, by SIGHUP or a program | `RELOADING=1`, then `READY=1`, whether it was applied or refused |
//! | the server ends | `STOPPING=1`; `EXTEND_TIMEOUT_USEC` while it gets on with that |
//! | each third of `WATCHDOG_USEC` | `WATCHDOG=1`, if the threads of all devices turn, and the one that lets connections in: [`watch`] |

use std::sync::Arc;
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use weir_server::{Command, DeviceHandle, Heartbeat, Running};

/// What an end may take besides the drain time: the answers to what is cut, the last flush.
const END_MARGIN: Duration = Duration::from_secs(15);
/// What the log calls the thread that lets connections in.
const FRONT: &str = "front";
/// How often to look whether an ending server gets on.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// What the server does, in words; and that it is ready for it.
pub(super) fn ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// The configuration is being read again: [`ready`] follows.
pub(super) fn reloading() {
    let mut states = vec![NotifyState::Reloading, NotifyState::Status("reading the configuration")];
    states.extend(NotifyState::monotonic_usec_now());
    tell(&states);
}

/// The server ends.
pub(super) fn stopping(status: &str) {
    tell(&[NotifyState::Stopping, NotifyState::Status(status)]);
}

/// Without a service manager nothing is sent. One that does not listen is no reason to end.
fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "the service manager cannot be told");
    }
}

/// Asks for the time that an end with `drain_time` takes, and for more while there is progress: fewer requests inside, or fewer
/// bytes to be written back, which are not cut. Where a disk hangs there is none: the manager's patience ends, and with it the
/// server. Returns never.
pub(super) async fn extend(devices: Vec<DeviceHandle>, drain_time: Duration) {
    let ask = |time: Duration| {
        let micros = u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
        tell(&[NotifyState::ExtendTimeoutUsec(micros)]);
    };
    ask(drain_time + END_MARGIN);
    let mut least = u64::MAX;
    loop {
        sleep(LOOK_EVERY).await;
        let mut left = Some(0);
        for device in &devices {
            left = left.zip(left_to_do(device).await).map(|(left, more)| left + more);
        }
        if let Some(left) = left.filter(|left| *left < least) {
            least = left;
            ask(drain_time + END_MARGIN);
        }
    }
}

/// Requests inside, and bytes to be written back; `None` of a thread that does not answer in time.
async fn left_to_do(device: &DeviceHandle) -> Option<u64> {
    let (reply, status) = tokio::sync::oneshot::channel();
    if device.send(Command::Status { reply }).is_err() {
        return Some(0);
    }
    match tokio::time::timeout(LOOK_EVERY, status).await {
        Ok(Ok(report)) => {
            let status = report.status;
            let requests = u64::from(status.in_flight) + u64::from(status.ready + status.throttled);
            Some(requests + status.cache.map_or(0, |cache| cache.dirty_bytes))
        }
        // It has ended meanwhile.
        Ok(Err(_)) => Some(0),
        Err(_) => None,
    }
}

/// Tells the watchdog, if there is one, that the server is well, as often as it wants: when each thread has turned its
/// loop, or is held by the kernel ([`Heartbeat`]). A thread that does neither is in the log, and then the manager ends the
/// server. Returns never.
pub(super) async fn watch(running: Arc<Running>) {
    let Some(limit) = sd_notify::watchdog_enabled().filter(|limit| !limit.is_zero()) else {
        return std::future::pending().await;
    };
    let every = limit / 3;
    loop {
        let started = Instant::now();
        // At the same time: one that is held must not take the time of the others.
        let mut asked = JoinSet::new();
        for device in running.devices() {
            asked.spawn(async move { (device.heartbeat(every).await, device.name) });
        }
        let front = Arc::clone(&running);
        asked.spawn(async move { (front.front_heartbeat(every).await, FRONT.to_owned()) });
        let mut is_well = true;
        while let Some(Ok((heartbeat, thread))) = asked.join_next().await {
            match heartbeat {
                Heartbeat::Turns | Heartbeat::Ended => {}
                Heartbeat::HeldByKernel => {
                    tracing::warn!(
                        thread,
                        "the disk does not answer: its thread is held by the kernel"
                    );
                }
                Heartbeat::Silent => {
                    is_well = false;
                    tracing::error!(thread, "a thread does not answer: the watchdog is not told");
                }
            }
        }
        if is_well {
            tell(&[NotifyState::Watchdog]);
        }
        tokio::time::sleep_until(started + every).await;
    }
}
