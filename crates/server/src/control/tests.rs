//! The API over a real socket, against device threads that keep books and do no I/O.

#[path = "../../../text/tests/shared/texts.rs"]
mod texts;

use std::sync::Mutex;

use weir_engine::{Path, PerDimension};
use weir_text::{LimitKey, parse_limits, print_watermark};

use super::operations::{Control, Target};
use super::*;
use crate::command::{Command, SetError, Setting};
use crate::status::{CgroupStatus, DeviceStatus};

/// A device thread that only remembers what it was told, and answers at once.
struct Books {
    name: String,
    number: Option<(u32, u32)>,
    device: Mutex<DeviceStatus>,
    /// Replies that are neither sent nor dropped: what a device thread does that hangs.
    hung: Option<Mutex<Vec<Command>>>,
}

impl Target for Books {
    fn name(&self) -> &str {
        &self.name
    }

    fn number(&self) -> Option<(u32, u32)> {
        self.number
    }

    fn send(&self, command: Command) -> bool {
        match &self.hung {
            Some(held) => held.lock().unwrap().push(command),
            None => keep(&mut self.device.lock().unwrap(), command),
        }
        self.name != "gone"
    }
}

fn books(name: &str) -> Books {
    let mut device = DeviceStatus { device: name.into(), depth: 32, ..DeviceStatus::default() };
    device.cgroups.extend(["/", "/vm1", "/vm1/db"].map(cgroup));
    let hung = (name == "hung").then(Mutex::default);
    let number = (name == "b").then_some((8, 16));
    Books { name: name.into(), number, device: Mutex::new(device), hung }
}

fn cgroup(path: &str) -> CgroupStatus {
    CgroupStatus {
        cgroup: path.into(),
        io_weight: 100,
        limiter: "pace".into(),
        ..CgroupStatus::default()
    }
}

fn keep(device: &mut DeviceStatus, command: Command) {
    match command {
        Command::Status { reply } => drop(reply.send(device.clone())),
        Command::Settings { cgroup: path, reply } => {
            let mut device = device.clone();
            device.cgroups.retain(|cgroup| cgroup.cgroup == path.as_str());
            drop(reply.send(device));
        }
        Command::Set { cgroup, setting, reply } => drop(reply.send(set(device, &cgroup, setting))),
        Command::Remove { cgroup: path, reply } => {
            device.cgroups.retain(|cgroup| cgroup.cgroup != path.as_str());
            drop(reply.send(Ok(())));
        }
        Command::Move { cgroup, reply, .. } => {
            let refusal = Err(SetError::InUse(cgroup, "vm1".into()));
            drop(reply.send(if device.device == "b" { refusal } else { Ok(()) }));
        }
        Command::Apply { .. } | Command::Adopt(_) | Command::Drain => {}
    }
}

fn set(device: &mut DeviceStatus, path: &Path, setting: Setting) -> Result<(), SetError> {
    if !device.cgroups.iter().any(|cgroup| cgroup.cgroup == path.as_str()) {
        device.cgroups.push(cgroup(path.as_str()));
    }
    let found = device.cgroups.iter_mut().find(|cgroup| cgroup.cgroup == path.as_str());
    let cgroup = found.expect("it was just added");
    match setting {
        Setting::Text { key: LimitKey::Max, text } => {
            let old = cgroup.io_max.as_deref().unwrap_or_default();
            let old = parse_limits(LimitKey::Max, old, PerDimension::NONE)?;
            cgroup.io_max = Some(parse_limits(LimitKey::Max, &text, old)?.to_string());
        }
        Setting::Weight(weight) => cgroup.io_weight = weight.get(),
        Setting::Limiter(kind) => cgroup.limiter = format!("{kind:?}"),
        Setting::Watermark(mark) => cgroup.io_watermark = mark.map(print_watermark),
        Setting::Depth(depth) => device.depth = depth.get(),
        other => panic!("no test sends {other:?}"),
    }
    Ok(())
}

fn request(cgroup: &str, key: &str, value: &str) -> SetRequest {
    SetRequest { cgroup: cgroup.into(), key: key.into(), value: value.into(), device: None }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

/// What holds after a setting: `DEVICE VALUE`, joined; or the refusal's status and message.
fn told(devices: &[&str], request: &SetRequest) -> Result<String, (u16, String)> {
    let devices = devices.iter().map(|name| books(name)).collect();
    match runtime().block_on(async { Control::new(devices).set(request).await }) {
        Ok(reply) => {
            let told = reply.devices.iter().map(|one| format!("{} {}", one.device, one.value));
            Ok(told.collect::<Vec<_>>().join("; "))
        }
        Err(refused) => Err((refused.status, refused.refusal.message)),
    }
}

#[test]
fn a_setting_finds_its_devices() {
    let limit = |value| request("/vm1", "io.max", value);
    let hundred = "rbps=max wbps=max riops=100 wiops=max";
    assert_eq!(told(&["a"], &limit("riops=100")), Ok(format!("a {hundred}")));
    assert_eq!(told(&["a", "b"], &limit("b riops=100")), Ok(format!("b {hundred}")));
    assert_eq!(told(&["a", "b"], &limit("* riops=100")), Ok(format!("a {hundred}; b {hundred}")));
    let on_b = SetRequest { device: Some("b".into()), ..limit("riops=100") };
    assert_eq!(told(&["a", "b"], &on_b), Ok(format!("b {hundred}")));
    assert_eq!(told(&["a", "b"], &request("/vm1", "io.weight", "7")), Ok("a 7; b 7".into()));
    assert_eq!(told(&["a"], &request("/", "io.depth", "9")), Ok("a 9".into()));

    // As cgroup v2 writes it: a block device by its number, the rest by default.
    assert_eq!(told(&["a", "b"], &limit("8:16 riops=100")), Ok(format!("b {hundred}")));
    for (value, holds) in [("8:16 7", "b 7"), ("b 7", "b 7"), ("default 7", "a 7; b 7")] {
        let request = request("/vm1", "io.weight", value);
        assert_eq!(told(&["a", "b"], &request), Ok(holds.into()), "{value}");
    }

    let refused = |status, message: &str| Err((status, message.to_owned()));
    let message = "there is no device \"8:0\"";
    assert_eq!(told(&["a", "b"], &request("/vm1", "io.weight", "8:0 7")), refused(404, message));
    assert_eq!(told(&["a", "b"], &limit("riops=100")), refused(400, "io.max: which device?"));
    assert_eq!(told(&["a"], &limit("c riops=1")), refused(404, "there is no device \"c\""));
    let other = SetRequest { device: Some("a".into()), ..limit("b riops=1") };
    let message = "the value is for device \"b\", the request for \"a\"";
    assert_eq!(told(&["a", "b"], &other), refused(400, message));
    let message = "io.depth belongs to the device, not to /vm1";
    assert_eq!(told(&["a"], &request("/vm1", "io.depth", "9")), refused(400, message));
    let message = "io.max: the root cgroup has no limits and no weight";
    assert_eq!(told(&["a"], &request("/", "io.max", "riops=1")), refused(400, message));
    let message = "cgroup path \"vm1\" does not begin with `/`";
    assert_eq!(told(&["a"], &request("vm1", "io.weight", "9")), refused(400, message));
}

#[test]
fn a_text_means_what_it_says_or_is_refused() {
    for key in ["max", "weight", "bfq.weight", "limiter", "watermark"] {
        for text in texts::of(key) {
            let found = told(&["a"], &request("/vm1", &format!("io.{key}"), text.text));
            let means = text.means.map(|means| match key {
                "limiter" => format!("a {:?}", weir_config::parse_limiter(means).unwrap()),
                _ => format!("a {means}"),
            });
            match (found, means) {
                (found, Some(means)) => assert_eq!(found, Ok(means), "{key} {:?}", text.text),
                (Err((status, _)), None) => assert_eq!(status, 400, "{key} {:?}", text.text),
                (Ok(found), None) => panic!("{key} {:?} is taken for {found}", text.text),
            }
        }
    }
}

#[test]
fn a_refusal_names_the_devices_that_changed_before_it() {
    let request = MoveRequest { cgroup: "/vm1/db".into(), parent: "/".into(), device: None };
    let refused = runtime().block_on(async {
        Control::new(vec![books("a"), books("b")]).relocate(&request).await.unwrap_err()
    });
    assert_eq!(refused.status, 409);
    let message =
        "cgroup /vm1/db, or one below it, is where export `vm1` leads; changed already on: a";
    assert_eq!(refused.refusal.message, message);
}

#[test]
fn a_device_that_hangs_or_has_ended_is_named() {
    for (name, message) in [
        ("hung", "device \"hung\" has not answered within 2 s"),
        ("gone", "device \"gone\" is not served any more"),
    ] {
        let refused = runtime().block_on(async {
            Control::new(vec![books("a"), books(name)]).status().await.unwrap_err()
        });
        assert_eq!((refused.status, &*refused.refusal.message), (503, message));
    }
}

/// Serves one device for as long as `work` takes.
fn served<R>(name: &str, work: impl FnOnce(&Client) -> R + Send + 'static) -> R
where
    R: Send + 'static,
{
    let directory = std::env::temp_dir().join(format!("weir-api-{name}-{}", std::process::id()));
    let path = directory.join("control.sock");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let result = runtime.block_on(async {
        let socket = ControlSocket::bind(&path).unwrap();
        let client = Client::new(&path);
        let work = tokio::task::spawn_blocking(move || work(&client));
        tokio::select! {
            served = serve(socket, vec![books("a")]) => panic!("{served:?}"),
            result = work => result,
        }
    });
    assert!(!path.exists(), "the socket's file goes with the server");
    std::fs::remove_dir_all(&directory).unwrap();
    result.unwrap()
}

#[test]
fn the_client_gets_what_the_server_says() {
    served("client", |client| {
        let status = client.status().unwrap();
        assert_eq!((status.devices.len(), status.devices[0].cgroups.len()), (1, 3));

        let reply = client.set(&request("/new", "io.max", "riops=100 rbps=4M")).unwrap();
        assert!(reply.created);
        assert_eq!(reply.devices[0].value, "rbps=4194304 wbps=max riops=100 wiops=max");
        let reply = client.set(&request("/new", "io.max", "riops=max")).unwrap();
        assert!(!reply.created);
        assert_eq!(reply.devices[0].value, "rbps=4194304 wbps=max riops=max wiops=max");

        let remove = RemoveRequest { cgroup: "/new".into(), device: None };
        assert_eq!(client.remove(&remove).unwrap().devices, ["a"]);
        let error = client.remove(&remove).unwrap_err();
        assert_eq!(error.to_string(), "no cgroup /new");
        let ClientError::Refused { status: 404, refusal } = error else { panic!("{error:?}") };
        assert_eq!(refusal.key.as_deref(), Some("cgroup"));

        let error = client.set(&request("/vm1", "io.max", "a riops=0")).unwrap_err();
        let ClientError::Refused { status: 400, refusal } = error else { panic!("{error:?}") };
        assert_eq!(refusal.key.as_deref(), Some("io.max"));
        assert!(refusal.hint.is_some());
    });
}

/// A setting of a cgroup that is so many names deep.
fn deep(names: usize) -> String {
    let cgroup = "/a".repeat(names);
    format!("{{\"cgroup\":{cgroup:?},\"key\":\"io.weight\",\"value\":\"7\"}}")
}

#[test]
fn what_is_not_of_the_api_is_refused_in_its_words() {
    use std::io::{Read, Write};
    served("raw", |client| {
        let say = |text: &str| {
            let mut stream = std::os::unix::net::UnixStream::connect(client.path()).unwrap();
            stream.write_all(text.as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            let (head, body) = answer.split_once("\r\n\r\n").unwrap();
            (head[9..12].to_owned(), body.to_owned())
        };
        let ask = |line: &str, body: &str| {
            let len = body.len();
            let head = format!(
                "{line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len}\r\n\r\n"
            );
            say(&(head + body))
        };
        for (line, body, status, words) in [
            ("GET /", "", "200", "POST /v1/set"),
            ("GET /", "", "200", "Keys of devices, set on the cgroup /: io.depth, io.scheduler"),
            ("GET /metrics", "", "200", "weir_cgroup_bytes_total{device=\"a\",cgroup=\"/vm1\""),
            ("GET /v2/status", "", "404", "{\"error\":{\"message\":\"no such path\""),
            ("GET /v1/set", "", "405", "{\"error\":{\"message\":\"not with this method\""),
            ("POST /v1/set", "", "400", "the body is not such a request"),
            ("POST /v1/set", "{\"cgroup\":1}", "400", "expected a string"),
            ("POST /v1/set", &" ".repeat(3 << 20), "413", "the body has more than 65536 bytes"),
            ("POST /v1/set", &deep(65), "400", "a cgroup would be 65 names deep, at most 64"),
            ("POST /v1/set", &deep(64), "200", "\"created\":true"),
            ("POST /v1/set", &deep(10_000), "400", "at most 64 are allowed"),
            (
                "POST /v1/set",
                "{\"cgroup\":\"/vm1\",\"key\":\"io.weight\",\"value\":\"1\",\"value\":\"2\"}",
                "400",
                "duplicate field `value`",
            ),
            (
                "POST /v1/set",
                "{\"cgroup\":\"/vm1\",\"key\":\"io.weight\",\"value\":200}",
                "400",
                "expected a string",
            ),
            (
                "POST /v1/set",
                "{\"cgroup\":\"/a\\u202eb\",\"key\":\"io.weight\",\"value\":\"2\"}",
                "400",
                "U+202E",
            ),
            (
                "POST /v1/remove",
                "{\"cgroup\":\"/\",\"recurse\":1}",
                "400",
                "unknown field `recurse`",
            ),
        ] {
            let (got, answer) = ask(line, body);
            assert_eq!(got, status, "{line}: {answer}");
            assert!(answer.contains(words), "{line}: {answer}");
        }
    });
}
