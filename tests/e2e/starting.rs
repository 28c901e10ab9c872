//! Start of a server, and what prevents it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use weir_tests::nbd::{Client, dial};
use weir_tests::{LoopDevice, Place, Refused, Server, weir};

/// Starting must fail with exit status `code` and a message that holds all of `words`.
#[track_caller]
fn refused(result: Result<Server, Refused>, code: i32, words: &[&str]) {
    let Err(refused) = result else { panic!("it starts") };
    assert_eq!(refused.status.code(), Some(code), "{}", refused.log);
    for word in words {
        assert!(refused.log.contains(word), "no {word:?} in {}", refused.log);
    }
}

#[test]
fn a_second_server_on_an_image_is_refused() {
    let place = Place::new();
    let image = place.hole("disk.img", 1 << 20);
    let name = image.to_str().expect("a plain name");
    let second = place.socket("second.sock");
    let first = Server::image(&place, &image, &[]);
    for flags in [&[][..], &["--read-only"]] {
        let result = Server::try_image(&place, &image, &second, flags);
        refused(result, 1, &["error: ", name, "is in use", "another server"]);
        assert!(!second.exists(), "it leaves a socket behind");
    }
    Client::of(&first).read(0, 512).expect("the first one goes on");
    first.stop();
    let server = Server::try_image(&place, &image, &second, &[]);
    server.unwrap_or_else(|refused| panic!("{refused:?}")).stop();
}

#[test]
fn readers_may_share_an_image() {
    let place = Place::new();
    let image = place.hole("disk.img", 1 << 20);
    let first = Server::image(&place, &image, &["--read-only"]);
    let second = place.socket("second.sock");
    let second = Server::try_image(&place, &image, &second, &["--read-only"]).expect("it starts");
    let third = place.socket("third.sock");
    refused(Server::try_image(&place, &image, &third, &[]), 1, &["is in use"]);
    for server in [first, second] {
        Client::of(&server).read(0, 512).expect("it is served");
        server.stop();
    }
}

#[test]
fn a_second_server_on_a_block_device_is_refused() {
    let place = Place::new();
    let image = place.hole("disk.img", 1 << 20);
    let Some(device) = LoopDevice::new(&image, 512) else { return };
    let first = Server::image(&place, device.path(), &[]);
    let second = place.socket("second.sock");
    refused(Server::try_image(&place, device.path(), &second, &[]), 1, &["is in use"]);
    first.stop();
}

#[test]
fn a_socket_left_by_a_killed_server_is_replaced() {
    let place = Place::new();
    let image = place.hole("disk.img", 1 << 20);
    let server = Server::image(&place, &image, &[]);
    let (socket, control) = (server.socket().to_owned(), server.control().to_owned());
    Client::of(&server).write(0, 0, &[7; 512]).expect("it is served");
    server.kill();
    assert!(socket.exists() && control.exists(), "a killed server cannot clean up");
    let server = Server::image(&place, &image, &[]);
    assert_eq!(Client::of(&server).read(0, 512).expect("it is served"), [7; 512]);
    assert_eq!(server.status().number("connections_dropped"), 0);
    server.stop();
    assert!(!socket.exists() && !control.exists());
}

#[test]
fn a_socket_in_use_is_left_alone() {
    let place = Place::new();
    let first = Server::image(&place, "memory:1M", &[]);
    // Its control socket first, then the other one.
    let result = Server::try_image(&place, "memory:2M", first.socket(), &[]);
    refused(result, 1, &["error: ", "nbd.control.sock"]);
    let other = place.socket("other.control.sock");
    let flags = ["--control", other.to_str().expect("a plain name")];
    let result = Server::try_image(&place, "memory:2M", first.socket(), &flags);
    refused(result, 1, &["error: ", "nbd.sock"]);
    assert_eq!(Client::of(&first).size(), 1 << 20, "the first one is still there");
    first.stop();
}

#[test]
fn a_file_in_the_place_of_a_socket_is_left_alone() {
    let place = Place::new();
    let socket = place.socket("precious");
    fs::write(&socket, "a diary").expect("a file can be written");
    refused(Server::try_image(&place, "memory:1M", &socket, &[]), 1, &["precious"]);
    assert_eq!(fs::read_to_string(&socket).expect("it is there"), "a diary");
}

#[test]
fn an_image_that_cannot_be_served_is_explained() {
    let place = Place::new();
    let empty = place.hole("empty.img", 0);
    let odd = place.hole("odd.img", 1000);
    let socket = place.socket("nbd.sock");
    let path = |path: &std::path::Path| path.to_str().expect("a plain name").to_owned();
    for (what, flags, code, words) in [
        (path(&place.file("nope.img")), &[][..], 2, "does not exist"),
        (path(&empty), &[], 1, "is empty"),
        (path(&odd), &["--direct", "on"], 1, "direct"),
        (path(&place.file("")), &[], 2, "directory"),
        ("/dev/null".into(), &[], 2, "only files and block devices"),
        ("memory:1M".into(), &["--max", "riops=0"], 2, "riops"),
        ("memory:1M".into(), &["--max", "riops=10 riobs=7"], 2, "riobs"),
        ("memory:1M".into(), &["--listen", "0.0.0.0:10809"], 2, "--allow-remote"),
        ("memory:1M".into(), &["--weight", "0"], 2, "--weight"),
        ("memory:1M".into(), &["--socket-mode", "rw"], 2, "three octal digits"),
        ("memory:1M".into(), &["--socket-mode", "060"], 2, "not even its owner"),
        ("memory:0".into(), &[], 2, "memory"),
    ] {
        refused(Server::try_image(&place, &what, &socket, flags), code, &["error", words]);
        assert!(!socket.exists(), "{what} {flags:?} leaves a socket behind");
    }
}

#[test]
fn a_read_only_image_comes_with_the_flag_to_serve_it() {
    let place = Place::new();
    let program = place.file("sleep");
    fs::copy("/bin/sleep", &program).expect("it can be copied");
    // A program that runs cannot be opened for writing, not even by root.
    let mut running = Command::new(&program).arg("60").spawn().expect("it runs");
    let result = Server::try_image(&place, &program, &place.socket("nbd.sock"), &[]);
    running.kill().and_then(|()| running.wait()).expect("it ends");
    refused(result, 1, &["cannot open", "--read-only"]);
}

#[test]
fn sockets_have_mode_600() {
    let place = Place::new();
    let server = Server::image(&place, "memory:1M", &[]);
    let mode = |path: &std::path::Path| {
        fs::symlink_metadata(path).expect("it is there").permissions().mode() & 0o777
    };
    assert_eq!(mode(server.control()), 0o600);
    assert_eq!(mode(server.socket()), 0o600);
    Client::open(dial(server.socket()), "").expect("the owner is let in");
    server.stop();
    let server = Server::image(&place, "memory:1M", &["--socket-mode", "660"]);
    assert_eq!((mode(server.control()), mode(server.socket())), (0o600, 0o660));
    server.stop();
}

#[test]
fn too_few_file_descriptors_are_an_error() {
    let place = Place::new();
    let socket = place.socket("nbd.sock");
    for files in 3..13 {
        let script = format!("ulimit -n {files}; exec \"$0\" serve memory:1M --socket \"$1\"");
        let mut command = Command::new("sh");
        command
            .arg("-c")
            .arg(script)
            .arg(weir())
            .arg(&socket)
            .env("XDG_RUNTIME_DIR", place.file(""));
        let output = command.output().expect("there is a shell");
        let log = String::from_utf8_lossy(&output.stderr);
        // With fewer than the loader needs the program cannot start.
        assert!(
            matches!(output.status.code(), Some(1 | 127)),
            "{files} files: {}\n{log}",
            output.status
        );
        assert!(!log.contains("panicked"), "{log}");
    }
}
