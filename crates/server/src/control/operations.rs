//! The operations of the control API, without HTTP.

use std::time::Duration;

use tokio::sync::oneshot;
use weir_engine::Path;
use weir_text::DeviceRef;
use weir_units::nearest;

use super::api::{DoneReply, MoveRequest, ReadBack, RemoveRequest, SetReply, SetRequest};
use super::refuse::Refused;
use super::setting::{Key, Which};
use crate::command::{Command, SetError};
use crate::device::DeviceHandle;
use crate::status::{CgroupStatus, DeviceStatus, Status};

/// How long a device thread may take to answer. It answers between two turns of its loop, so within milliseconds;
/// one that does not in this time hangs in the kernel, and people should hear of it rather than wait.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// A device thread as the control API sees it.
pub trait Target: Send + Sync + 'static {
    /// The device's name in the configuration.
    fn name(&self) -> &str;
    /// Major and minor number, if it is a block device.
    fn number(&self) -> Option<(u32, u32)> {
        None
    }
    /// Hands it a command; false when the thread has ended.
    fn send(&self, command: Command) -> bool;
}

impl Target for DeviceHandle {
    fn name(&self) -> &str {
        &self.name
    }

    fn number(&self) -> Option<(u32, u32)> {
        self.number
    }

    fn send(&self, command: Command) -> bool {
        DeviceHandle::send(self, command).is_ok()
    }
}

/// All devices of a server.
pub(super) struct Control<T> {
    devices: Vec<T>,
    started: tokio::time::Instant,
}

/// The cgroup that a request names. Too long a path does not get to a device.
fn path(text: &str, key: &str) -> Result<Path, Refused> {
    let path = Path::parse(text).map_err(|error| {
        let hint = (!text.starts_with('/')).then(|| format!("write {:?}", format!("/{text}")));
        Refused::bad(key, error.to_string()).hint(hint)
    })?;
    match (path.names().count(), weir_config::CGROUP_DEPTH_MAX) {
        (depth, max) if depth > max => {
            Err(Refused::by_device(key, &SetError::TooDeep { depth, max }))
        }
        _ => Ok(path),
    }
}

fn find<'s>(device: &'s DeviceStatus, cgroup: &Path) -> Option<&'s CgroupStatus> {
    device.cgroups.iter().find(|status| status.cgroup == cgroup.as_str())
}

impl<T: Target> Control<T> {
    pub(super) fn new(devices: Vec<T>) -> Control<T> {
        Control { devices, started: tokio::time::Instant::now() }
    }

    pub(super) async fn status(&self) -> Result<Status, Refused> {
        let devices: Vec<&T> = self.devices.iter().collect();
        Ok(Status {
            version: env!("CARGO_PKG_VERSION").into(),
            uptime_secs: self.started.elapsed().as_secs(),
            devices: ask(&devices, |reply| Command::Status { reply }).await?,
        })
    }

    pub(super) async fn set(&self, request: &SetRequest) -> Result<SetReply, Refused> {
        let cgroup = path(&request.cgroup, "cgroup")?;
        let key = Key::parse(&request.key)?;
        let (which, setting) = key.read(&request.value)?;
        if key.is_of_device() && cgroup.as_str() != "/" {
            let message = format!("{} belongs to the device, not to {cgroup}", key.name());
            return Err(Refused::bad("cgroup", message).hint("set it on /".to_owned()));
        }
        // As in Linux and in the configuration: what is to hold for all is set on the cgroups below.
        if !key.is_for_root() && cgroup.as_str() == "/" {
            let message = format!("{}: the root cgroup has no limits and no weight", key.name());
            let hint = "set it on a cgroup below: `weir status` lists them".to_owned();
            return Err(Refused::bad("cgroup", message).hint(hint));
        }
        let devices = self.chosen(key, which, request.device.as_deref())?;
        let settings = |reply| Command::Settings { cgroup: cgroup.clone(), reply };
        let before = ask(&devices, settings).await?;
        let created = before.iter().all(|device| find(device, &cgroup).is_none());
        let make = |reply| {
            let (cgroup, setting) = (cgroup.clone(), setting.clone());
            Command::Set { cgroup, setting, reply }
        };
        one_by_one(&devices, key.name(), make).await?;
        let after = ask(&devices, settings).await?;
        let read_back = |device: &DeviceStatus| {
            let value = key.read_back(device, find(device, &cgroup)?);
            Some(ReadBack { device: device.device.clone(), value })
        };
        Ok(SetReply {
            cgroup: cgroup.to_string(),
            key: key.name().into(),
            created,
            devices: after.iter().filter_map(read_back).collect(),
        })
    }

    pub(super) async fn remove(&self, request: &RemoveRequest) -> Result<DoneReply, Refused> {
        let cgroup = path(&request.cgroup, "cgroup")?;
        let devices = self.having(&cgroup, request.device.as_deref()).await?;
        let make = |reply| Command::Remove { cgroup: cgroup.clone(), reply };
        one_by_one(&devices, "cgroup", make).await
    }

    pub(super) async fn relocate(&self, request: &MoveRequest) -> Result<DoneReply, Refused> {
        let cgroup = path(&request.cgroup, "cgroup")?;
        let parent = path(&request.parent, "parent")?;
        let devices = self.having(&cgroup, request.device.as_deref()).await?;
        let make = |reply| {
            let (cgroup, parent) = (cgroup.clone(), parent.clone());
            Command::Move { cgroup, parent, reply }
        };
        one_by_one(&devices, "cgroup", make).await
    }

    /// The devices that a setting is for.
    fn chosen(&self, key: Key, which: Which<'_>, asked: Option<&str>) -> Result<Vec<&T>, Refused> {
        if let (Which::One(named), Some(asked)) = (which, asked)
            && named != asked
        {
            let message = format!("the value is for device {named:?}, the request for {asked:?}");
            return Err(Refused::bad("device", message));
        }
        match (which, asked) {
            (Which::One(name), _) | (_, Some(name)) => Ok(vec![self.device(name)?]),
            (Which::Every, None) => Ok(self.devices.iter().collect()),
            (Which::Unnamed, None) => match (key, &self.devices[..]) {
                (Key::Limit(_), [_, _, ..]) => {
                    let hint = format!("begin the value with one of {}, or with *", self.names());
                    let message = format!("{}: which device?", key.name());
                    Err(Refused::bad("device", message).hint(hint))
                }
                (_, devices) => Ok(devices.iter().collect()),
            },
        }
    }

    /// The devices, or the one asked for, that have `cgroup`.
    async fn having(&self, cgroup: &Path, asked: Option<&str>) -> Result<Vec<&T>, Refused> {
        let devices = match asked {
            Some(name) => vec![self.device(name)?],
            None => self.devices.iter().collect(),
        };
        let settings = |reply| Command::Settings { cgroup: cgroup.clone(), reply };
        let statuses = ask(&devices, settings).await?;
        let having: Vec<&T> = devices
            .into_iter()
            .zip(&statuses)
            .filter(|(_, status)| find(status, cgroup).is_some())
            .map(|(device, _)| device)
            .collect();
        if having.is_empty() {
            return Err(Refused::by_device("cgroup", &SetError::UnknownCgroup(cgroup.clone())));
        }
        Ok(having)
    }

    fn device(&self, name: &str) -> Result<&T, Refused> {
        let is_meant = |device: &&T| match DeviceRef::parse(name) {
            Some(DeviceRef::Number { major, minor }) => device.number() == Some((major, minor)),
            _ => device.name() == name,
        };
        self.devices.iter().find(is_meant).ok_or_else(|| {
            let hint = match nearest(name, self.devices.iter().map(Target::name)) {
                Some(near) => format!("did you mean {near:?}?"),
                None => format!("known: {}", self.names()),
            };
            Refused::missing("device", format!("there is no device {name:?}")).hint(hint)
        })
    }

    fn names(&self) -> String {
        let names: Vec<&str> = self.devices.iter().map(Target::name).collect();
        names.join(", ")
    }
}

/// Asks all of `devices` at once; answers are in their order.
async fn ask<T: Target, R>(
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

/// Asks `devices` one after another; the first refusal ends it, and names the devices that have changed already.
async fn one_by_one<T: Target>(
    devices: &[&T],
    key: &str,
    make: impl Fn(oneshot::Sender<Result<(), SetError>>) -> Command,
) -> Result<DoneReply, Refused> {
    let mut done = DoneReply { devices: Vec::new() };
    for &device in devices {
        let deadline = tokio::time::Instant::now() + ANSWER_WITHIN;
        let answer = match post(device, &make) {
            Ok(reply) => wait(device, reply, deadline).await,
            Err(gone) => Err(gone),
        };
        answer
            .and_then(|answer| answer.map_err(|error| Refused::by_device(key, &error)))
            .map_err(|refused| refused.after(&done.devices))?;
        done.devices.push(device.name().into());
    }
    Ok(done)
}

fn post<T: Target, R>(
    device: &T,
    make: &impl Fn(oneshot::Sender<R>) -> Command,
) -> Result<oneshot::Receiver<R>, Refused> {
    let (reply, answer) = oneshot::channel();
    if device.send(make(reply)) { Ok(answer) } else { Err(gone(device)) }
}

async fn wait<T: Target, R>(
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
