//! The control API as others use it: its description, its two sockets, and the lines that changes leave in the log.

use std::io::{Read, Write, copy};
use std::net::{Shutdown, TcpListener};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use weir_tests::{Place, Server, peer, pypi};

const SCHEMATHESIS: &str = "schemathesis==4.32.5";

/// A server with two cgroups, and a reading socket beside its control socket.
fn server(place: &Place, more: &str) -> (Server, PathBuf) {
    let reading = place.socket("read.sock");
    let config = format!(
        r#"
        control_read = {reading:?}
        {more}
        [device.disk0]
        path = "memory:1M"
        [cgroup."/vm1"]
        [cgroup."/vms"]
        [export.""]
        device = "disk0"
        cgroup = "/"
        "#
    );
    (Server::config(place, &config), reading)
}

/// A bridge from TCP to `socket`, as socat is: its port.
fn bridge(socket: &Path) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it has an address").port();
    let socket = socket.to_owned();
    std::thread::spawn(move || {
        for near in listener.incoming().map_while(Result::ok) {
            // A server that is gone: the client sees the end.
            let Ok(far) = UnixStream::connect(&socket) else { continue };
            let (Ok(mut from), Ok(mut to)) = (near.try_clone(), far.try_clone()) else { continue };
            std::thread::spawn(move || {
                let _ = copy(&mut from, &mut to);
                let _ = to.shutdown(Shutdown::Write);
            });
            let (mut from, mut to) = (far, near);
            std::thread::spawn(move || {
                let _ = copy(&mut from, &mut to);
                let _ = to.shutdown(Shutdown::Both);
            });
        }
    });
    port
}

/// Status and body of the answer to a request with these header lines.
fn ask(socket: &Path, line: &str, headers: &str, body: &str) -> (String, String) {
    let mut stream = UnixStream::connect(socket).expect("it listens");
    let len = body.len();
    let head = format!("{line} HTTP/1.1\r\nConnection: close\r\nContent-Length: {len}\r\n");
    write!(stream, "{head}{headers}\r\n{body}").expect("it is taken");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it is answered");
    let (_, body) = answer.split_once("\r\n\r\n").expect("it is HTTP");
    (answer[9..12].to_owned(), body.to_owned())
}

/// Runs schemathesis over `socket`, with the server's own description.
fn schemathesis(program: &weir_tests::Peer, place: &Place, socket: &Path, more: &[&str]) {
    let url = format!("http://127.0.0.1:{}", bridge(socket));
    let description = format!("{url}/v1/openapi.json");
    let settings = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemathesis.toml");
    let settings = settings.to_str().expect("the path is text");
    let report = place.file("report");
    let report = report.to_str().expect("the path is text");
    let run = [
        "--config-file",
        settings,
        "run",
        &description,
        "--url",
        &url,
        "--seed",
        "1",
        "--no-color",
        "--exclude-path",
        "/v1/live",
        "--report-dir",
        report,
    ];
    let said = program.run(&[&run, more].concat());
    let operations = said.lines().find_map(|line| line.trim().strip_prefix("Operations:"));
    let mut numbers = operations
        .unwrap_or_default()
        .split_whitespace()
        .filter_map(|word| word.parse::<u32>().ok());
    let (selected, total) = (numbers.next(), numbers.next());
    // All but the stream of events, which ends after a while only.
    let but_one = total.map(|total| total - 1);
    assert!(said.contains("Fuzzing") && selected == but_one && total >= Some(12), "{said}");
}

/// Requests of all kinds, made from the description, get answers that it has: no 5xx, and no status, type or body besides.
#[test]
fn the_api_is_as_its_description_says() {
    let Some(program) = pypi(SCHEMATHESIS, "st") else { return };
    let place = Place::new();
    let (server, _) = server(&place, "");
    schemathesis(&program, &place, server.control(), &["--max-examples", "50"]);
    server.stop();
}

#[test]
fn the_reading_socket_is_as_the_description_says_and_changes_nothing() {
    let Some(program) = pypi(SCHEMATHESIS, "st") else { return };
    let place = Place::new();
    let (server, reading) = server(&place, "");
    // That a change of the right types is accepted is the one thing that cannot be.
    schemathesis(
        &program,
        &place,
        &reading,
        &["--max-examples", "20", "--exclude-checks", "positive_data_acceptance"],
    );
    assert!(!server.log().contains("changed"), "{}", server.log());
    assert!(server.log().contains("this socket only reads"), "{}", server.log());
    server.stop();
}

#[test]
fn sockets_have_their_modes_and_groups() {
    let place = Place::new();
    let gid = std::fs::metadata("/proc/self").expect("it is there").gid();
    let more = format!(
        "control_mode = \"640\"\ncontrol_read_mode = \"666\"\ncontrol_read_group = \"{gid}\""
    );
    let (server, reading) = server(&place, &more);
    let of = |path: &Path| path.metadata().expect("it is there");
    assert_eq!(of(server.control()).permissions().mode() & 0o777, 0o640);
    assert_eq!(of(&reading).permissions().mode() & 0o777, 0o666);
    assert_eq!(of(&reading).gid(), gid);
    server.stop();
    assert!(!reading.exists(), "it goes with the server");

    let refused = "control_group = \"no-such-group\"";
    let config = place.file("refused.toml");
    let text = format!(
        "[server]\nsocket = {:?}\n{refused}\n[device.a]\npath = \"memory:1M\"\n[export.\"\"]\ndevice = \"a\"\ncgroup = \"/\"\n",
        place.socket("refused.sock")
    );
    std::fs::write(&config, text).expect("a file can be written");
    let control = place.socket("refused.control.sock");
    let ran = std::process::Command::new(weir_tests::weir())
        .arg("serve")
        .arg(&config)
        .arg("--control")
        .arg(&control)
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.code() == Some(1) && said.contains("there is no group"), "{said}");
}

#[test]
fn a_change_is_a_line_in_the_log_with_its_caller() {
    let place = Place::new();
    let (server, reading) = server(&place, "");
    server.set("/vm1", "io.weight", "300");
    let json = "Host: weir\r\nContent-Type: application/json\r\n";
    let body = r#"{"cgroup":"/vm1","key":"io.weight","value":"7"}"#;
    let (status, answer) = ask(server.control(), "POST /v1/set", json, body);
    assert_eq!(status, "200", "{answer}");
    let cross_site = format!("{json}Origin: https://evil.example\r\n");
    assert_eq!(ask(server.control(), "POST /v1/set", &cross_site, body).0, "403");
    assert_eq!(ask(&reading, "POST /v1/set", json, body).0, "403");
    let (pid, uid) = (std::process::id(), rustix::process::getuid().as_raw());
    let log = server.log();
    let has = |words: &[&str]| log.lines().any(|line| words.iter().all(|word| line.contains(word)));
    let (caller, user) = (format!("uid={uid} pid={pid} "), format!("uid={uid} pid="));
    let changed = "INFO changed";
    let set = "operation=\"set\" cgroup=\"/vm1\" device=\"disk0\" key=\"io.weight\"";
    assert!(has(&[changed, &user, set, "old=\"100\" new=\"300\""]), "{log}");
    assert!(has(&[changed, &caller, set, "old=\"300\" new=\"7\""]), "{log}");
    assert!(has(&["WARN change refused", &caller, "status=403", "evil.example"]), "{log}");
    assert!(has(&["WARN change refused", &caller, "status=403", "only reads"]), "{log}");
    assert_eq!(log.matches(changed).count(), 2, "{log}");
    server.stop();
}

#[test]
fn metrics_please_promtool() {
    let Some(promtool) = peer("promtool") else { return };
    let place = Place::new();
    let (server, reading) = server(&place, "");
    let (status, text) = ask(&reading, "GET /metrics", "Host: weir\r\n", "");
    assert_eq!(status, "200");
    let said = promtool.run_with(&["check", "metrics"], &text);
    assert_eq!(said, "", "it complains");
    server.stop();
}

/// The schema is one by the rules of JSON Schema, takes the example, and not a misspelt key or a wrong type.
#[test]
fn the_schema_of_configurations_is_one() {
    let Some(python) = pypi(SCHEMATHESIS, "python") else { return };
    let place = Place::new();
    let schema = std::process::Command::new(weir_tests::weir())
        .args(["config", "schema"])
        .output()
        .expect("it runs");
    let path = place.filled("weir.schema.json", &schema.stdout);
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/config/examples/weir.toml");
    let script = "
import json, sys, tomllib, jsonschema_rs
schema = json.load(open(sys.argv[1]))
jsonschema_rs.meta.validate(schema)
is_valid = jsonschema_rs.validator_for(schema).is_valid
example = tomllib.load(open(sys.argv[2], 'rb'))
assert is_valid(example)
for broken in ['[device.a]\\npaht = \"x\"', '[server]\\nlisten = 1', '[device.a]\\ndepth = 0', '[export]\\nx = 1']:
    assert not is_valid(tomllib.loads(broken)), broken
";
    python.run(&[
        "-c",
        script,
        path.to_str().expect("the path is text"),
        example.to_str().expect("the path is text"),
    ]);
}
