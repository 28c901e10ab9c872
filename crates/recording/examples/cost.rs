//! Time of a recording's writer for a request, and bytes on disk: `cargo run --release -p weir-recording --example cost`.

#[path = "../tests/load/mod.rs"]
mod load;

use weir_engine::{Instant, SchedulerKind};
use weir_recording::{Device, Recorder, Settings, Writer};

fn main() {
    let mut args = std::env::args().skip(1);
    let requests: u64 = args.next().map_or(1_000_000, |text| text.parse().expect("a number"));
    let directory = std::path::PathBuf::from(args.next().unwrap_or("/tmp/weir-cost".into()));
    let settings = Settings {
        bytes_max: 1 << 30,
        file_ns: 60_000_000_000,
        clock_offset_ns: 1_790_000_000_000_000_000,
    };
    let mut writer = Writer::new(&directory, settings).expect("a directory");
    let mut load = load::Load::new(1, SchedulerKind::None, 50_000);
    let (recorder, recorded) = Recorder::new();
    let device = Device { name: "disk".into(), bytes: 1 << 34, disk: None, from_start: true };
    writer.add(load.now_ns, device, recorded);
    load.engine.attach(Instant::from_nanos(load.now_ns), recorder);
    load.tenants(40, 500);
    let mut ns = 0;
    for _ in 0..requests / 10_000 {
        load.run(10_000);
        let before = cpu_ns();
        while writer.poll(load.now_ns) {}
        ns += cpu_ns() - before;
    }
    load.engine.detach();
    let before = cpu_ns();
    writer.poll(load.now_ns);
    ns += cpu_ns() - before;
    let status = writer.status();
    println!("{status:?}");
    println!(
        "{} requests: {} ns and {:.2} bytes each",
        status.requests,
        ns / status.requests,
        status.bytes as f64 / status.requests as f64
    );
}

fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").expect("Linux");
    text.split(' ').next().and_then(|text| text.parse().ok()).expect("a number")
}
