//! Sockets that the starter of a server has bound, as sd_listen_fds(3) describes them.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use weir_tests::nbd::Client;
use weir_tests::{Place, Server, eventually, peer, weir};

/// Binds sockets and becomes the server: `NAME=KIND` words, `--`, the command. `PID` in the environment is what it claims to be.
const GIVE: &str = r#"
import os, socket, sys
at = sys.argv.index("--")
names, kept = [], []
for number, word in enumerate(sys.argv[1:at]):
    name, kind, path = word.split("=")
    if kind == "pipe":
        fd = os.pipe()[0]
    else:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM if kind == "datagram" else socket.SOCK_STREAM)
        made.bind(path)
        if kind == "stream":
            made.listen()
        kept.append(made)
        fd = made.fileno()
    names.append(name)
    os.dup2(fd, 100 + number)
for number in range(len(names)):
    os.dup2(100 + number, 3 + number)
    os.close(100 + number)
environment = dict(os.environ, LISTEN_FDS=str(len(names)), LISTEN_FDNAMES=":".join(names))
environment["LISTEN_PID"] = os.environ.get("PID", str(os.getpid()))
os.execve(sys.argv[at + 1], sys.argv[at + 1:], environment)
"#;

fn plain(path: &std::path::Path) -> String {
    path.to_str().expect("test files have plain names").to_owned()
}

/// `weir serve memory:1M`, given `sockets`, to its end, which is a refusal: what it says.
fn refused(place: &Place, sockets: &[String]) -> Option<String> {
    let python = peer("python3")?;
    let control = plain(&place.socket("control.sock"));
    let serve =
        ["--", &plain(weir()), "serve", "memory:1M", "--control", &control].map(str::to_owned);
    let words = [&["-c".to_owned(), GIVE.to_owned()], sockets, &serve[..]].concat();
    let ran = python.ends(&words);
    assert_eq!(ran.status.code(), Some(2), "{ran:?}");
    assert_eq!(ran.stdout, "", "nothing is served");
    Some(ran.stderr)
}

#[test]
fn nbdinfo_starts_a_server_and_ends_it() {
    let Some(nbdinfo) = peer("nbdinfo") else { return };
    let place = Place::new();
    let image = plain(&place.hole("disk.img", 3 << 20));
    let control = place.socket("control.sock");
    let said = nbdinfo.run(&[
        "--size",
        "--",
        "[",
        &plain(weir()),
        "serve",
        &image,
        "--control",
        &plain(&control),
        "]",
    ]);
    assert_eq!(said, "3145728\n", "and no URI");
    eventually("the server ends", || !control.exists());
}

#[test]
fn systemd_starts_a_server_with_the_first_client() {
    let (Some(_), Some(nbdinfo)) = (peer("systemd-socket-activate"), peer("nbdinfo")) else {
        return;
    };
    let place = Place::new();
    let (socket, control) = (place.socket("given.sock"), place.socket("control.sock"));
    let mut server = Command::new("systemd-socket-activate")
        .args(["--listen", &plain(&socket), &plain(weir()), "serve", "memory:5M"])
        .args(["--exit-last", "--control", &plain(&control)])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it is there");
    eventually("systemd listens", || socket.exists());
    let uri = format!("nbd+unix:///?socket={}", plain(&socket));
    assert_eq!(nbdinfo.run(&["--size", &uri]), "5242880\n");
    assert!(weir_tests::wait(&mut server).is_some_and(|status| status.success()));
    assert!(socket.exists(), "it is systemd's");
}

#[test]
fn sockets_are_told_apart_by_their_names() {
    let Some(_) = peer("python3") else { return };
    let place = Place::new();
    let names = ["weir.socket", "nbd", "control", "control-read", "metrics"];
    let sockets = names.map(|name| place.socket(name));
    let given =
        names.iter().zip(&sockets).map(|(name, path)| format!("{name}=stream={}", plain(path)));
    let mut server = Command::new("python3")
        .args(["-c", GIVE])
        .args(given)
        .args(["--", &plain(weir()), "serve", "memory:1M"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it is there");
    eventually("both serve NBD", || {
        let mut streams = sockets[..2].iter().map(UnixStream::connect);
        streams.all(|stream| stream.is_ok_and(|stream| Client::open(stream, "").is_ok()))
    });
    let ask = |socket: &std::path::Path, words: &[&str]| {
        let mut command = Command::new(weir());
        let command = command.args(words).arg("--control").arg(socket);
        command.output().expect("it can be started").status.success()
    };
    assert!(ask(&sockets[2], &["set", "/main", "io.max", "riops=7"]));
    assert!(ask(&sockets[3], &["status", "--format", "json", "--interval", "10ms"]));
    assert!(!ask(&sockets[3], &["set", "/main", "io.max", "riops=8"]), "it only reads");
    let mut metrics = UnixStream::connect(&sockets[4]).expect("it is served");
    let request = b"GET /metrics HTTP/1.1\r\nHost: weir\r\nConnection: close\r\n\r\n";
    metrics.write_all(request).expect("it is taken");
    let mut answer = String::new();
    metrics.read_to_string(&mut answer).expect("it is answered");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("weir_device_up"), "{answer}");
    let pid = rustix::process::Pid::from_child(&server);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it is there");
    assert!(weir_tests::wait(&mut server).is_some_and(|status| status.success()));
    assert!(sockets.iter().all(|socket| socket.exists()), "they are their maker's");
}

#[test]
fn what_cannot_be_served_is_refused() {
    let place = Place::new();
    for (number, (name, kind, expected)) in [
        ("nbd", "datagram", "not a stream socket"),
        ("nbd", "pipe", "not a stream socket"),
        ("nbd", "bound", "does not listen"),
        ("web", "stream", "known are nbd, control, control-read and metrics"),
        ("control2", "stream", "not known what it is to serve"),
    ]
    .into_iter()
    .enumerate()
    {
        let path = plain(&place.socket(&format!("{number}.sock")));
        let Some(said) = refused(&place, &[format!("{name}={kind}={path}")]) else { return };
        assert!(said.contains(expected) && said.contains(&format!("`{name}`")), "{said}");
    }
    let twice: Vec<String> =
        ["a", "b"].map(|end| format!("control=stream={}", plain(&place.socket(end)))).into();
    let said = refused(&place, &twice).expect("python is there");
    assert!(said.contains("there is one already"), "{said}");
}

#[test]
fn sockets_for_another_process_are_left_alone() {
    let place = Place::new();
    let environment = [("LISTEN_FDS", "3".into()), ("LISTEN_PID", "1".into())];
    let server = Server::image_in(&place, "memory:1M", &[], &environment);
    Client::of(&server).read(0, 512).expect("it serves on its own socket");
    server.stop();
}
