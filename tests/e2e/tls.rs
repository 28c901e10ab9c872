//! NBD inside TLS: certificates of both sides, refusals, and renewal while connections go on.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;

use weir_tests::nbd::{self, Client};
use weir_tests::tls_client::{
    self, Credentials, OPT_STARTTLS, REP_ACK, REP_ERR_INVALID, REP_ERR_TLS_REQD, TlsClient,
};
use weir_tests::{Authority, Certified, Place, Server, eventually, pattern, peer, skip, weir};

const SIZE: usize = 8 << 20;

/// A server's certificate and a client's, of one CA.
struct Parties {
    authority: Authority,
    client: Certified,
}

impl Parties {
    /// The server's files are in `place` then.
    fn new(place: &Place) -> Parties {
        let authority = Authority::new("a CA");
        let client = authority.certify("vm1", &[]);
        authority.certify_server().write(&place.file("server.crt"), &place.file("server.key"));
        fs::write(place.file("ca.crt"), authority.pem()).expect("a file can be written");
        Parties { authority, client }
    }

    fn credentials(&self) -> Credentials<'_> {
        let versions = rustls::ALL_VERSIONS;
        Credentials { authority: &self.authority, own: Some(&self.client), versions }
    }
}

/// A configuration of `image` that says `server` under `[server]` and `tls` under `[tls]`.
fn config(image: &Path, server: &str, tls: &str) -> String {
    format!(
        "listen = \"127.0.0.1:0\"\n{server}\n\
         [tls]\ncertificate = \"server.crt\"\nkey = \"server.key\"\n{tls}\n\
         [device.disk]\npath = {image:?}\n[export.\"\"]\ndevice = \"disk\"\ncgroup = \"/\"\n"
    )
}

const REQUIRED: (&str, &str) = ("tls = \"required\"", "client_ca = \"ca.crt\"");

/// The port of the TCP listener, as the server has printed it.
fn port(server: &Server) -> u16 {
    let uri = server.uris().iter().find(|uri| !uri.starts_with("nbd+unix")).expect("it listens");
    let port = uri.split(':').nth(2).and_then(|rest| rest.split('/').next());
    port.and_then(|port| port.parse().ok()).unwrap_or_else(|| panic!("{uri} has a port"))
}

/// A connection to the TCP listener that has said nothing.
fn dial(server: &Server) -> std::os::unix::net::UnixStream {
    nbd::dial_tcp(&format!("nbd://127.0.0.1:{}/", port(server)))
}

#[test]
fn clients_of_others_read_and_write_the_same_bytes() {
    let place = Place::new();
    let (Some(nbdinfo), Some(nbdcopy)) = (peer("nbdinfo"), peer("nbdcopy")) else { return };
    let (Some(qemu_img), Some(_), Some(env)) = (peer("qemu-img"), peer("fio"), peer("env")) else {
        return;
    };
    let parties = Parties::new(&place);
    let data = pattern(3, SIZE);
    let image = place.filled("disk.img", &data);
    let server = Server::config(&place, &config(&image, REQUIRED.0, REQUIRED.1));
    assert!(server.uris().iter().any(|uri| uri.starts_with("nbds://127.0.0.1:")));
    let directory = parties.authority.client_directory(&place, "client", Some(&parties.client));
    let directory = directory.to_str().expect("a plain name");
    let uri = format!("nbds://localhost:{}/?tls-certificates={directory}", port(&server));
    assert_eq!(nbdinfo.run(&["--size", &uri]).trim(), SIZE.to_string());
    let copy = place.file("copy");
    let copy = copy.to_str().expect("a plain name");
    nbdcopy.run(&["--connections=4", &uri, copy]);
    assert!(fs::read(copy).expect("the copy") == data);
    let other = place.filled("other", &pattern(4, SIZE));
    let other = other.to_str().expect("a plain name");
    nbdcopy.run(&["--connections=4", other, &uri]);
    let credentials = format!("tls-creds-x509,id=tls,endpoint=client,dir={directory}");
    let options = format!("driver=nbd,host=localhost,port={},tls-creds=tls", port(&server));
    let served = ["--image-opts", &options, "--object", &credentials];
    let read = place.file("read");
    let read = read.to_str().expect("a plain name");
    let arguments = [&["convert", "-O", "raw"][..], &served, &[read]].concat();
    qemu_img.run(&arguments);
    assert!(fs::read(read).expect("the copy") == pattern(4, SIZE));
    // fio lets libnbd read no file that a URI names, but those that it looks for at home; of root that is below /etc, so it
    // runs as if it were not.
    let unshare: &[&str] =
        if rustix::process::geteuid().is_root() { &["unshare", "-U"] } else { &[] };
    if !env.ends(&[unshare, &["true"]].concat()).status.success() {
        skip("there are no user namespaces for fio");
        return server.stop();
    }
    let home = place.file("home");
    let client =
        parties.authority.client_directory(&place, "home/.pki/libnbd", Some(&parties.client));
    assert!(client.starts_with(&home));
    let (home, port) = (format!("HOME={}", home.display()), port(&server));
    let uri = format!("--uri=nbds://localhost:{port}/");
    let job = [
        "fio",
        "--name=tls",
        "--ioengine=nbd",
        &uri,
        "--rw=randwrite",
        "--bs=64k",
        "--iodepth=16",
        "--size=8m",
        "--verify=crc32c",
        "--verify_state_save=0",
    ];
    env.run(&[&[home.as_str()][..], unshare, &job].concat());
    server.stop();
}

#[test]
fn a_client_without_a_certificate_of_the_ca_is_refused() {
    let place = Place::new();
    let parties = Parties::new(&place);
    let image = place.hole("disk.img", 1 << 20);
    let server = Server::config(&place, &config(&image, REQUIRED.0, REQUIRED.1));
    let stranger = Authority::new("another CA").certify("vm1", &[]);
    for own in [None, Some(&stranger)] {
        let credentials = Credentials { own, ..parties.credentials() };
        // In TLS 1.3 the client is done before the server has seen its certificate.
        let asked = TlsClient::start(dial(&server), &credentials).and_then(|mut tls| tls.go(""));
        assert!(asked.is_err(), "{asked:?}");
    }
    eventually("the log says so", || server.log().contains("no encrypted connection"));
    let mut tls = TlsClient::start(dial(&server), &parties.credentials()).expect("it is known");
    assert_eq!(tls.go("").expect("an answer").kinds.last(), Some(&REP_ACK));
    // The other way round: a client that does not know the server's CA goes.
    let credentials = Credentials { authority: &Authority::new("x"), ..parties.credentials() };
    assert!(TlsClient::start(dial(&server), &credentials).is_err());
    server.stop();
}

#[test]
fn certificates_of_clients_can_be_optional_or_not_asked_for() {
    let place = Place::new();
    let parties = Parties::new(&place);
    let image = place.hole("disk.img", 1 << 20);
    let optional = "client_ca = \"ca.crt\"\nrequire_client_certificate = false";
    for (tls, is_stranger_known) in [(optional, false), ("", true)] {
        let server = Server::config(&place, &config(&image, "tls = \"required\"", tls));
        let stranger = Authority::new("another CA").certify("vm1", &[]);
        for (own, is_known) in
            [(None, true), (Some(&parties.client), true), (Some(&stranger), is_stranger_known)]
        {
            let credentials = Credentials { own, ..parties.credentials() };
            let asked =
                TlsClient::start(dial(&server), &credentials).and_then(|mut tls| tls.go(""));
            assert_eq!(asked.is_ok(), is_known, "{tls:?}: {asked:?}");
        }
        server.stop();
    }
}

#[test]
fn where_tls_is_required_plain_options_are_told_so() {
    let place = Place::new();
    let parties = Parties::new(&place);
    let image = place.hole("disk.img", 1 << 20);
    let server = Server::config(&place, &config(&image, REQUIRED.0, REQUIRED.1));
    let mut stream = dial(&server);
    tls_client::greet(&mut stream).expect("it greets");
    for option in [3, 6, 7, 8, 10, 11] {
        let answer = tls_client::ask(&mut stream, option, b"").expect("an answer");
        assert_eq!(answer.kinds, [REP_ERR_TLS_REQD]);
        assert!(String::from_utf8_lossy(&answer.data).contains("STARTTLS"), "{answer:?}");
    }
    // EXPORT_NAME has no answer but the end.
    stream.write_all(&nbd::option(1, b"")).expect("it is there");
    assert_eq!(stream.read(&mut [0]).expect("an end"), 0);
    if let Some(nbdinfo) = peer("nbdinfo") {
        nbdinfo.fails(&[&format!("nbd://127.0.0.1:{}", port(&server))]);
    }
    // The mode of a Unix socket keeps others out: its clients need not encrypt, and may.
    Client::of(&server).read(0, 512).expect("it is served");
    let mut tls =
        TlsClient::start(nbd::dial(server.socket()), &parties.credentials()).expect("TLS");
    assert_eq!(tls.go("").expect("an answer").kinds.last(), Some(&REP_ACK));
    server.stop();
}

#[test]
fn where_tls_is_allowed_both_are_served_and_where_it_is_off_it_is_refused() {
    let place = Place::new();
    let parties = Parties::new(&place);
    let image = place.filled("disk.img", &pattern(9, 1 << 20));
    let server = Server::config(&place, &config(&image, "tls = \"allowed\"", REQUIRED.1));
    let mut plain = Client::open(dial(&server), "").expect("it is served");
    let mut tls = TlsClient::start(dial(&server), &parties.credentials()).expect("TLS");
    assert_eq!(tls.go("").expect("an answer").kinds.last(), Some(&REP_ACK));
    tls.write(4096, &[7; 4096]).expect("it can be written");
    assert_eq!(plain.read(4096, 4096).expect("it can be read"), [7; 4096]);
    assert_eq!(tls.read(0, 4096).expect("it can be read"), pattern(9, 4096));
    let twice = TlsClient::start(dial(&server), &parties.credentials());
    let twice = twice.and_then(|mut tls| tls.ask(OPT_STARTTLS, b"")).expect("an answer");
    assert_eq!(twice.kinds, [REP_ERR_INVALID]);
    server.stop();
    let server = Server::config(&place, &config(&image, "", REQUIRED.1));
    let mut stream = dial(&server);
    tls_client::greet(&mut stream).expect("it greets");
    let answer = tls_client::ask(&mut stream, OPT_STARTTLS, b"").expect("an answer");
    assert_eq!(answer.kinds, [tls_client::REP_ERR_POLICY]);
    server.stop();
}

#[test]
fn both_versions_of_tls_are_spoken() {
    let place = Place::new();
    let parties = Parties::new(&place);
    let data = pattern(5, 4 << 20);
    let image = place.filled("disk.img", &data);
    let server = Server::config(&place, &config(&image, REQUIRED.0, REQUIRED.1));
    for version in rustls::ALL_VERSIONS {
        let versions = std::slice::from_ref(version);
        let credentials = Credentials { versions, ..parties.credentials() };
        let mut tls = TlsClient::start(dial(&server), &credentials).expect("TLS");
        assert_eq!(tls.go("").expect("an answer").kinds.last(), Some(&REP_ACK));
        for from in [0, 1, 2 << 20] {
            let len = 1 << 20;
            assert!(
                tls.read(from as u64, len as u32).expect("it can be read") == data[from..][..len]
            );
        }
    }
    server.stop();
}

#[test]
fn bytes_behind_starttls_end_the_connection() {
    let place = Place::new();
    let _parties = Parties::new(&place);
    let image = place.hole("disk.img", 1 << 20);
    let server = Server::config(&place, &config(&image, "tls = \"allowed\"", ""));
    let mut stream = dial(&server);
    let greeting = nbd::CLIENT_FLAGS.to_be_bytes().to_vec();
    let injected = [greeting, nbd::option(OPT_STARTTLS, b""), nbd::go("")].concat();
    stream.write_all(&injected).expect("it is there");
    let mut heard = Vec::new();
    // Unread bytes may make the end a reset.
    let _ = stream.read_to_end(&mut heard);
    assert_eq!(heard.len(), 18, "the greeting and nothing else");
    eventually("the log says so", || server.log().contains("came after STARTTLS"));
    server.stop();
}

#[test]
fn certificates_are_renewed_while_a_connection_goes_on() {
    let place = Place::new();
    let parties = Parties::new(&place);
    let data = pattern(6, 1 << 20);
    let image = place.filled("disk.img", &data);
    let server = Server::config(&place, &config(&image, REQUIRED.0, REQUIRED.1));
    let mut staying = TlsClient::start(dial(&server), &parties.credentials()).expect("TLS");
    staying.go("").expect("it is served");
    // What is not whole is refused, and the old certificate goes on.
    let good = fs::read(place.file("server.crt")).expect("it is there");
    for (text, said) in [
        (&b"nothing"[..], "has no certificate"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "is not valid"),
        (parties.authority.pem().as_bytes(), "is not the key of"),
    ] {
        fs::write(place.file("server.crt"), text).expect("a file can be written");
        for dry in [&[][..], &["--dry-run"]] {
            let refused = server.ask("reload", dry);
            let words = &refused.stderr;
            assert!(!refused.status.success(), "{refused:?}");
            assert!(words.contains(said) && words.contains("server.crt"), "{words}");
        }
        TlsClient::start(dial(&server), &parties.credentials()).expect("the old one");
    }
    fs::write(place.file("server.crt"), good).expect("a file can be written");
    let ran = server.ask("reload", &[]);
    assert!(ran.status.success(), "{ran:?}");
    let renewed = Parties::new(&place);
    let ran = server.ask("reload", &[]);
    assert!(ran.status.success(), "{ran:?}");
    assert!(TlsClient::start(dial(&server), &parties.credentials()).is_err(), "another CA now");
    let mut new = TlsClient::start(dial(&server), &renewed.credentials()).expect("the new one");
    new.go("").expect("it is served");
    for tls in [&mut staying, &mut new] {
        assert!(tls.read(0, 1 << 20).expect("it goes on") == data);
    }
    // Another file is a change of the configuration that needs no restart.
    fs::copy(place.file("server.crt"), place.file("again.crt")).expect("it can be copied");
    let path = place.file("weir.toml");
    let text = fs::read_to_string(&path).expect("it is there").replace("server.crt", "again.crt");
    fs::write(&path, text.replace("[tls]", "[tls]\nthreads = 3")).expect("a file can be written");
    let ran = server.ask("reload", &[]);
    assert!(
        ran.stdout.contains("tls.threads") && !ran.stdout.contains("tls.certificate"),
        "{ran:?}"
    );
    staying.read(0, 512).expect("still");
    server.stop();
}

#[test]
fn a_revoked_certificate_is_refused() {
    let place = Place::new();
    let parties = Parties::new(&place);
    let image = place.hole("disk.img", 1 << 20);
    let other = parties.authority.certify("vm2", &[]);
    fs::write(place.file("revoked.crl"), parties.authority.revoke(&other)).expect("a file");
    let tls = format!("{}\ncrl = \"revoked.crl\"", REQUIRED.1);
    let server = Server::config(&place, &config(&image, REQUIRED.0, &tls));
    for (own, is_known) in [(&other, false), (&parties.client, true)] {
        let credentials = Credentials { own: Some(own), ..parties.credentials() };
        let asked = TlsClient::start(dial(&server), &credentials).and_then(|mut tls| tls.go(""));
        assert_eq!(asked.is_ok(), is_known, "{asked:?}");
    }
    server.stop();
}

#[test]
fn what_is_wrong_with_certificates_is_told_before_a_server_starts() {
    let place = Place::new();
    let Parties { authority, .. } = Parties::new(&place);
    let image = place.hole("disk.img", 1 << 20);
    let other = authority.certify_server();
    other.write(&place.file("other.crt"), &place.file("other.key"));
    for (from, to, said) in [
        ("server.key", "other.key", "is not the key of"),
        ("server.crt", "nothing.crt", "cannot be read"),
        ("ca.crt", "server.key", "has no certificate"),
    ] {
        let text = config(&image, REQUIRED.0, REQUIRED.1).replace(from, to);
        let refused = Server::try_config(&place, &text, 2).expect_err("it does not start");
        assert!(refused.log.contains(said) && refused.log.contains("help: "), "{}", refused.log);
        let path = place.file("weir.toml");
        let mut check = std::process::Command::new(weir());
        let checked = check.args(["config", "check"]).arg(&path).output().expect("it can be run");
        let words = String::from_utf8_lossy(&checked.stderr);
        assert_eq!(checked.status.code(), Some(2), "{words}");
        assert!(words.contains(said), "{words}");
    }
}
