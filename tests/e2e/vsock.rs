//! nbdinfo: a server on vsock, where the kernel has that.

use weir_tests::{Place, Server, peer, skip};

/// A port that no other test, of this run or another, has.
fn port(number: u32) -> u32 {
    100_000 + 10 * std::process::id() + number
}

/// A server that listens there, unless the kernel cannot: then what it says is looked at.
fn serve(place: &Place, flags: &[&str]) -> Option<Server> {
    match Server::try_image(place, "memory:3M", &place.socket("nbd.sock"), flags) {
        Ok(server) => Some(server),
        Err(refused) => {
            assert_eq!(refused.status.code(), Some(1), "{}", refused.log);
            let says = ["this kernel has no vsock", "vsock_loopback"];
            assert!(says.iter().any(|says| refused.log.contains(says)), "{}", refused.log);
            skip("this kernel has no vsock, or not to itself");
            None
        }
    }
}

#[test]
fn nbdinfo_reaches_a_server_over_vsock() {
    let Some(nbdinfo) = peer("nbdinfo") else { return };
    let place = Place::new();
    let address = format!("vsock:1:{}", port(0));
    let Some(server) = serve(&place, &["--listen", &address]) else { return };
    let uri = format!("nbd+vsock://1:{}/", port(0));
    assert_eq!(server.uris()[1], uri);
    assert_eq!(nbdinfo.run(&["--size", &uri]), "3145728\n");
    server.stop();
}

#[test]
fn virtual_machines_reach_a_server_with_permission_only() {
    let place = Place::new();
    let address = format!("vsock:{}", port(1));
    let refused =
        Server::try_image(&place, "memory:3M", &place.socket("nbd.sock"), &["--listen", &address])
            .expect_err("it needs permission");
    assert_eq!(refused.status.code(), Some(2));
    assert!(refused.log.contains("all virtual machines of this host"), "{}", refused.log);
    let Some(server) = serve(&place, &["--listen", &address, "--allow-remote"]) else { return };
    assert_eq!(server.uris()[1], format!("nbd+vsock://2:{}/", port(1)));
    server.stop();
}
