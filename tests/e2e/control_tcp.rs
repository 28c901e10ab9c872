//! The control API over TCP: TLS and a token, for curl and for the weir command.

use std::path::{Path, PathBuf};
use std::process::Command;

use weir_tests::{Authority, Peer, Place, Ran, Server, peer, run, weir};

/// A server whose control API is on a TCP port, and what its clients need.
struct Remote {
    server: Server,
    url: String,
    ca: PathBuf,
}

impl Remote {
    /// With `tokens` in its configuration.
    fn start(place: &Place, tokens: &str) -> Remote {
        let authority = Authority::new("Weir test CA");
        let ca = place.filled("ca.crt", authority.pem().as_bytes());
        authority.certify_server().write(&place.file("server.crt"), &place.file("server.key"));
        let config = format!(
            "control_listen = \"127.0.0.1:0\"\n\
             [tls]\ncertificate = \"server.crt\"\nkey = \"server.key\"\n\
             [device.disk0]\npath = \"memory:1M\"\n[cgroup.\"/vm1\"]\n[export.\"\"]\ndevice = \"disk0\"\ncgroup = \"/\"\n\
             {tokens}"
        );
        let server = Server::config_in_part(place, &config, 1);
        let log = server.log();
        let address = log.split("control_listen=").nth(1).expect("the log has it");
        let address = address.split([' ', '\n']).next().expect("it is a word");
        let port = address.rsplit(':').next().expect("it has a port").trim_matches('"');
        Remote { server, url: format!("https://localhost:{port}"), ca }
    }

    /// Status and body of curl's answer.
    fn curl(
        &self,
        curl: &Peer,
        token: Option<&Path>,
        path: &str,
        body: Option<&str>,
    ) -> (String, String) {
        let (url, ca) = (format!("{}{path}", self.url), self.ca.display().to_string());
        let mut arguments = vec!["-sS", "--cacert", &ca, "-w", "\n%{http_code}"];
        let authorization = token.map(|token| {
            let token = std::fs::read_to_string(token).expect("the token is there");
            format!("Authorization: Bearer {}", token.trim())
        });
        if let Some(authorization) = &authorization {
            arguments.extend(["-H", authorization]);
        }
        if let Some(body) = body {
            arguments.extend(["-H", "Content-Type: application/json", "-d", body]);
        }
        arguments.push(&url);
        let said = curl.run(&arguments);
        let (body, status) = said.rsplit_once('\n').expect("curl adds the status");
        (status.to_owned(), body.to_owned())
    }

    /// The weir command as a client.
    fn weir(&self, arguments: &[&str], token: &Path) -> Ran {
        let mut command = Command::new(weir());
        command.args(arguments).args(["--control", &self.url]);
        command.arg("--ca").arg(&self.ca).arg("--token-file").arg(token);
        run(&mut command)
    }
}

/// A new token in a file, and its section.
fn token(place: &Place, name: &str, access: &str) -> (PathBuf, String) {
    let out = place.file(&format!("{name}.token"));
    let mut command = Command::new(weir());
    command.args(["api", "token", name, "--access", access, "--out"]).arg(&out);
    let made = run(&mut command);
    assert!(made.status.success(), "{}", made.stderr);
    (out, made.stdout)
}

const WEIGHT: &str = r#"{"cgroup":"/vm1","key":"io.weight","value":"300"}"#;

#[test]
fn a_token_says_what_its_holder_may_do() {
    let Some(curl) = peer("curl") else { return };
    let place = Place::new();
    let (panel, of_panel) = token(&place, "panel", "change");
    let (scraper, of_scraper) = token(&place, "scraper", "read");
    let remote = Remote::start(&place, &format!("{of_panel}{of_scraper}"));
    let wrong = place.filled("wrong.token", b"weir_0000\n");

    for path in ["/v1/status", "/metrics", "/healthz", "/", "/no-such-path"] {
        assert_eq!(remote.curl(&curl, None, path, None).0, "401", "{path}");
        assert_eq!(remote.curl(&curl, Some(&wrong), path, None).0, "401", "{path}");
    }
    assert_eq!(remote.curl(&curl, None, "/v1/set", Some(WEIGHT)).0, "401");
    let (status, body) = remote.curl(&curl, Some(&scraper), "/metrics", None);
    assert!(status == "200" && body.contains("weir_"), "{status} {body}");
    let (status, body) = remote.curl(&curl, Some(&scraper), "/v1/set", Some(WEIGHT));
    assert!(status == "403" && body.contains("only reads"), "{status} {body}");
    let (status, body) = remote.curl(&curl, Some(&panel), "/v1/set", Some(WEIGHT));
    assert_eq!(status, "200", "{body}");

    let log = remote.server.log();
    let has = |words: &[&str]| log.lines().any(|line| words.iter().all(|word| line.contains(word)));
    assert!(
        has(&["INFO changed", "token=\"panel\"", "address=\"127.0.0.1:", "new=\"300\""]),
        "{log}"
    );
    assert!(has(&["WARN change refused", "token=\"scraper\"", "status=403"]), "{log}");
    assert!(has(&["WARN control request without a token", "address=127.0.0.1:"]), "{log}");
    remote.server.stop();
}

#[test]
fn without_tls_nothing_is_answered() {
    let Some(curl) = peer("curl") else { return };
    let place = Place::new();
    let (_, of_panel) = token(&place, "panel", "change");
    let remote = Remote::start(&place, &of_panel);
    let plain = remote.url.replace("https", "http");
    let ran = curl.ends(&["-sS", &format!("{plain}/v1/status")]);
    assert!(!ran.status.success() && ran.stdout.is_empty(), "{ran:?}");
    // And a client that does not know the authority goes away.
    let ran = curl.ends(&["-sS", &format!("{}/v1/status", remote.url)]);
    assert!(!ran.status.success() && ran.stderr.contains("certificate"), "{ran:?}");
    remote.server.stop();
}

#[test]
fn the_weir_command_reaches_a_server_elsewhere() {
    let place = Place::new();
    let (panel, of_panel) = token(&place, "panel", "change");
    let remote = Remote::start(&place, &of_panel);
    let ran = remote.weir(&["set", "/vm1", "io.max", "riops=100"], &panel);
    assert!(ran.status.success(), "{ran:?}");
    let ran = remote.weir(&["status", "--interval", "10ms"], &panel);
    assert!(ran.status.success() && ran.stdout.contains("/vm1"), "{ran:?}");
    let ran = remote.weir(&["top", "--once", "--interval", "10ms"], &panel);
    assert!(ran.status.success() && ran.stdout.contains("CGROUP"), "{ran:?}");

    let missing = place.file("missing.token");
    let ran = remote.weir(&["status"], &missing);
    assert!(ran.status.code() == Some(2) && ran.stderr.contains("missing.token"), "{ran:?}");
    let wrong = place.filled("wrong.token", b"weir_0000\n");
    let ran = remote.weir(&["status"], &wrong);
    assert!(ran.status.code() == Some(2) && ran.stderr.contains("[token.NAME]"), "{ran:?}");
    remote.server.stop();
}

#[test]
fn a_token_goes_with_a_reload() {
    let place = Place::new();
    let (panel, of_panel) = token(&place, "panel", "change");
    let (other, of_other) = token(&place, "other", "change");
    let remote = Remote::start(&place, &of_panel);
    assert!(remote.weir(&["status", "--interval", "10ms"], &panel).status.success());
    assert_eq!(remote.weir(&["status"], &other).status.code(), Some(2));
    let path = place.file("weir.toml");
    let text = std::fs::read_to_string(&path).expect("it is there");
    std::fs::write(&path, text.replace(&of_panel, &of_other)).expect("it can be written");
    let ran = remote.weir(&["reload"], &panel);
    assert!(ran.status.success() && ran.stdout.contains("token"), "{ran:?}");
    assert_eq!(remote.weir(&["status"], &panel).status.code(), Some(2));
    assert!(remote.weir(&["status", "--interval", "10ms"], &other).status.success());
    remote.server.stop();
}
