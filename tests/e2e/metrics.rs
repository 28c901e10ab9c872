//! Metrics: Debian's Prometheus scrapes the server, and finds what fio has seen.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use weir_tests::{Peer, Place, Server, eventually, peer};

/// A Prometheus that scrapes a server each second.
struct Prometheus {
    child: Child,
    url: String,
    promtool: Peer,
}

impl Prometheus {
    /// `None` where it is not installed.
    fn start(place: &Place, address: &str) -> Option<Prometheus> {
        let (program, promtool) = (peer("prometheus")?, peer("promtool")?);
        let config = format!(
            "global: {{scrape_interval: 1s}}\n\
             scrape_configs: [{{job_name: weir, static_configs: [{{targets: ['{address}']}}]}}]\n"
        );
        let config = place.filled("prometheus.yml", config.as_bytes());
        let log = place.file("prometheus.log");
        let child = Command::new(program.program())
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", place.file("prometheus").display()))
            .arg("--web.listen-address=127.0.0.1:0")
            .stdout(Stdio::null())
            .stderr(File::create(&log).expect("a log"))
            .spawn()
            .expect("it starts");
        let mut prometheus = Prometheus { child, url: String::new(), promtool };
        eventually("Prometheus listens", || {
            let said = std::fs::read_to_string(&log).expect("its log is there");
            let address =
                said.lines().find_map(|line| line.split("\"Listening on\" address=").nth(1));
            let address = address.map(|address| format!("http://{}", address.trim()));
            address.inspect(|url| prometheus.url.clone_from(url)).is_some()
        });
        Some(prometheus)
    }

    /// The only value of an expression; `None` while there is none.
    fn value(&self, expression: &str) -> Option<f64> {
        let said = self.promtool.ends(&["query", "instant", &self.url, expression]).stdout;
        let value = said.split("=> ").nth(1)?.split(' ').next()?;
        value.parse().ok()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server of one export with metrics over TCP, and where these are.
fn server(place: &Place) -> (Server, String) {
    let server = Server::config_in_part(
        place,
        "metrics_listen = \"127.0.0.1:0\"\n\
         [device.disk0]\npath = \"memory:64M\"\n\
         [cgroup.\"/tenants/vm1\"]\n\"io.max\" = \"disk0 riops=2k\"\n\
         [export.vm1]\ndevice = \"disk0\"\ncgroup = \"/tenants/vm1\"\n",
        1,
    );
    let log = server.log();
    let address = log.split("metrics_listen=").nth(1).expect("the log has it");
    let address = address.split([' ', '\n']).next().expect("it is a word");
    let address = address.trim_matches('"').to_owned();
    (server, address)
}

/// Reads 4 KiB blocks with fio, and returns what it says of the reads.
fn load(fio: &Peer, server: &Server) -> Value {
    let uri = format!("--uri={}", server.uri());
    let said = fio.run(&[
        "--output-format=json",
        "--name=load",
        "--ioengine=nbd",
        &uri,
        "--rw=randread",
        "--bs=4k",
        "--iodepth=16",
        "--size=64m",
        "--number_ios=6000",
        "--randseed=3",
    ]);
    let json = said.find('{').map_or("", |at| &said[at..]);
    let report: Value =
        serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {said}"));
    report["jobs"][0]["read"].clone()
}

#[test]
fn prometheus_finds_what_fio_has_seen() {
    let Some(fio) = peer("fio") else { return };
    let place = Place::new();
    let (server, address) = server(&place);
    let Some(prometheus) = Prometheus::start(&place, &address) else { return };
    eventually("Prometheus has scraped", || prometheus.value("up") == Some(1.0));
    let read = load(&fio, &server);
    let ios = read["total_ios"].as_f64().expect("a number");
    let requests = "sum(weir_export_requests_total{op=\"read\"})";
    let is_near =
        |value: Option<f64>| value.is_some_and(|value| (value - ios).abs() <= ios / 100.0);
    eventually("all of fio's requests are counted", || is_near(prometheus.value(requests)));
    // Summed over cgroups it is the same: parents have no part of what is below them.
    assert!(is_near(prometheus.value("sum by (device) (weir_cgroup_ios_total{op=\"read\"})")));
    assert!(is_near(
        prometheus.value("weir_cgroup_subtree_ios_total{cgroup=\"/tenants\",op=\"read\"}")
    ));
    assert_eq!(prometheus.value("weir_cgroup_limit{limit=\"riops\"}"), Some(2000.0));

    let p99 = prometheus
        .value("histogram_quantile(0.99, weir_export_latency_seconds_bucket{op=\"read\"})")
        .expect("there are requests");
    let of_fio = read["clat_ns"]["percentile"]["99.000000"].as_f64().expect("a number") / 1e9;
    let (ours, of_fio) = (bucket(&address, p99), bucket(&address, of_fio));
    assert!(ours.abs_diff(of_fio) <= 1, "{p99} s is in {ours}, fio's in {of_fio}");
    drop(prometheus);
    server.stop();
}

/// The index of the bucket that `seconds` is in.
fn bucket(address: &str, seconds: f64) -> usize {
    let metrics = metrics(address).unwrap_or_default();
    let line = |line: &&str| {
        line.starts_with("weir_export_latency_seconds_bucket") && line.contains("op=\"read\"")
    };
    let ends = metrics
        .lines()
        .filter(line)
        .filter_map(|line| line.split("le=\"").nth(1)?.split('"').next());
    let ends: Vec<f64> = ends.map(|end| end.parse().unwrap_or(f64::INFINITY)).collect();
    assert!(ends.len() >= 16, "{metrics}");
    ends.iter().filter(|&&end| end < seconds).count()
}

/// The metrics as text; `None` without curl.
fn metrics(address: &str) -> Option<String> {
    Some(peer("curl")?.run(&["-sSf", &format!("http://{address}/metrics")]))
}

#[test]
fn the_listener_of_metrics_has_nothing_else() {
    let Some(curl) = peer("curl") else { return };
    let place = Place::new();
    let (server, address) = server(&place);
    for (path, status) in [
        ("/metrics", "200"),
        ("/healthz", "200"),
        ("/", "404"),
        ("/v1/status", "404"),
        ("/v1/set", "404"),
    ] {
        let url = format!("http://{address}{path}");
        let said = curl.run(&["-sS", "-o", "/dev/null", "-w", "%{http_code}", &url]);
        assert_eq!(said, status, "{path}");
    }
    let url = format!("http://{address}/metrics");
    let said = curl.run(&[
        "-sS",
        "-o",
        "/dev/null",
        "-w",
        "%{http_code}",
        "-H",
        "Host: evil.example",
        &url,
    ]);
    assert_eq!(said, "421", "a page of another site does not read them");
    if let Some(promtool) = peer("promtool") {
        let text = curl.run(&["-sSf", &url]);
        assert_eq!(promtool.run_with(&["check", "metrics"], &text), "", "it complains");
    }
    // Beside the control socket there is another one.
    let socket = place.socket("nbd.metrics.sock").display().to_string();
    for (path, status) in [("/metrics", "200"), ("/v1/status", "404")] {
        let url = format!("http://weir{path}");
        let said = curl.run(&[
            "-sS",
            "--unix-socket",
            &socket,
            "-o",
            "/dev/null",
            "-w",
            "%{http_code}",
            &url,
        ]);
        assert_eq!(said, status, "{path}");
    }
    server.stop();
}

fn packaged(name: &str) -> String {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../packaging").join(name).display().to_string()
}

#[test]
fn the_alert_rules_do_as_their_tests_say() {
    let Some(promtool) = peer("promtool") else { return };
    promtool.run(&["check", "rules", &packaged("prometheus/weir.rules.yml")]);
    promtool.run(&["test", "rules", &packaged("prometheus/weir.test.yml")]);
}

#[test]
fn the_rules_and_the_dashboard_use_metrics_that_are_documented() {
    let documented = include_str!("../../docs/metrics.md");
    for name in ["prometheus/weir.rules.yml", "grafana/weir.json"] {
        let text = std::fs::read_to_string(packaged(name)).expect("it is there");
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let used: std::collections::BTreeSet<&str> =
            words.filter(|word| word.starts_with("weir_")).collect();
        assert!(used.len() > 5, "{name}: {used:?}");
        for metric in used {
            let family = metric.strip_suffix("_bucket").unwrap_or(metric);
            assert!(documented.contains(&format!("`{family}`")), "{name}: {metric}");
        }
    }
    let dashboard = std::fs::read_to_string(packaged("grafana/weir.json")).expect("it is there");
    let dashboard: Value = serde_json::from_str(&dashboard).expect("it is JSON");
    assert!(dashboard["panels"].as_array().is_some_and(|panels| !panels.is_empty()));
}
