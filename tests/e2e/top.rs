//! `weir top` in a terminal: the noisy tenant of twenty is found and held with keys alone.

use std::fmt::Write;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use weir_tests::{Place, Screen, Server, eventually, peer};

const TENANTS: usize = 20;
const NOISY: &str = "/vms/t13";

/// fio that reads until it is dropped.
struct Load(Child);

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Twenty tenants on one device.
fn twenty_tenants(place: &Place) -> Server {
    let control_read = place.socket("control-read.sock");
    let mut config =
        format!("control_read = {control_read:?}\n[device.store]\npath = \"memory:16M\"\n");
    for tenant in 1..=TENANTS {
        let limit = if NOISY.ends_with(&format!("{tenant:02}")) { 4000 } else { 200 };
        let _ = writeln!(
            config,
            "[cgroup.\"/vms/t{tenant:02}\"]\n\"io.max\" = \"store riops={limit}\"\n\
             [export.t{tenant:02}]\ndevice = \"store\"\ncgroup = \"/vms/t{tenant:02}\""
        );
    }
    Server::config(place, &config)
}

/// All of them read now and then, one as fast as it may.
fn load(place: &Place, server: &Server) -> Option<Load> {
    let fio = peer("fio")?;
    let mut job = String::from(
        "[global]\nioengine=nbd\nrw=randread\nbs=4k\nsize=16m\ntime_based=1\nruntime=3600\nthread=1\n",
    );
    for uri in server.uris() {
        let name = uri.split(['/', '?']).find(|part| part.starts_with('t')).expect("its export");
        let pace = if NOISY.ends_with(name) { "iodepth=16" } else { "rate_iops=20" };
        let _ = writeln!(job, "[{name}]\nuri={uri}\n{pace}");
    }
    let job = place.filled("load.fio", job.as_bytes());
    let mut command = Command::new(fio.program());
    command.arg(job).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Some(Load(command.spawn().expect("fio can be started")))
}

/// The picture's rows of cgroups.
fn rows(picture: &str) -> Vec<&str> {
    let after_head = picture.lines().skip_while(|line| !line.starts_with("CGROUP")).skip(1);
    after_head.take_while(|line| !line.starts_with("──")).collect()
}

/// Whether the first tenant in the picture is the noisy one.
fn noisy_is_first(picture: &str) -> bool {
    rows(picture).get(2).is_some_and(|row| row.trim_start().starts_with("t13 "))
}

/// Whether anything in a picture with its escape sequences has a colour.
fn has_colour(picture: &str) -> bool {
    picture.contains("[38;") || (30..38).any(|colour| picture.contains(&format!("[{colour}m")))
}

#[test]
fn the_noisy_one_of_twenty_tenants_is_found_and_held_with_keys() {
    let place = Place::new();
    let server = twenty_tenants(&place);
    let control = server.control().display().to_string();
    let arguments = ["top", "--interval", "250ms", "--control", &control];
    let Some(screen) = Screen::new(&place, (80, 24), &[], &arguments) else { return };
    let Some(load) = load(&place, &server) else { return };

    let picture = screen.eventually("the noisy tenant first", noisy_is_first);
    assert!(picture.lines().nth(2).is_some_and(|line| line.contains("▸ store")), "{picture}");
    assert_eq!(picture.lines().find(|line| line.chars().count() > 80), None);

    screen.press(&["Down", "Down"]);
    screen.shows(&format!("── {NOISY}:"));
    screen.press(&["e"]);
    screen.shows(&format!("\n{NOISY} io.max riops=4000"));
    screen.press(&["C-w"]);
    screen.write("riops=500");
    screen.shows("riops: 4.00k/s → 500/s");
    let before = server.status().cgroup(NOISY).io_max().map(str::to_owned);
    assert!(before.is_some_and(|limits| limits.contains("riops=4000")), "only said so far");
    screen.press(&["Enter"]);
    screen.shows(&format!("set: {NOISY} io.max is riops=500 on store"));
    let after = server.status().cgroup(NOISY).io_max().map(str::to_owned);
    assert!(after.is_some_and(|limits| limits.contains("riops=500")));
    screen.shows("of 500/s");

    screen.press(&["x"]);
    let exports = screen.shows("EXPORT ");
    assert!(exports.contains("20 exports"), "{exports}");
    screen.eventually("the noisy export first", |picture| {
        let mut rows = picture.lines().skip_while(|line| !line.starts_with("EXPORT"));
        rows.nth(1).is_some_and(|row| row.starts_with("t13 "))
    });
    assert_eq!(screen.text().lines().find(|line| line.chars().count() > 80), None);
    screen.press(&["x"]);
    screen.shows("CGROUP ");

    screen.press(&["q"]);
    screen.shows("ended 0");
    assert!(!screen.is_taken());
    drop(load);
    server.stop();
}

/// fio's report on one export beside what `weir top` says while fio reads.
#[test]
fn rates_are_those_of_fio() {
    let Some(fio) = peer("fio") else { return };
    let place = Place::new();
    let server = twenty_tenants(&place);
    // Under a limit that any machine keeps.
    let uri = server.uris().iter().find(|uri| uri.contains("t01")).expect("its export");
    let job = Command::new(fio.program())
        .args(["--output-format=json", "--ioengine=nbd", "--rw=randread", "--bs=4k", "--size=16m"])
        .args(["--iodepth=8", "--time_based", "--runtime=8", "--name=t01", "--uri", uri])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("fio can be started");
    // Its burst is over.
    eventually("fio reads", || server.status().cgroup("/vms/t01").number("read_ios") > 400);
    let ran = server.ask("top", &["--once", "--json", "--interval", "2s"]);
    let top: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let output = job.wait_with_output().expect("fio ends");
    let output = String::from_utf8_lossy(&output.stdout);
    let json = &output[output.find('{').expect("fio prints JSON")..];
    let report: serde_json::Value = serde_json::from_str(json).expect("fio prints JSON");
    let iops = report["jobs"][0]["read"]["iops"].as_f64().expect("a rate");
    let cgroups = top["devices"][0]["cgroups"].as_array().expect("cgroups");
    let of_cgroup =
        cgroups.iter().find(|cgroup| cgroup["cgroup"] == "/vms/t01").expect("it is there");
    let exports = top["exports"].as_array().expect("exports");
    let of_export = exports.iter().find(|export| export["export"] == "t01").expect("it is there");
    for rate in [
        &of_cgroup["rates"]["completed_ios_per_sec"],
        &of_cgroup["rates"]["read_ios_per_sec"],
        &of_export["rates"]["answered_ios_per_sec"],
    ] {
        let rate = rate.as_f64().expect("a rate");
        assert!((rate / iops - 1.0).abs() < 0.1, "{rate}, and fio says {iops}");
    }
    let inside = of_export["rates"]["inside_mean"].as_f64().expect("a number");
    assert!((6.0..8.5).contains(&inside), "{inside} of 8 inside");
    server.stop();
}

#[test]
fn a_socket_that_only_reads_says_so_and_changes_nothing() {
    let place = Place::new();
    let server = twenty_tenants(&place);
    let reading = place.socket("control-read.sock").display().to_string();
    let arguments = ["top", "--interval", "100ms", "--control", &reading];
    let Some(screen) = Screen::new(&place, (80, 24), &[("NO_COLOR", "1")], &arguments) else {
        return;
    };
    screen.shows(" t01 ");
    assert!(!has_colour(&screen.coloured()), "{:?}", screen.coloured());
    screen.press(&["/"]);
    screen.write("t01");
    screen.press(&["Enter", "G", "w"]);
    screen.shows("\n/vms/t01 io.weight 100");
    screen.write("0");
    screen.press(&["Enter"]);
    screen.shows("this socket only reads");
    screen.press(&["Escape"]);
    screen.shows("q quit");
    screen.press(&["C-c"]);
    screen.shows("ended 0");
    assert_eq!(server.status().cgroup("/vms/t01").number("io_weight"), 100);
    server.stop();
}

#[test]
fn another_size_is_another_picture_and_sigterm_leaves_the_terminal_as_it_was() {
    let place = Place::new();
    let server = twenty_tenants(&place);
    let control = server.control().display().to_string();
    let arguments = ["top", "--interval", "100ms", "--mouse", "--control", &control];
    let Some(screen) = Screen::new(&place, (80, 24), &[], &arguments) else { return };
    let small = screen.shows(" t01 ");
    assert!(!small.contains("SHARE") && screen.is_taken());
    assert!(has_colour(&screen.coloured()), "{:?}", screen.coloured());
    screen.resize(120, 40);
    let large = screen.shows("SHARE");
    screen.eventually("all tenants", |picture| picture.contains(" t20 "));
    assert!(large.contains("LAST READINGS"), "{large}");
    let pid = Pid::from_raw(screen.pid().cast_signed()).expect("not zero");
    kill_process(pid, Signal::TERM).expect("it is there");
    screen.shows("ended 143");
    eventually("the terminal is as it was", || !screen.is_taken());
    server.stop();
}

#[test]
fn pictures_and_json_are_printed_without_a_terminal() {
    let place = Place::new();
    let server = twenty_tenants(&place);
    let once = server.ask("top", &["--once", "--interval", "10ms"]);
    assert!(once.status.success() && once.stdout.contains("  store "), "{once:?}");
    assert!(!once.stdout.contains('\u{1b}'), "{once:?}");
    let json = server.ask("top", &["--once", "--json", "--top", "3", "--interval", "10ms"]);
    let json: serde_json::Value = serde_json::from_str(&json.stdout).expect("JSON");
    let cgroups = json["devices"][0]["cgroups"].as_array().expect("cgroups");
    assert_eq!(cgroups.len(), 3);
    assert!(cgroups[0]["rates"]["share_percent"].is_number(), "{json}");
    server.stop();
}
