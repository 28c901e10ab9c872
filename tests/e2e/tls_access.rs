//! Access of clients to exports (`[peer]`), by user, address and certificate.

use std::fs;
use std::net::Ipv4Addr;

use weir_tests::nbd::{self, Client};
use weir_tests::tls_client::{
    self, Credentials, REP_ACK, REP_ERR_POLICY, REP_ERR_TLS_REQD, TlsClient,
};
use weir_tests::{Authority, Certified, Place, Server, peer};

const OPT_LIST: u32 = 3;
const OPT_EXPORT_NAME: u32 = 1;

const EXPORTS: &str = r#"
    [device.disk]
    path = "memory:4M"
    [cgroup."/tenant1"]
    [cgroup."/tenant2"]
    [export.vm1]
    device = "disk"
    cgroup = "/"
    [export.vm2]
    device = "disk"
    cgroup = "/tenant2"
"#;

const BY_CERTIFICATE: &str = r#"
    [peer.tenant1]
    certificate = "tenant1"
    exports = ["vm1"]
    cgroup = "/tenant1"
    [peer.tenant2]
    certificate = "*.tenants.example"
    exports = ["vm2"]
    read_only = true
"#;

fn port(server: &Server) -> u16 {
    let uri = server.uris().iter().find(|uri| !uri.starts_with("nbd+unix")).expect("it listens");
    let port = uri.split(':').nth(2).and_then(|rest| rest.split('/').next());
    port.and_then(|port| port.parse().ok()).unwrap_or_else(|| panic!("{uri} has a port"))
}

fn uri(server: &Server) -> String {
    format!("nbd://127.0.0.1:{}/", port(server))
}

/// A server with certificates that speaks TLS as `mode` says.
fn start(place: &Place, mode: &str, peers: &str) -> (Server, Authority) {
    let authority = Authority::new("a CA");
    authority.certify_server().write(&place.file("server.crt"), &place.file("server.key"));
    fs::write(place.file("ca.crt"), authority.pem()).expect("a file can be written");
    let text = format!(
        "listen = \"127.0.0.1:0\"\ntls = {mode:?}\n[tls]\ncertificate = \"server.crt\"\nkey = \"server.key\"\n\
         client_ca = \"ca.crt\"\n{EXPORTS}{peers}"
    );
    (Server::config(place, &text), authority)
}

fn connect(server: &Server, authority: &Authority, own: &Certified) -> TlsClient {
    let credentials = Credentials { authority, own: Some(own), versions: rustls::ALL_VERSIONS };
    TlsClient::start(nbd::dial_tcp(&uri(server)), &credentials).expect("TLS")
}

#[test]
fn a_tenants_certificate_opens_its_own_export_only() {
    let place = Place::new();
    let (server, authority) = start(&place, "required", BY_CERTIFICATE);
    let first = authority.certify("tenant1", &[]);
    let second = authority.certify("x", &["host7.tenants.example"]);
    let third = authority.certify("x", &["tenants.example", "a.b.tenants.example"]);
    for (own, exports) in [(&first, &["vm1"][..]), (&second, &["vm2"]), (&third, &[])] {
        for export in ["vm1", "vm2"] {
            let mut tls = connect(&server, &authority, own);
            let answer = tls.go(export).expect("an answer");
            let expected = if exports.contains(&export) { REP_ACK } else { REP_ERR_POLICY };
            assert_eq!(answer.kinds.last(), Some(&expected), "{export}: {answer:?}");
        }
        let mut tls = connect(&server, &authority, own);
        let answer = tls.ask(OPT_LIST, b"").expect("an answer");
        // One reply for each export, and the last.
        assert_eq!(answer.kinds.len(), exports.len() + 1);
        let ended = tls.ask(OPT_EXPORT_NAME, if exports == ["vm1"] { b"vm2" } else { b"vm1" });
        assert!(ended.is_err(), "{ended:?}");
    }
    let log = server.log();
    assert!(log.contains("is not for it") && log.contains("peer tenant1"), "{log}");
    server.stop();
}

#[test]
fn clients_of_others_are_told_that_an_export_is_not_theirs() {
    let place = Place::new();
    let Some(nbdinfo) = peer("nbdinfo") else { return };
    let (server, authority) = start(&place, "required", BY_CERTIFICATE);
    let own = authority.certify("tenant1", &[]);
    let directory = authority.client_directory(&place, "client", Some(&own));
    let uri = |export: &str| {
        let port = port(&server);
        format!("nbds://localhost:{port}/{export}?tls-certificates={}", directory.display())
    };
    assert_eq!(nbdinfo.run(&["--size", &uri("vm1")]).trim(), (4 << 20).to_string());
    let said = nbdinfo.fails(&["--size", &uri("vm2")]);
    assert!(said.contains("policy"), "{said}");
    let list = nbdinfo.run(&["--list", &uri("")]);
    assert!(list.contains("export=\"vm1\"") && !list.contains("vm2"), "{list}");
    server.stop();
}

#[test]
fn a_peers_connections_are_in_its_cgroup_and_may_be_read_only() {
    let place = Place::new();
    let (server, authority) = start(&place, "required", BY_CERTIFICATE);
    let mut first = connect(&server, &authority, &authority.certify("tenant1", &[]));
    first.go("vm1").expect("an answer");
    first.write(0, &[1; 4096]).expect("it may write");
    let second = authority.certify("x", &["h.tenants.example"]);
    let mut second = connect(&server, &authority, &second);
    second.go("vm2").expect("an answer");
    assert_eq!(second.read(0, 4096).expect("it may read"), [1; 4096]);
    let refused = second.write(0, &[2; 4096]).expect_err("it may not write");
    assert!(refused.to_string().contains("answered with"), "{refused}");
    let status = server.status();
    for cgroup in ["/tenant1", "/tenant2"] {
        assert_eq!(status.cgroup(cgroup).number("connections"), 1, "{cgroup}");
    }
    // The section leads there, so the cgroup stays where it is.
    for words in [&["remove", "/tenant1"][..], &["move", "/tenant1", "/tenant2"]] {
        let ran = server.ask(words[0], &words[1..]);
        assert!(ran.stderr.contains("peer `tenant1`"), "{ran:?}");
    }
    server.stop();
}

#[test]
fn where_tls_is_optional_a_certificate_opens_what_is_closed_without() {
    let place = Place::new();
    let peers =
        format!("{BY_CERTIFICATE}[peer.near]\naddress = \"127.0.0.2\"\nexports = [\"vm2\"]\n");
    let (server, authority) = start(&place, "allowed", &peers);
    let mut plain = nbd::dial_tcp(&uri(&server));
    tls_client::greet(&mut plain).expect("it greets");
    let name = [&3_u32.to_be_bytes()[..], b"vm1", &[0, 0]].concat();
    let answer = tls_client::ask(&mut plain, nbd::OPT_GO, &name).expect("an answer");
    assert_eq!(answer.kinds, [REP_ERR_TLS_REQD], "{answer:?}");
    let near = nbd::dial_tcp_from(&uri(&server), Ipv4Addr::new(127, 0, 0, 2));
    Client::open(near, "vm2").expect("it is let in by its address").read(0, 512).expect("a read");
    let mut tls = connect(&server, &authority, &authority.certify("tenant1", &[]));
    assert_eq!(tls.go("vm1").expect("an answer").kinds.last(), Some(&REP_ACK));
    server.stop();
}

#[test]
fn users_of_a_unix_socket_are_told_apart_and_a_reload_counts_for_new_connections() {
    let place = Place::new();
    let own = rustix::process::getuid().as_raw();
    let me = format!("[peer.me]\nuid = {own}\nexports = [\"vm*\"]\n");
    let server = Server::config(&place, &format!("{EXPORTS}{me}"));
    let open = |export| Client::open(nbd::dial(server.socket()), export);
    let mut staying = open("vm1").expect("it is let in");
    open("vm2").expect("it is let in").read(0, 512).expect("a read");
    let path = place.file("weir.toml");
    let text = fs::read_to_string(&path).expect("it is there");
    let other = text.replace(&format!("uid = {own}"), &format!("uid = {}", own + 1));
    fs::write(&path, other).expect("a file can be written");
    let ran = server.ask("reload", &["--dry-run"]);
    assert!(ran.stdout.contains("~ peer me uid"), "{ran:?}");
    assert!(server.ask("reload", &[]).status.success());
    let refused = open("vm1").expect_err("it is another user's");
    assert!(refused.to_string().contains("0x80000002"), "{refused}");
    staying.read(0, 512).expect("it goes on");
    fs::write(&path, text.replace("vm*", "vm2")).expect("a file can be written");
    assert!(server.ask("reload", &[]).status.success());
    open("vm2").expect("it is let in");
    assert!(open("vm1").is_err());
    server.stop();
}
