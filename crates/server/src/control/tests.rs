//! The API over a real socket, against device threads that keep books and do no I/O.

#[path = "../../../text/tests/shared/texts.rs"]
mod texts;

use crate::device::DeviceReport;
use std::sync::{Arc, Mutex};

use weir_engine::{Path, PerDimension};
use weir_text::{LimitKey, parse_limits, print_watermark};

use super::host::Target;
use super::operations::Control;
use super::*;
use crate::command::{Applied, Command, SetError, Setting};
use crate::status::{CgroupStatus, DeviceStatus};

/// A device thread that only remembers what it was told, and answers at once.
struct Books {
    name: String,
    number: Option<(u32, u32)>,
    device: Mutex<DeviceStatus>,
    /// Replies that are neither sent nor dropped: what a device thread does that hangs.
    hung: Option<Mutex<Vec<Command>>>,
}

impl Target for Arc<Books> {
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

fn books(name: &str) -> Arc<Books> {
    let mut device = DeviceStatus { device: name.into(), depth: 32, ..DeviceStatus::default() };
    device.cgroups.extend(["/", "/vm1", "/vm1/db"].map(cgroup));
    let hung = (name == "hung").then(Mutex::default);
    let number = (name == "b").then_some((8, 16));
    Arc::new(Books { name: name.into(), number, device: Mutex::new(device), hung })
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
        Command::Status { reply } => {
            let status = device.clone();
            drop(reply.send(DeviceReport { status, ..DeviceReport::default() }));
        }
        Command::Settings { cgroup: path, reply } => {
            let mut device = device.clone();
            device.cgroups.retain(|cgroup| cgroup.cgroup == path.as_str());
            drop(reply.send(device));
        }
        Command::Remove { cgroup: path, is_trial, reply } => {
            if device.device == "c" {
                return drop(reply.send(Err(SetError::InUse(path, "vm1".into()))));
            }
            device.cgroups.retain(|cgroup| is_trial || cgroup.cgroup != path.as_str());
            drop(reply.send(Ok(())));
        }
        Command::Move { cgroup, parent, reply } => {
            if device.device == "b" {
                return drop(reply.send(Err(SetError::InUse(cgroup, "vm1".into()))));
            }
            let name = cgroup.names().last().expect("it is not the root");
            let moved = device.cgroups.iter_mut().find(|found| found.cgroup == cgroup.as_str());
            let moved = moved.expect("it is there");
            moved.cgroup = format!("{}/{name}", parent.as_str().trim_end_matches('/'));
            drop(reply.send(Ok(())));
        }
        Command::Apply { settings, reply } => {
            let refused = settings.into_iter().find_map(|(path, setting)| {
                set(device, &path, setting).err().map(|error| (path, error))
            });
            drop(reply.send(refused.map_or(Ok(Applied::default()), Err)));
        }
        Command::Ping { .. }
        | Command::Greet(_)
        | Command::Adopt(_)
        | Command::ServeExport(_)
        | Command::CloseExport(_)
        | Command::Grow { .. }
        | Command::Record(_)
        | Command::Drain => {}
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

/// A call of this process.
fn call() -> Call {
    let identity = Identity::Process { uid: 1000, pid: Some(7) };
    Call::new(Caller { identity, access: Access::Change })
}

fn request(cgroup: &str, key: &str, value: &str) -> SetRequest {
    SetRequest {
        cgroup: cgroup.into(),
        key: key.into(),
        value: value.into(),
        device: None,
        create: false,
        runtime: false,
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

/// What holds after a setting: `DEVICE VALUE`, joined; or the refusal's status and message.
fn told(devices: &[&str], request: &SetRequest) -> Result<String, (u16, String)> {
    let devices: Vec<_> = devices.iter().map(|name| books(name)).collect();
    match runtime().block_on(async { Control::new(devices).set(&call(), request).await }) {
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

/// The cgroups of each device.
fn paths(devices: &[Arc<Books>]) -> Vec<Vec<String>> {
    let of = |device: &Arc<Books>| {
        let device = device.device.lock().unwrap();
        device.cgroups.iter().map(|cgroup| cgroup.cgroup.clone()).collect()
    };
    devices.iter().map(of).collect()
}

#[test]
fn a_move_that_one_device_refuses_is_taken_back_on_the_others() {
    let request =
        MoveRequest { cgroup: "/vm1/db".into(), parent: "/".into(), device: None, runtime: false };
    let devices = [books("a"), books("b")];
    let before = paths(&devices);
    let refused = runtime().block_on(async {
        Control::new(devices.to_vec()).relocate(&call(), &request).await.unwrap_err()
    });
    assert_eq!(refused.status, 409);
    let message = "cgroup /vm1/db, or one below it, is where export `vm1` leads";
    assert_eq!(refused.refusal.message, message);
    assert_eq!(paths(&devices), before);
}

#[test]
fn a_cgroup_that_one_device_keeps_is_removed_on_none() {
    let request = RemoveRequest { cgroup: "/vm1/db".into(), device: None, runtime: false };
    let devices = [books("a"), books("c")];
    let before = paths(&devices);
    let remove = |devices: &[Arc<Books>]| {
        runtime().block_on(async { Control::new(devices.to_vec()).remove(&call(), &request).await })
    };
    assert_eq!(remove(&devices).unwrap_err().status, 409);
    assert_eq!(paths(&devices), before);
    assert_eq!(remove(&devices[..1]).unwrap().devices, ["a"]);
    assert!(!paths(&devices)[0].contains(&"/vm1/db".into()));
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
        let bind = |path: &_, access, mode| ControlSocket::bind(path, access, mode, None).unwrap();
        let reading = directory.join("control-read.sock");
        let sockets = vec![bind(&path, Access::Change, 0o600), bind(&reading, Access::Read, 0o660)];
        let control = Arc::new(Control::new(vec![books("a")]));
        let client = Client::new(&path);
        let work = tokio::task::spawn_blocking(move || work(&client));
        tokio::select! {
            served = serve(sockets, Vec::new(), Vec::new(), control, Guard::default()) => panic!("{served:?}"),
            result = work => result,
        }
    });
    let left: Vec<_> = directory.read_dir().unwrap().collect();
    assert!(left.is_empty(), "the sockets' files go with the server: {left:?}");
    std::fs::remove_dir_all(&directory).unwrap();
    result.unwrap()
}

#[test]
fn the_client_gets_what_the_server_says() {
    served("client", |client| {
        let status = client.status().unwrap();
        assert_eq!((status.devices.len(), status.devices[0].cgroups.len()), (1, 3));

        let new = request("/new", "io.max", "riops=100 rbps=4M");
        let error = client.set(&new).unwrap_err();
        let ClientError::Refused { status: 404, refusal } = error else { panic!("{error:?}") };
        assert_eq!(refusal.message, "no cgroup /new");
        let reply = client.set(&SetRequest { create: true, ..new }).unwrap();
        assert!(reply.created);
        assert_eq!(reply.devices[0].value, "rbps=4194304 wbps=max riops=100 wiops=max");
        let reply = client.set(&request("/new", "io.max", "riops=max")).unwrap();
        assert!(!reply.created);
        assert_eq!(reply.devices[0].value, "rbps=4194304 wbps=max riops=max wiops=max");

        let remove = RemoveRequest { cgroup: "/new".into(), device: None, runtime: false };
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

fn socket_of(client: &Client) -> std::path::PathBuf {
    client.place().into()
}

/// A setting of a cgroup that is so many names deep.
fn deep(names: usize) -> String {
    let cgroup = "/a".repeat(names);
    format!("{{\"cgroup\":{cgroup:?},\"key\":\"io.weight\",\"value\":\"7\"}}")
}

/// Sends a request with these header lines; status, head and body of the answer.
fn ask(socket: &std::path::Path, line: &str, headers: &str, body: &str) -> (u16, String, String) {
    use std::io::{Read, Write};
    let mut stream = std::os::unix::net::UnixStream::connect(socket).unwrap();
    let len = body.len();
    let text = format!(
        "{line} HTTP/1.1\r\nConnection: close\r\nContent-Length: {len}\r\n{headers}\r\n{body}"
    );
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), head.to_owned(), body.to_owned())
}

const GOOD: &str = "Host: weir\r\nContent-Type: application/json\r\n";
const WEIGHT: &str = r#"{"cgroup":"/vm1","key":"io.weight","value":"7"}"#;

#[test]
fn what_is_not_of_the_api_is_refused_in_its_words() {
    served("raw", |client| {
        for (line, body, status, words) in [
            ("GET /", "", 200, "POST  /v1/set"),
            ("GET /", "", 200, "Keys of devices, set on the cgroup /: io.depth, io.scheduler"),
            ("GET /metrics", "", 200, "weir_device_up{device=\"a\"} 1"),
            ("GET /healthz", "", 200, "{\"devices\":[\"a\"]}"),
            ("GET /readyz", "", 200, "{\"devices\":[\"a\"]}"),
            ("GET /v1/openapi.json", "", 200, "\"openapi\":\"3.1.0\""),
            ("GET /v1/status?x=1", "", 400, "there are no parameters here"),
            ("GET /v2/status", "", 404, "{\"error\":{\"message\":\"no such path\""),
            ("GET /v1/set", "", 405, "{\"error\":{\"message\":\"not with this method\""),
            ("POST /v1/set", "", 400, "the body is not such a request"),
            ("POST /v1/set", "{\"cgroup\":1}", 400, "expected a string"),
            ("POST /v1/set", &" ".repeat(3 << 20), 413, "the body has more than 65536 bytes"),
            ("POST /v1/set", &deep(65), 400, "a cgroup would be 65 names deep, at most 64"),
            ("POST /v1/set", &deep(64), 404, "no cgroup /a/a"),
            ("POST /v1/set", &deep(64).replace('}', ",\"create\":true}"), 200, "\"created\":true"),
            ("POST /v1/set", &deep(10_000), 400, "at most 64 are allowed"),
            (
                "POST /v1/set",
                "{\"cgroup\":\"/vm1\",\"key\":\"io.weight\",\"value\":\"1\",\"value\":\"2\"}",
                400,
                "duplicate field `value`",
            ),
            (
                "POST /v1/set",
                "{\"cgroup\":\"/vm1\",\"key\":\"io.weight\",\"value\":200}",
                400,
                "expected a string",
            ),
            (
                "POST /v1/set",
                "{\"cgroup\":\"/a\\u202eb\",\"key\":\"io.weight\",\"value\":\"2\"}",
                400,
                "U+202E",
            ),
            ("POST /v1/remove", "{\"cgroup\":\"/\",\"recurse\":1}", 400, "unknown field `recurse`"),
        ] {
            let (got, _, answer) = ask(socket_of(client).as_path(), line, GOOD, body);
            assert_eq!(got, status, "{line}: {answer}");
            assert!(answer.contains(words), "{line}: {answer}");
        }
    });
}

#[test]
fn the_reading_socket_answers_and_changes_nothing() {
    served("reading", |client| {
        let reading = socket_of(client).as_path().with_file_name("control-read.sock");
        let before = client.status().unwrap().generation;
        for path in ["/v1/set", "/v1/remove", "/v1/move"] {
            let (status, _, answer) = ask(&reading, &format!("POST {path}"), GOOD, WEIGHT);
            assert_eq!(status, 403, "{answer}");
            assert!(answer.contains("this socket only reads"), "{answer}");
        }
        assert_eq!(Client::new(&reading).status().unwrap().generation, before);
        for path in ["/", "/healthz", "/readyz", "/metrics", "/v1/status", "/v1/openapi.json"] {
            assert_eq!(ask(&reading, &format!("GET {path}"), GOOD, "").0, 200, "{path}");
        }
    });
}

/// What a browser sends for a page of another site, over whatever bridge.
#[test]
fn pages_of_other_sites_are_refused() {
    served("pages", |client| {
        let json = "Content-Type: application/json\r\n";
        for (headers, status) in [
            (format!("Host: weir\r\nOrigin: https://evil.example\r\n{json}"), 403),
            (format!("Host: weir\r\nOrigin: null\r\n{json}"), 403),
            (format!("Host: evil.example\r\n{json}"), 421),
            (json.to_owned(), 400),
            ("Host: weir\r\nContent-Type: text/plain\r\n".to_owned(), 415),
            ("Host: weir\r\n".to_owned(), 415),
            (format!("Host: 127.0.0.1:9464\r\n{json}"), 200),
        ] {
            let (got, _, answer) =
                ask(socket_of(client).as_path(), "POST /v1/set", &headers, WEIGHT);
            assert_eq!(got, status, "{headers}{answer}");
        }
        assert_eq!(
            ask(socket_of(client).as_path(), "GET /v1/status", "Host: evil.example\r\n", "").0,
            421
        );
    });
}

#[test]
fn a_change_based_on_an_old_generation_is_refused() {
    served("generation", |client| {
        let old = client.status().unwrap().generation;
        let (_, head, _) = ask(socket_of(client).as_path(), "GET /v1/status", GOOD, "");
        assert!(head.contains(&format!("etag: \"{old}\"")), "{head}");

        let first = client.clone().based_on(&old).set(&request("/vm1", "io.weight", "7")).unwrap();
        assert_ne!(first.generation, old);
        let error = client.clone().based_on(&old).set(&request("/vm1", "io.weight", "8"));
        let Err(ClientError::Refused { status: 412, refusal }) = error else { panic!("{error:?}") };
        assert!(refusal.message.contains(&old) && refusal.message.contains(&first.generation));
        let status = client.status().unwrap();
        assert_eq!(status.devices[0].cgroups[1].io_weight, 7);
        assert_eq!(status.generation, first.generation);

        // What is refused, or changes nothing, makes no generation.
        client.set(&request("/vm1", "io.weight", "0")).unwrap_err();
        assert_eq!(client.status().unwrap().generation, first.generation);
        let headers = format!("{GOOD}If-Match: {old}\r\n");
        let (status, _, answer) =
            ask(socket_of(client).as_path(), "POST /v1/set", &headers, WEIGHT);
        assert!(status == 400 && answer.contains("double quotes"), "{answer}");
    });
}

#[test]
fn an_unknown_cgroup_is_refused_with_the_nearest() {
    served("nearest", |client| {
        let error = client.set(&request("/vm3", "io.max", "riops=1")).unwrap_err();
        let ClientError::Refused { status: 404, refusal } = error else { panic!("{error:?}") };
        let hint = refusal.hint.unwrap();
        assert!(hint.starts_with("did you mean \"/vm1\"?") && hint.contains("--create"), "{hint}");
        assert_eq!(client.status().unwrap().devices[0].cgroups.len(), 3);
    });
}

#[test]
fn an_ending_server_is_alive_and_not_ready() {
    runtime().block_on(async {
        let control = Control::new(vec![books("a")]);
        assert!(control.readiness().await.is_ok());
        control.set_ending();
        assert_eq!(control.readiness().await.unwrap_err().status, 503);
        assert!(control.health().await.is_ok());
        let hung = Control::new(vec![books("a"), books("hung")]);
        assert_eq!(hung.health().await.unwrap_err().status, 503);
    });
}

/// Each path and method, each refusal, and the types of all bodies are in the description.
#[test]
fn the_description_has_every_route() {
    let document = openapi();
    for (path, method) in [
        ("/v1/status", "get"),
        ("/v1/set", "post"),
        ("/v1/remove", "post"),
        ("/v1/move", "post"),
        ("/healthz", "get"),
        ("/readyz", "get"),
        ("/metrics", "get"),
        ("/v1/openapi.json", "get"),
        ("/", "get"),
    ] {
        let operation = &document["paths"][path][method];
        assert!(operation["responses"]["200"].is_object(), "{path}: {operation}");
        assert_eq!(operation["responses"]["403"].is_object(), method == "post", "{path}");
    }
    for name in ["Status", "DeviceStatus", "CgroupStatus", "SetRequest", "SetReply", "ErrorReply"] {
        let schema = &document["components"]["schemas"][name];
        assert_eq!(schema["type"], "object", "{name}: {schema}");
    }
    let set = &document["components"]["schemas"]["SetRequest"];
    assert_eq!(set["additionalProperties"], false);
    assert_eq!(set["required"], serde_json::json!(["cgroup", "key", "value"]));
}
