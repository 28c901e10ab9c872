//! libnbd: a server for the one client on its standard input.

use std::process::{Command, Stdio};

use weir_tests::{Place, eventually, python, wait, weir};

fn plain(path: &std::path::Path) -> String {
    path.to_str().expect("test files have plain names").to_owned()
}

/// Whether a process runs whose command line has `word`.
fn runs_with(word: &str) -> bool {
    let processes = std::fs::read_dir("/proc").expect("Linux has it");
    processes.flatten().any(|process| {
        let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(word)
    })
}

#[test]
fn libnbd_starts_a_server_on_a_socket_pair_and_ends_it() {
    let Some(single) = python("single.py") else { return };
    let place = Place::new();
    let image = plain(&place.hole("disk.img", 3 << 20));
    single.run(&["3145728", &plain(weir()), "serve", "--single", &image, "--log-level", "warn"]);
    eventually("the servers end", || !runs_with(&image));
}

#[test]
fn a_single_client_has_a_control_socket_where_that_is_named() {
    let Some(single) = python("single.py") else { return };
    let place = Place::new();
    let control = place.socket("control.sock");
    let (weir, named) = (plain(weir()), plain(&control));
    single.run(&["1048576", &weir, "serve", "--single", "memory:1M", "--control", &named]);
    eventually("its last server ends", || !control.exists());
}

/// What it says of a standard input that is `input`.
fn refused(input: Stdio) -> String {
    let mut server = Command::new(weir())
        .args(["serve", "--single", "memory:1M"])
        .stdin(input)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it is there");
    assert_eq!(wait(&mut server).and_then(|status| status.code()), Some(2));
    let ran = server.wait_with_output().expect("it has ended");
    assert!(ran.stdout.is_empty(), "{ran:?}");
    String::from_utf8_lossy(&ran.stderr).into_owned()
}

#[test]
fn a_standard_input_that_is_no_connection_is_refused() {
    let place = Place::new();
    let said = refused(Stdio::null());
    assert!(said.contains("is no socket") && said.contains("connect_command"), "{said}");
    let listens = std::os::unix::net::UnixListener::bind(place.socket("s")).expect("it is bound");
    let said = refused(std::os::fd::OwnedFd::from(listens).into());
    assert!(said.contains("without a client"), "{said}");
    let (socket, _) = std::os::unix::net::UnixDatagram::pair().expect("a pair");
    let said = refused(std::os::fd::OwnedFd::from(socket).into());
    assert!(said.contains("no stream socket"), "{said}");
}
