//! The operations of the control API, without HTTP.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard, oneshot};
use weir_engine::Path;
use weir_text::{DeviceRef, LimitKey, WeightKey};
use weir_units::nearest;

use super::api::{
    DoneReply, HealthReply, MoveRequest, ReadBack, RemoveRequest, SetReply, SetRequest,
};
use super::ask::{ANSWER_WITHIN, ask, post, statuses, wait};
use super::caller::{Change, Identity};
use super::generation::Generation;
use super::host::{Host, Target};
use super::live::Live;
use super::look::seconds_since_1970;
use super::metrics::LastReload;
use super::refuse::{ASK_STATUS, Refused};
use super::route::Call;
use super::setting::{Key, Which};
use super::tenants::reload_lines;
use super::token::Tokens;
use crate::change::Changes;
use crate::command::{Applied, Command, SetError, Setting};
use crate::status::{CgroupStatus, DeviceStatus};
use crate::tenants::{Edit, Tenants, TenantsError};

/// How long a change may wait for those before it: for three that ask a device that hangs.
const TURN_WITHIN: Duration = Duration::from_secs(6);
/// Names among which the nearest is looked for.
const NEAREST_MAX: usize = 10_000;

/// A server, and the operations of the API on it. Changes are made one after another.
pub struct Control<T> {
    pub(super) host: Box<dyn Host<T>>,
    pub(super) started: tokio::time::Instant,
    /// In seconds since 1970.
    pub(super) started_at: f64,
    pub(super) generation: Generation,
    pub(super) live: Arc<Live>,
    pub(super) last_reload: std::sync::Mutex<Option<LastReload>>,
    /// Held during a change: what `If-Match` was compared with holds until the change is made.
    changes: Mutex<()>,
    is_ending: AtomicBool,
}

/// The right to change something: no other change is made meanwhile.
pub(super) struct Turn<'c> {
    generation: &'c Generation,
    caller: &'c Identity,
    _held: MutexGuard<'c, ()>,
}

impl Turn<'_> {
    /// Logs what was changed; the generation that it makes, or the old one where nothing was.
    pub(super) fn changed(&self, changes: &[Change]) -> String {
        if !changes.is_empty() {
            self.generation.bump();
        }
        let generation = self.generation.text();
        changes.iter().for_each(|change| change.log(self.caller, &generation));
        generation
    }
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
    /// Of this server. Its uptime counts from here.
    pub fn new(host: impl Host<T>) -> Control<T> {
        let started_at = seconds_since_1970();
        Control {
            host: Box::new(host),
            started: tokio::time::Instant::now(),
            started_at,
            live: Arc::new(Live::new(started_at)),
            generation: Generation::new(),
            last_reload: std::sync::Mutex::default(),
            changes: Mutex::new(()),
            is_ending: AtomicBool::new(false),
        }
    }

    pub(super) fn devices(&self) -> Devices<T> {
        Devices(self.host.devices())
    }

    pub(super) fn tokens(&self) -> Arc<Tokens> {
        self.host.tokens()
    }

    pub(super) fn host(&self) -> &dyn Host<T> {
        &*self.host
    }

    pub(super) fn generation_text(&self) -> String {
        self.generation.text()
    }

    /// From now on the server is not ready: it ends. Streams of live samples end, too.
    pub fn set_ending(&self) {
        self.is_ending.store(true, Ordering::SeqCst);
        self.live.end();
    }

    /// Reads the configuration of `tenants` again, after the changes that are under way.
    ///
    /// # Errors
    /// As of [`Tenants::reload`].
    pub async fn reload_for(
        &self,
        caller: &Identity,
        tenants: &Tenants,
    ) -> Result<Changes, TenantsError> {
        let held = self.changes.lock().await;
        let reloaded = tenants.reload(false).await;
        self.note_reload(reloaded.is_ok());
        let (changes, differences) = reloaded?;
        let turn = Turn { generation: &self.generation, caller, _held: held };
        turn.changed(&reload_lines(&changes, &differences));
        Ok(changes)
    }

    /// The turn of a change, which is refused if it is based on another generation than the present one.
    pub(super) async fn turn<'c>(&'c self, call: &'c Call) -> Result<Turn<'c>, Refused> {
        let held = tokio::time::timeout(TURN_WITHIN, self.changes.lock()).await;
        let held = held.map_err(|_| {
            let message = "other changes are under way, and have not been made in time";
            Refused::silent(message)
                .hint("a device may hang in its storage: see the log".to_owned())
        })?;
        if let Some(if_match) = &call.if_match {
            if_match.check(&self.generation.text())?;
        }
        Ok(Turn { generation: &self.generation, caller: &call.caller.identity, _held: held })
    }

    /// Whether every device thread answers. O(devices).
    pub(super) async fn health(&self) -> Result<HealthReply, Refused> {
        let devices = self.devices();
        let devices = devices.all();
        let cgroup = Path::parse("/").expect("the root's path");
        ask(&devices, |reply| Command::Settings { cgroup: cgroup.clone(), reply }).await?;
        Ok(HealthReply { devices: devices.iter().map(|device| device.name().into()).collect() })
    }

    /// Whether clients are served.
    pub(super) async fn readiness(&self) -> Result<HealthReply, Refused> {
        if self.is_ending.load(Ordering::SeqCst) {
            return Err(Refused::silent("the server is ending"));
        }
        self.health().await
    }

    pub(super) async fn set(&self, call: &Call, request: &SetRequest) -> Result<SetReply, Refused> {
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
        let turn = self.turn(call).await?;
        let all = self.devices();
        let devices = all.chosen(key, which, request.device.as_deref())?;
        let settings = |reply| Command::Settings { cgroup: cgroup.clone(), reply };
        let before = ask(&devices, settings).await?;
        let created = before.iter().all(|device| find(device, &cgroup).is_none());
        if created && !request.create {
            return Err(all.unknown(&cgroup, &devices).await);
        }
        let applied = apply_all(&devices, key, &cgroup, &setting).await?;
        let after = match ask(&devices, settings).await {
            Ok(after) => after,
            Err(refused) => {
                take_back(applied).await;
                return Err(refused);
            }
        };
        let value = |device: &DeviceStatus| Some(key.read_back(device, find(device, &cgroup)?));
        let mut edits = edits(key, &cgroup, &after, devices.len() == all.0.len());
        edits.extend(taken_along(key, &cgroup, &before, &after));
        if let Err(refused) = self.keep(&edits, request.runtime).await {
            take_back(applied).await;
            return Err(refused);
        }
        let of = |devices: &[DeviceStatus], name: &str| {
            value(devices.iter().find(|device| device.device == name)?)
        };
        let change = |device: &&T| Change {
            operation: "set",
            cgroup: Some(cgroup.to_string()),
            device: Some(device.name().into()),
            key: Some(key.name().into()),
            old: of(&before, device.name()),
            new: of(&after, device.name()),
        };
        let changes = devices.iter().map(change).filter(|change| change.old != change.new);
        let generation = turn.changed(&changes.collect::<Vec<_>>());
        let read_back = |device: &DeviceStatus| {
            Some(ReadBack { device: device.device.clone(), value: value(device)? })
        };
        Ok(SetReply {
            cgroup: cgroup.to_string(),
            key: key.name().into(),
            created,
            devices: after.iter().filter_map(read_back).collect(),
            generation,
        })
    }

    pub(super) async fn remove(
        &self,
        call: &Call,
        request: &RemoveRequest,
    ) -> Result<DoneReply, Refused> {
        let cgroup = path(&request.cgroup, "cgroup")?;
        let turn = self.turn(call).await?;
        let devices = self.devices();
        let devices = devices.having(&cgroup, request.device.as_deref()).await?;
        let is_runtime = check_whole(request.device.as_deref(), request.runtime)?;
        let remove = |is_trial, reply| Command::Remove { cgroup: cgroup.clone(), is_trial, reply };
        // What none refuses now is not refused below: nothing else changes cgroups while it is this request's turn.
        one_by_one(&devices, |reply| remove(true, reply)).await.map_err(|(refused, _)| refused)?;
        self.keep(&[Edit::RemoveCgroup(cgroup.to_string())], is_runtime).await?;
        let removed = one_by_one(&devices, |reply| remove(false, reply)).await;
        let (done, refused) = match removed {
            Ok(()) => (&devices[..], None),
            Err((refused, done)) => {
                (&devices[..done], Some(refused.after(&names(&devices[..done]))))
            }
        };
        let change = |device: &String| Change {
            operation: "remove",
            cgroup: Some(cgroup.to_string()),
            device: Some(device.clone()),
            ..Change::default()
        };
        finished(&turn, names(done), refused, change)
    }

    pub(super) async fn relocate(
        &self,
        call: &Call,
        request: &MoveRequest,
    ) -> Result<DoneReply, Refused> {
        let cgroup = path(&request.cgroup, "cgroup")?;
        let parent = path(&request.parent, "parent")?;
        let turn = self.turn(call).await?;
        let devices = self.devices();
        let devices = devices.having(&cgroup, request.device.as_deref()).await?;
        let is_runtime = check_whole(request.device.as_deref(), request.runtime)?;
        let to = |cgroup: &Path, parent: &Path, reply| {
            let (cgroup, parent) = (cgroup.clone(), parent.clone());
            Command::Move { cgroup, parent, reply }
        };
        let name = cgroup.names().last().unwrap_or_default();
        let moved = below(&parent, name);
        let edit = Edit::MoveCgroup { cgroup: cgroup.to_string(), parent: parent.to_string() };
        let done = match one_by_one(&devices, |reply| to(&cgroup, &parent, reply)).await {
            Ok(()) => self.keep(&[edit], is_runtime).await.map_err(|error| (error, devices.len())),
            refused => refused,
        };
        if let Err((refused, done)) = done {
            if let (Some(moved), Some(old)) = (&moved, above(&cgroup)) {
                // A device that has gone meanwhile has nothing to be taken back.
                let _ = one_by_one(&devices[..done], |reply| to(moved, &old, reply)).await;
            }
            return Err(refused);
        }
        let change = |device: &String| Change {
            operation: "move",
            cgroup: Some(cgroup.to_string()),
            device: Some(device.clone()),
            old: Some(cgroup.to_string()),
            new: moved.as_ref().map(Path::to_string),
            ..Change::default()
        };
        finished(&turn, names(&devices), None, change)
    }
}

/// Devices of a server at one moment.
pub(super) struct Devices<T>(Vec<T>);

impl<T: Target> Devices<T> {
    pub(super) fn all(&self) -> Vec<&T> {
        self.0.iter().collect()
    }

    /// The refusal of a cgroup that is on none of `devices`, with the nearest that is.
    async fn unknown(&self, cgroup: &Path, devices: &[&T]) -> Refused {
        let create = "`--create`, or \"create\": true, makes it";
        let all = self.all();
        let settings = |reply| Command::Settings { cgroup: cgroup.clone(), reply };
        let elsewhere = match ask(&all, settings).await {
            Ok(found) => found.into_iter().find(|device| find(device, cgroup).is_some()),
            Err(refused) => return refused,
        };
        let hint = match elsewhere {
            Some(device) => format!("it is on device {:?}; {create} here", device.device),
            None => match statuses(devices).await {
                Ok(found) => {
                    // With very many names, a search for the nearest takes too long.
                    let known = found.iter().flat_map(|device| &device.cgroups).take(NEAREST_MAX);
                    match nearest(cgroup.as_str(), known.map(|found| found.cgroup.as_str())) {
                        Some(near) => format!("did you mean {near:?}? {create}"),
                        None => format!("{ASK_STATUS}; {create}"),
                    }
                }
                Err(refused) => return refused,
            },
        };
        Refused::by_device("cgroup", &SetError::UnknownCgroup(cgroup.clone())).hint(hint)
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
            (Which::Every, None) => Ok(self.all()),
            (Which::Unnamed, None) => match (key, &self.0[..]) {
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
            None => self.all(),
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
        self.0.iter().find(is_meant).ok_or_else(|| {
            let hint = match nearest(name, self.0.iter().map(Target::name)) {
                Some(near) => format!("did you mean {near:?}?"),
                None => format!("known: {}", self.names()),
            };
            Refused::missing("device", format!("there is no device {name:?}")).hint(hint)
        })
    }

    fn names(&self) -> String {
        let names: Vec<&str> = self.0.iter().map(Target::name).collect();
        names.join(", ")
    }
}

/// What a setting on `devices` is in the configuration. One that all devices have alike is said once.
fn edits(key: Key, cgroup: &Path, devices: &[DeviceStatus], are_all: bool) -> Vec<Edit> {
    let values = devices.iter().filter_map(|device| {
        Some((device.device.clone(), key.read_back(device, find(device, cgroup)?)))
    });
    let values: Vec<(String, String)> = values.collect();
    let name = match key {
        Key::Weight(_) => WeightKey::Io.key(),
        key => key.name(),
    };
    let edit = |device: Option<String>, value: &str| Edit::Set {
        cgroup: cgroup.to_string(),
        device,
        key: name.into(),
        value: value.into(),
    };
    let is_for_devices = matches!(key, Key::Limit(_)) || cgroup.as_str() == "/";
    match &values[..] {
        [(_, value), ..] if are_all && !is_for_devices => vec![edit(None, value)],
        values => values.iter().map(|(device, value)| edit(Some(device.clone()), value)).collect(),
    }
}

/// Bursts and peaks that a limit has taken along when it was lifted: without it they mean nothing.
fn taken_along(
    key: Key,
    cgroup: &Path,
    before: &[DeviceStatus],
    after: &[DeviceStatus],
) -> Vec<Edit> {
    if key != Key::Limit(LimitKey::Max) {
        return Vec::new();
    }
    let mut edits = Vec::new();
    for (before, after) in before.iter().zip(after) {
        for key in [LimitKey::Burst, LimitKey::Peak].map(Key::Limit) {
            let value = |device| Some(key.read_back(device, find(device, cgroup)?));
            if let (Some(old), Some(new)) = (value(before), value(after))
                && old != new
            {
                let (cgroup, device) = (cgroup.to_string(), Some(after.device.clone()));
                edits.push(Edit::Set { cgroup, device, key: key.name().into(), value: new });
            }
        }
    }
    edits
}

/// The files have a cgroup for all devices: what is done on one of them is at run time only.
fn check_whole(device: Option<&str>, is_runtime: bool) -> Result<bool, Refused> {
    if device.is_some() && !is_runtime {
        let message = "a cgroup is in the configuration for all devices, so this cannot be kept";
        return Err(Refused::conflict("device", message)
            .hint("leave the device out, or say it at run time only: `--runtime`".to_owned()));
    }
    Ok(is_runtime)
}

/// Sets on all of `devices`, or on none.
async fn apply_all<'d, T: Target>(
    devices: &[&'d T],
    key: Key,
    cgroup: &Path,
    setting: &Setting,
) -> Result<Vec<(&'d T, Applied)>, Refused> {
    let mut done: Vec<(&T, Applied)> = Vec::new();
    for &device in devices {
        let deadline = tokio::time::Instant::now() + ANSWER_WITHIN;
        let make =
            |reply| Command::Apply { settings: vec![(cgroup.clone(), setting.clone())], reply };
        let answer = match post(device, &make) {
            Ok(reply) => wait(device, reply, deadline).await,
            Err(gone) => Err(gone),
        };
        let refuse = |(_, error): (Path, SetError)| Refused::by_device(key.name(), &error);
        match answer.and_then(|answer| answer.map_err(refuse)) {
            Ok(applied) => done.push((device, applied)),
            Err(refused) => {
                take_back(done).await;
                return Err(refused);
            }
        }
    }
    Ok(done)
}

/// Undoes what has been applied; a device that has gone meanwhile has nothing to be undone.
async fn take_back<T: Target>(done: Vec<(&T, Applied)>) {
    for (device, applied) in done.into_iter().rev() {
        let deadline = tokio::time::Instant::now() + ANSWER_WITHIN;
        let make = |reply| Command::Apply { settings: applied.before.clone(), reply };
        if let Ok(reply) = post(device, &make) {
            drop(wait(device, reply, deadline).await);
        }
        for cgroup in applied.created.iter().rev() {
            let make = |reply| Command::Remove { cgroup: cgroup.clone(), is_trial: false, reply };
            if let Ok(reply) = post(device, &make) {
                drop(wait(device, reply, deadline).await);
            }
        }
    }
}

/// The path of the cgroup `name` below `parent`.
fn below(parent: &Path, name: &str) -> Option<Path> {
    Path::parse(&format!("{}/{name}", parent.as_str().trim_end_matches('/'))).ok()
}

/// The path of the cgroup above; `None` of the root.
fn above(cgroup: &Path) -> Option<Path> {
    let (parent, name) = cgroup.as_str().rsplit_once('/')?;
    let parent = if parent.is_empty() { "/" } else { parent };
    Path::parse(parent).ok().filter(|_| !name.is_empty())
}

fn names<T: Target>(devices: &[&T]) -> Vec<String> {
    devices.iter().map(|device| device.name().to_owned()).collect()
}

/// Asks `devices` one after another, until one refuses: its refusal, and how many have done it before.
async fn one_by_one<T: Target>(
    devices: &[&T],
    make: impl Fn(oneshot::Sender<Result<(), SetError>>) -> Command,
) -> Result<(), (Refused, usize)> {
    for (done, &device) in devices.iter().enumerate() {
        let deadline = tokio::time::Instant::now() + ANSWER_WITHIN;
        let answer = match post(device, &make) {
            Ok(reply) => wait(device, reply, deadline).await,
            Err(gone) => Err(gone),
        };
        let refused = match answer {
            Ok(Ok(())) => continue,
            Ok(Err(error)) => Refused::by_device("cgroup", &error),
            Err(refused) => refused,
        };
        return Err((refused, done));
    }
    Ok(())
}

/// Logs what the devices in `done` have done; the answer.
fn finished(
    turn: &Turn<'_>,
    done: Vec<String>,
    refused: Option<Refused>,
    change: impl Fn(&String) -> Change,
) -> Result<DoneReply, Refused> {
    let generation = turn.changed(&done.iter().map(change).collect::<Vec<_>>());
    match refused {
        Some(refused) => Err(refused),
        None => Ok(DoneReply { devices: done, generation }),
    }
}
