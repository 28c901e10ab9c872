//! Listeners in virtual time: what they get, and what bounds them.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use weir_counters::Histogram;
use weir_engine::{CgroupId, Config, Engine};

use super::sample::LiveDevice;
use super::*;
use crate::control::{Access, ControlSocket, Guard, serve};
use crate::device::DeviceReport;
use crate::view::{Activity, DeviceActivity, Sums};

fn in_virtual_time<R>(work: impl Future<Output = R>) -> R {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().start_paused(true).build().unwrap().block_on(work)
}

fn text(bytes: Option<Bytes>) -> Option<String> {
    bytes.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
}

/// A sample that is told by its time.
fn sample(at_ms: u64) -> LiveSample {
    LiveSample { at_ms, span_ms: 5000, started_at_ms: 0, version: "1", devices: Vec::new() }
}

fn live() -> Arc<Live> {
    Arc::new(Live::new(1.0))
}

/// The id and the time of a sample's event.
fn kept(bytes: Option<Bytes>) -> (String, u64) {
    let text = text(bytes).unwrap();
    let id = text.lines().find_map(|line| line.strip_prefix("id: ")).unwrap();
    let data = text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    (id.to_owned(), data["at_ms"].as_u64().unwrap())
}

#[test]
fn a_listener_gets_what_is_kept_and_goes_on_after_what_it_has_had() {
    in_virtual_time(async {
        let live = live();
        (1..4).for_each(|at_ms| live.keep(sample(at_ms)));
        let mut listener = live.listen(None).unwrap();
        assert_eq!(text(listener.next().await).unwrap(), "retry: 250\n\n");
        assert_eq!(kept(listener.next().await), ("3e8-0".into(), 1));
        let (id, at_ms) = kept(listener.next().await);
        assert_eq!(at_ms, 2);

        let mut back = live.listen(Some(&id)).unwrap();
        back.next().await;
        assert_eq!(kept(back.next().await).1, 3);
        // Of another run it has had nothing of this one, nor does it say anything if it is no id.
        for other in ["3e7-1", "x", "", "3e8-fffffffffffffffff"] {
            let mut back = live.listen(Some(other)).unwrap();
            back.next().await;
            assert_eq!(kept(back.next().await).1, 1, "{other}");
        }
    });
}

#[test]
fn a_slow_listener_gets_the_newest_live_sample_and_no_other() {
    in_virtual_time(async {
        let live = live();
        let mut listener = live.listen(None).unwrap();
        listener.next().await;
        for number in 0..1000 {
            live.publish(format!("event: live\ndata: {number}\n\n").into());
        }
        assert_eq!(text(listener.next().await).unwrap(), "event: live\ndata: 999\n\n");
        let begun = Instant::now();
        assert_eq!(text(listener.next().await).unwrap(), ":\n\n", "a heartbeat");
        assert_eq!(begun.elapsed().as_secs(), 5);
    });
}

#[test]
fn a_stream_ends_in_time_and_with_the_server() {
    in_virtual_time(async {
        let live = live();
        let mut listener = live.listen(None).unwrap();
        let begun = Instant::now();
        while listener.next().await.is_some() {}
        assert_eq!(begun.elapsed().as_secs(), 45);

        let mut listener = live.listen(None).unwrap();
        listener.next().await;
        live.end();
        live.publish(Bytes::from_static(b"late"));
        assert_eq!(text(listener.next().await).unwrap(), "event: end\ndata: {}\n\n");
        assert_eq!(listener.next().await, None);
        assert_eq!(live.listen(None).err().map(|refused| refused.status), Some(503));
    });
}

#[test]
fn there_are_only_so_many_listeners() {
    let live = live();
    in_virtual_time(async {
        let mut all: Vec<_> = (0..LISTENERS_MAX).map(|_| live.listen(None).unwrap()).collect();
        let refused = live.listen(None).err().unwrap();
        assert_eq!((refused.status, &*refused.refusal.message), (503, "16 listen already"));
        all.pop();
        assert!(live.listen(None).is_ok(), "a place is free again");
        all.clear();
        assert!(!live.is_listened_to());
    });
}

/// A device whose root reads ten times between two looks, and two others as often as their numbers say.
struct Reader {
    looks: AtomicU64,
    is_up: bool,
    /// A root, and cgroups below it.
    cgroups: Vec<CgroupId>,
}

fn reader(is_up: bool, below: usize) -> Arc<Reader> {
    let mut engine = Engine::new(Config::default(), weir_engine::Instant::ZERO);
    let root = engine.root();
    let below = (0..below).map(|number| engine.create_cgroup(root, &number.to_string()).unwrap());
    let cgroups = [root].into_iter().chain(below.collect::<Vec<_>>()).collect();
    Arc::new(Reader { looks: 0.into(), is_up, cgroups })
}

impl Target for Arc<Reader> {
    fn name(&self) -> &str {
        "disk0"
    }

    fn send(&self, command: Command) -> bool {
        if let (Command::Status { reply }, true) = (command, self.is_up) {
            let at_ns = 1_000_000_000 * self.looks.load(Ordering::Relaxed);
            let status = DeviceStatus { at_ns, busy_ns: at_ns / 4, ..DeviceStatus::default() };
            drop(reply.send(DeviceReport { status, ..DeviceReport::default() }));
        }
        self.is_up
    }

    fn activity(&self) -> DeviceActivity {
        let looks = self.looks.fetch_add(1, Ordering::Relaxed);
        let activity = |(place, cgroup): (usize, &CgroupId)| {
            let mut all = Sums::default();
            let ios = if place == 0 { 10 } else { place as u64 };
            all.counters.read.ios = looks * ios;
            all.counters.completed = looks * ios;
            // The less a cgroup reads the longer it waits.
            all.counters.blame.device_ns = looks * 10_000 / ios;
            let path = if place == 0 { "/".to_owned() } else { format!("/{place}") };
            Activity { cgroup: *cgroup, path, limits: Default::default(), watermark: None, all }
        };
        let cgroups = self.cgroups.iter().enumerate().map(activity).collect();
        let places = self.cgroups.iter().enumerate().map(|(place, cgroup)| (*cgroup, place));
        DeviceActivity { cgroups, places: places.collect() }
    }

    fn whole_times(&self, cgroups: &[CgroupId]) -> Vec<[Histogram; 2]> {
        let mut reads = Histogram::default();
        for _ in 0..self.looks.load(Ordering::Relaxed) {
            [3_000, 3_000, 5_000_000].into_iter().for_each(|ns| reads.record(ns));
        }
        vec![[reads, Histogram::default()]; cgroups.len()]
    }
}

/// A server with one such device.
fn control(is_up: bool, below: usize) -> Arc<Control<Arc<Reader>>> {
    Arc::new(Control::new(vec![reader(is_up, below)]))
}

/// Data of the second live sample.
fn second_sample(control: &Control<Arc<Reader>>) -> serde_json::Value {
    in_virtual_time(async {
        let _listener = control.live.listen(None).unwrap();
        control.sample_live(false).await;
        assert!(matches!(*control.live.latest.borrow(), Latest::Nothing), "one reading is no span");
        for _ in 0..2 {
            tokio::time::sleep(LIVE_EVERY).await;
            control.sample_live(false).await;
        }
        let Latest::Sample(sample) = control.live.latest.borrow().clone() else { panic!() };
        let text = std::str::from_utf8(&sample).unwrap().to_owned();
        let data = text.strip_prefix("event: live\ndata: ").unwrap();
        serde_json::from_str(data).unwrap()
    })
}

#[test]
fn a_sample_has_what_was_done_in_its_span() {
    for is_up in [true, false] {
        let data = second_sample(&control(is_up, 0));
        let device = &data["devices"][0];
        assert_eq!(device["is_up"], is_up);
        if is_up {
            assert_eq!((&data["span_ms"], &device["busy_percent"]), (&1000.into(), &25.0.into()));
        }
        let cgroup = &device["cgroups"][0];
        assert_eq!(cgroup["read_ios"], 10);
        assert_eq!(cgroup["wait_ns"]["device"], 1000);
        assert_eq!(cgroup["read_latency"]["count"], 3);
        assert_eq!(cgroup["latency_bins"], serde_json::json!([[2048, 2], [4_194_304, 1]]));
        assert_eq!(cgroup["write_ios"], serde_json::Value::Null, "zeroes are left out");
    }
}

#[test]
fn the_busiest_cgroups_are_told_and_those_that_wait_longest() {
    let data = second_sample(&control(true, 100));
    let device = &data["devices"][0];
    let cgroups = device["cgroups"].as_array().unwrap();
    let paths: Vec<&str> =
        cgroups.iter().map(|cgroup| cgroup["cgroup"].as_str().unwrap()).collect();
    let busiest = (78..=100).rev().map(|number| format!("/{number}"));
    let waiting = (1..=8).map(|number| format!("/{number}"));
    let expected: Vec<String> =
        ["/".to_owned()].into_iter().chain(busiest).chain(waiting).collect();
    assert_eq!(paths, expected);
    assert_eq!(device["cgroups_omitted"], 69);
}

#[test]
fn samples_are_kept_while_nobody_listens_and_live_ones_are_not_taken() {
    in_virtual_time(async {
        let control = control(true, 0);
        let sampling = Arc::clone(&control);
        let task = tokio::spawn(async move { sampling.keep_sampling().await });
        tokio::time::sleep(Duration::from_millis(21_500)).await;
        assert_eq!(control.live.history.lock().unwrap().end(), 3);
        assert!(matches!(*control.live.latest.borrow(), Latest::Nothing));
        let mut listener = control.live.listen(None).unwrap();
        let (mut kept, mut live) = (0, 0);
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(10) {
            let event = text(listener.next().await).unwrap();
            kept += u32::from(event.contains("event: sample"));
            live += u32::from(event.contains("event: live"));
        }
        assert_eq!((kept, live), (5, 10));
        task.abort();
    });
}

/// Serves `control` on a socket for as long as `work` takes.
fn served(
    control: &Arc<Control<Arc<Reader>>>,
    name: &str,
    work: impl AsyncFnOnce(std::path::PathBuf),
) {
    let directory = std::env::temp_dir().join(format!("weir-live-{name}-{}", std::process::id()));
    let path = directory.join("control.sock");
    let control = Arc::clone(control);
    in_virtual_time(async {
        let socket = ControlSocket::bind(&path, Access::Read, 0o600, None).unwrap();
        tokio::select! {
            served = serve(vec![socket], Vec::new(), Vec::new(), control, Guard::default()) => {
                panic!("{served:?}")
            }
            () = work(path.clone()) => {}
        }
    });
    std::fs::remove_dir_all(&directory).unwrap();
}

async fn asked(path: &std::path::Path, target: &str) -> UnixStream {
    let mut stream = UnixStream::connect(path).await.unwrap();
    let request = format!("GET {target} HTTP/1.1\r\nHost: weir\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

#[test]
fn events_come_over_a_socket_with_their_headers() {
    let control = control(true, 0);
    control.live.keep(sample(7));
    served(&control, "events", async |path| {
        let mut stream = asked(&path, "/v1/live").await;
        let mut text = String::new();
        while !text.contains("\"at_ms\":7") {
            let mut bytes = [0; 4096];
            let len = stream.read(&mut bytes).await.unwrap();
            assert!(len > 0, "{text}");
            text.push_str(std::str::from_utf8(&bytes[..len]).unwrap());
        }
        for line in [
            "content-type: text/event-stream",
            "cache-control: no-store",
            "x-content-type-options: nosniff",
            "connection: close",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
        let mut stream = asked(&path, "/page").await;
        let mut page = vec![0; 2000];
        stream.read_exact(&mut page).await.unwrap();
        let page = String::from_utf8_lossy(&page);
        for words in ["200 OK", "script-src 'sha256-", "frame-ancestors 'none'", "<!doctype html>"]
        {
            assert!(page.contains(words), "{words} is not in {page}");
        }
    });
}

#[test]
fn a_listener_that_takes_nothing_is_cut_off_and_nobody_waits_for_it() {
    let control = control(true, 0);
    served(&control, "stalled", async |path| {
        let stalled = asked(&path, "/v1/live").await;
        while !control.live.is_listened_to() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let begun = Instant::now();
        let name = "x".repeat(60_000);
        while control.live.is_listened_to() {
            let device = LiveDevice { device: name.clone(), ..LiveDevice::default() };
            control.live.publish(event(
                "live",
                None,
                LiveSample { devices: vec![device], ..sample(1) },
            ));
            tokio::time::sleep(LIVE_EVERY).await;
            assert!(begun.elapsed() < Duration::from_secs(30), "it is still there");
        }
        drop(stalled);
    });
}
