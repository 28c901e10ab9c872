//! Totals of jobs, in the installed fio on files of its own and in the lab.

#[path = "../../fio/tests/fio_itself/support.rs"]
mod support;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;

use serde_json::Value;
use weir_lab::builder::{ScenarioBuilder, Source};
use weir_lab::{report, sim};

use support::{Written, fio};

/// Requests and bytes by direction, of each row that a report in fio's JSON has.
type Totals = Vec<BTreeMap<&'static str, (u64, u64)>>;

/// A directory for the files of one fio, gone when dropped.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the target directory can be written");
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn totals(report: &Value) -> Totals {
    let jobs = report["jobs"].as_array().expect("fio's JSON has jobs");
    let directions = |job: &Value| {
        let moved = ["read", "write", "trim", "mixed"].into_iter().filter_map(|name| {
            let of = |key: &str| job[name][key].as_u64();
            Some((name, (of("total_ios")?, of("io_bytes")?)))
        });
        moved.filter(|(_, (ios, _))| *ios > 0).collect()
    };
    jobs.iter().map(directions).collect()
}

fn ours(text: &str) -> Totals {
    let text = text.as_bytes().to_vec();
    let source = Source::Jobs { name: "test.fio".into(), text, env: BTreeMap::new() };
    let mut builder = ScenarioBuilder::new("test", source);
    builder.set("disk", "null").expect("a disk");
    let scenario = builder.build().unwrap_or_else(|error| panic!("{error}"));
    let results = sim::run(&scenario, &mut |_| ControlFlow::Continue(()));
    totals(&report::fio_json(&results.unwrap_or_else(|error| panic!("{error}"))))
}

/// Where chance has no part in the amounts. The next direction by a clock depends on how late fio is, in a part of
/// the 64 requests.
#[test]
fn totals_are_the_same_as_in_fio() {
    for (index, (options, off)) in [
        ("rw=read\nsize=1m\n", 0),
        ("rw=write:8k\nsize=1m\n", 0),
        ("rw=randread\nsize=1m\nnrfiles=3\n", 0),
        ("rw=write\nsize=1m\nio_size=300k\n", 0),
        ("rw=read\nsize=64k\nio_size=300k\n", 0),
        ("rw=read\nsize=1m\noffset=50%\n", 0),
        ("rw=read\nfilesize=64k\nsize=50%\nnrfiles=2\n", 0),
        ("rw=read\nfilesize=100k\nsize=1m\nnrfiles=4\n", 0),
        ("rw=randread\nsize=512k\nloops=3\n", 0),
        ("rw=randread:4\nsize=512k\nloops=3\n", 0),
        ("rw=randwrite\nsize=512k\nnorandommap\nnumber_ios=50\nloops=4\n", 0),
        ("rw=rw\nsize=256k\nloops=3\nunified_rw_reporting=mixed\n", 0),
        ("rw=write\nsize=32k\nio_size=12k\nloops=4\nend_fsync=1\n", 0),
        ("rw=read\nsize=64k\nzonemode=strided\nzonesize=8k\nzonerange=16k\n", 0),
        ("rw=read\nsize=50k\nzonemode=strided\nzonesize=8k\nzonerange=16k\n", 0),
        ("rw=write\nsize=1m\nzonemode=strided\nzonesize=64k\nzoneskip=192k\n", 0),
        ("rw=write\nsize=256k\nverify=crc32c\nnumber_ios=20\n", 0),
        ("rw=write\nsize=256k\nverify=crc32c\nverify_backlog=8\n", 0),
        ("rw=write\nsize=100k\nnumjobs=3\ngroup_reporting\n", 0),
        ("rw=write\nsize=100k\nramp_time=60\nfsync=4\n", 0),
        ("rw=read\nsize=1m\nramp_time=1\nrate_iops=20\nnumber_ios=30\n", 0),
        ("rw=randrw\nsize=256k\nrate_iops=400\nrwmixread=80\n", 8),
        ("rw=randrw\nsize=256k\nrate=1m,512k\nioengine=libaio\niodepth=4\n", 8),
        ("rw=rw\nsize=256k\nrate=,100k\n", 8),
        ("rw=randrw\nsize=256k\nrate_iops=400\nverify=crc32c\n", 8),
    ]
    .into_iter()
    .enumerate()
    {
        let directory = Directory::new(&format!("totals{index}"));
        let text = format!(
            "[global]\ndirectory={}\nverify_state_save=0\n[j]\n{options}",
            directory.0.display()
        );
        let file = Written::new(&format!("totals{index}"), &text);
        let Some((_, output)) = fio(&["--output-format=json", file.path()]) else { return };
        // Warnings stand above it.
        let json = output.find('{').map_or("", |begin| &output[begin..]);
        let theirs = totals(&serde_json::from_str(json).expect(&output));
        let ours = ours(&text);
        assert_eq!(ours.len(), theirs.len(), "{text}");
        for (ours, theirs) in ours.iter().zip(&theirs) {
            let is_near = |(our, their): (&(u64, u64), &(u64, u64))| {
                our.0.abs_diff(their.0) <= off && our.1.abs_diff(their.1) <= 4096 * off
            };
            let is_same =
                ours.keys().eq(theirs.keys()) && ours.values().zip(theirs.values()).all(is_near);
            assert!(is_same, "{text}\n{ours:?}, fio {theirs:?}");
        }
    }
}
