//! Disks with known figures, measured in virtual time: every figure within 5 %.

use weir_calibrate::{Calibration, Outcome, Room, Settings, virtual_time};
use weir_disk::{LinearSpec, Spec, presets};
use weir_engine::utilisation::CostFigures;

/// Short steps: models have no noise.
const SETTINGS: Settings = Settings { writes: true, depth_max: 256, step_ns: 20_000_000 };

fn measure(line: &str, settings: Settings) -> Outcome {
    let spec: Spec = line.parse().unwrap_or_else(|error| panic!("{line}: {error}"));
    let room = Room::new(spec.size(), 512).unwrap();
    virtual_time::run(Calibration::new(room, settings), &mut *spec.build())
}

#[track_caller]
fn assert_near(what: &str, seen: f64, wanted: f64, percent: f64) {
    let off = (seen / wanted - 1.0) * 100.0;
    assert!(off.abs() <= percent, "{what}: {seen:.0} for {wanted:.0}, {off:+.1} %");
}

/// Figures in order: bytes, sequential, random. More requests than the bytes allow cannot be seen.
fn of(figures: CostFigures) -> [f64; 3] {
    [figures.bytes_per_sec, figures.sequential_iops, figures.random_iops]
        .map(|figure| figure.get() as f64)
}

fn can_be_seen([bytes, sequential, random]: [u64; 3]) -> [f64; 3] {
    [bytes, sequential.min(bytes / 4096), random.min(bytes / 4096)].map(|figure| figure as f64)
}

fn assert_is(name: &str, outcome: &Outcome, spec: &LinearSpec, percent: f64) {
    let model = outcome.model;
    let reads = [spec.read_bps, spec.read_seq_iops, spec.read_rand_iops];
    let writes = [spec.write_bps, spec.write_seq_iops, spec.write_rand_iops];
    let measured = [(model.reads, reads), (model.writes.unwrap(), writes)];
    for (seen, wanted) in measured {
        for (seen, wanted) in of(seen).into_iter().zip(can_be_seen(wanted)) {
            assert_near(name, seen, wanted, percent);
        }
    }
    assert_eq!(model.size, spec.size / 4096 * 4096, "{name}");
    assert_eq!(outcome.checks.len(), 2, "{name}");
    for check in &outcome.checks {
        let what = format!("{name}, {}", check.step.load);
        assert_near(&what, check.step.per_sec(), check.foretold_per_sec, percent);
    }
}

fn linear(line: &str) -> LinearSpec {
    match line.parse() {
        Ok(Spec::Linear { spec, .. }) => spec,
        other => panic!("{line}: {other:?}"),
    }
}

/// The kernel's profiles and the measured drives.
#[test]
fn every_linear_drive_is_recognised() {
    let mut drives = 0;
    for preset in presets() {
        if !matches!(preset.name.parse(), Ok(Spec::Linear { .. })) {
            continue;
        }
        let outcome = measure(preset.name, SETTINGS);
        assert_is(preset.name, &outcome, &linear(preset.name), 5.0);
        assert!(outcome.model.latency_ns < 1000, "{}: {:?}", preset.name, outcome.model);
        drives += 1;
    }
    assert_eq!(drives, 40);
}

#[test]
fn a_latency_is_told_apart_from_the_price() {
    for (line, latency_ns) in [
        ("linear-ssd-default,latency=80us", 80e3),
        ("samsung-ssd-970-pro-512gb,latency=70us", 70e3),
        ("linear-hdd,latency=1ms", 1e6),
    ] {
        let outcome = measure(line, SETTINGS);
        assert_is(line, &outcome, &linear(line), 5.0);
        assert_near(line, outcome.model.latency_ns as f64, latency_ns, 5.0);
    }
}

/// Where a random request costs about as much as a sequential one, streams are not counted.
#[test]
fn streams_are_counted_by_doubling() {
    for (line, streams) in [
        ("linear-hdd", 1),
        ("linear-hdd,streams=2", 2),
        ("linear-hdd,streams=5", 4),
        ("linear-hdd,streams=64", 64),
        ("linear-ssd-qd1,streams=16", 16),
        ("linear-ssd-fast,streams=16", 1),
    ] {
        let settings = Settings { writes: false, ..SETTINGS };
        assert_eq!(measure(line, settings).model.streams, streams, "{line}");
    }
}

#[test]
fn a_disk_of_a_fixed_rate_has_no_base() {
    let outcome = measure("null,rate=200M,latency=50us,size=4G", SETTINGS);
    let model = outcome.model;
    for figures in [model.reads, model.writes.unwrap()] {
        let rate = f64::from(200 << 20);
        for (seen, wanted) in of(figures).into_iter().zip([rate, rate / 4096.0, rate / 4096.0]) {
            assert_near("null", seen, wanted, 5.0);
        }
    }
    assert_near("latency", model.latency_ns as f64, 50e3, 5.0);
    assert_eq!(model.streams, 1);
}

/// What follows from the settings of flash disks: long reads go at the rate of the interface, and short ones are bound by
/// the controller's time for a command, 10 us and 2.7 us; at random too, for 16 and 32 dies read a page in 60 and 45 us.
#[test]
fn flash_is_as_fast_as_its_interface_and_its_controller() {
    for (line, bytes, iops) in [("ssd-sata", 550e6, 1e9 / 10e3), ("ssd-nvme", 3500e6, 1e9 / 2.7e3)]
    {
        let settings = Settings { writes: false, ..SETTINGS };
        let seen = of(measure(line, settings).model.reads);
        for (seen, wanted) in seen.into_iter().zip([bytes, iops, iops]) {
            assert_near(line, seen, wanted, 5.0);
        }
    }
}

/// Random requests alone at a disk with platters take a seek and half a turn in the mean. Half of the bytes lie outside of
/// 0.415 of the stroke: rates go from 125 to 60 MB/s, so that 125 x - 32.5 x^2 is a half of what it is at 1. There the rate
/// is 98.0 MB/s.
#[test]
fn platters_have_their_rate_half_way_in_and_their_seek() {
    let settings = Settings { writes: false, depth_max: 1, step_ns: 1_000_000_000 };
    let outcome = measure("hdd7200,readahead=0", settings);
    let [rate, _, random] = of(outcome.model.reads);
    assert_near("rate", rate, 98.0e6, 5.0);
    let (seek, half_turn) = (8.5e-3, 60.0 / 7200.0 / 2.0);
    assert_near("random", random, 1.0 / (seek + half_turn), 5.0);
}

/// The same disk, measured twice, is the same to the last figure.
#[test]
fn a_calibration_can_be_repeated() {
    let line = "ssd-sata,size=4G";
    let settings = Settings { depth_max: 16, ..SETTINGS };
    assert_eq!(measure(line, settings), measure(line, settings));
}

/// Without `writes` nothing is written, and writes cost as much as reads.
#[test]
fn reads_alone_write_nothing() {
    let room = Room::new(1 << 40, 512).unwrap();
    let settings = Settings { writes: false, ..SETTINGS };
    let mut calibration = Calibration::new(room, settings);
    let mut disk = "linear-ssd-fast".parse::<Spec>().unwrap().build();
    let mut now = 0;
    while !calibration.is_over() {
        while let Some(ask) = calibration.poll_request(now) {
            assert_eq!(ask.op, weir_engine::Op::Read);
            virtual_time::submit(&mut *disk, now, &ask);
        }
        if calibration.is_over() {
            break;
        }
        now = disk.next_event().unwrap();
        while disk.poll_complete(now).is_some() {
            calibration.handle_completion(now);
        }
    }
    let model = calibration.outcome().unwrap().model;
    assert_eq!(model.writes, None);
    let price = |op| model.costs().price(op, 4096, false);
    assert_eq!(price(weir_engine::Op::Read), price(weir_engine::Op::Write));
}
