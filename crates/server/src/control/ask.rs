//! Questions to the threads of devices, and their answers.

use std::time::Duration;

use tokio::sync::oneshot;

use super::host::Target;
use super::refuse::Refused;
use crate::command::Command;
use crate::status::DeviceStatus;

/// How long a device thread may take to answer. It answers between two turns of its loop, so within milliseconds;
/// one that does not in this time hangs in the kernel, and people should hear of it rather than wait.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// The whole status of each of `devices`.
pub(super) async fn statuses<T: Target>(devices: &[&T]) -> Result<Vec<DeviceStatus>, Refused> {
    let reports = ask(devices, |reply| Command::Status { reply }).await?;
    let pairs = devices.iter().zip(reports);
    Ok(pairs.map(|(device, report)| device.complete(report)).collect())
}

/// Asks all of `devices` at once; answers are in their order.
pub(super) async fn ask<T: Target, R>(
    devices: &[&T],
    make: impl Fn(oneshot::Sender<R>) -> Command,
) -> Result<Vec<R>, Refused> {
    let deadline = tokio::time::Instant::now() + ANSWER_WITHIN;
    let asked: Vec<_> = devices.iter().map(|device| (*device, post(*device, &make))).collect();
    let mut answers = Vec::with_capacity(asked.len());
    for (device, reply) in asked {
        answers.push(wait(device, reply?, deadline).await?);
    }
    Ok(answers)
}

/// Hands a command to a device's thread; where its answer comes.
pub(super) fn post<T: Target, R>(
    device: &T,
    make: &impl Fn(oneshot::Sender<R>) -> Command,
) -> Result<oneshot::Receiver<R>, Refused> {
    let (reply, answer) = oneshot::channel();
    if device.send(make(reply)) { Ok(answer) } else { Err(gone(device)) }
}

/// The answer, if it comes by `deadline`.
pub(super) async fn wait<T: Target, R>(
    device: &T,
    answer: oneshot::Receiver<R>,
    deadline: tokio::time::Instant,
) -> Result<R, Refused> {
    match tokio::time::timeout_at(deadline, answer).await {
        Ok(answer) => answer.map_err(|_| gone(device)),
        Err(_) => {
            let seconds = ANSWER_WITHIN.as_secs();
            let name = device.name();
            let message = format!("device {name:?} has not answered within {seconds} s");
            Err(Refused::silent(message).hint("it may hang in its storage: see the log".to_owned()))
        }
    }
}

fn gone<T: Target>(device: &T) -> Refused {
    Refused::silent(format!("device {:?} is not served any more", device.name()))
}
