//! Governor on a tree of files.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use weir_govern::host::{Rule, Selector, SelectorKind};
use weir_govern::kernel::{DeviceNumber, Interface};
use weir_govern::{IoMax, Settings};

use super::governed::{GovernedDisk, Tick};
use super::plan::PlannedDisk;
use super::state_dir::StateDir;
use super::tree::Tree;
use super::walk::Walk;

/// A directory of a test, removed when dropped.
pub(super) struct Place(PathBuf);

impl Place {
    pub(super) fn new(name: &str) -> Place {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("weir-govern-{name}-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("a directory can be made");
        Place(path)
    }

    pub(super) fn path(&self, below: &str) -> PathBuf {
        self.0.join(below)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const MIB: u64 = 1 << 20;
/// What the disk of the tests reads a second.
const DISK: u64 = 20 * MIB;
const TICK_MS: u64 = 50;

/// A tree of cgroups and a disk, as files. A write to a file replaces its text, which the next look reads.
struct World {
    place: Place,
    interface: Interface,
    /// Cgroups that read as much as they may, and what they have read.
    readers: BTreeMap<String, u64>,
    now_ms: u64,
    busy_us: u64,
    read: u64,
}

impl World {
    fn new(interface: Interface) -> World {
        let place = Place::new("world");
        let disk = place.path("sys/devices/sdb");
        fs::create_dir_all(&disk).unwrap();
        fs::create_dir_all(place.path("sys/dev/block")).unwrap();
        std::os::unix::fs::symlink("../../devices/sdb", place.path("sys/dev/block/8:16")).unwrap();
        fs::create_dir(place.path("cgroup")).unwrap();
        if interface == Interface::V2 {
            fs::write(place.path("cgroup/cgroup.controllers"), "cpu io memory\n").unwrap();
        }
        let readers = BTreeMap::new();
        let world = World { place, interface, readers, now_ms: 1_000, busy_us: 0, read: 0 };
        for file in interface.limit_files() {
            fs::write(world.place.path("cgroup").join(file), "").unwrap();
        }
        world.count();
        world
    }

    fn file(&self, path: &str, name: &str) -> PathBuf {
        self.place.path(&format!("cgroup{path}")).join(name)
    }

    /// A cgroup with a limit on reads, in MiB/s.
    fn cgroup(&mut self, path: &str, limit: Option<u64>) {
        fs::create_dir_all(self.place.path(&format!("cgroup{path}"))).unwrap();
        for file in self.interface.limit_files().iter().chain(self.interface.stat_files()) {
            fs::write(self.file(path, file), "").unwrap();
        }
        if let Some(limit) = limit {
            self.set(path, limit);
        }
        self.readers.insert(path.to_owned(), 0);
    }

    /// Another program sets a limit on reads, in MiB/s.
    fn set(&self, path: &str, limit: u64) {
        let line = match self.interface {
            Interface::V2 => format!("8:16 rbps={} wbps=max riops=max wiops=max\n", limit * MIB),
            Interface::V1 => format!("8:16 {}\n", limit * MIB),
        };
        fs::write(self.file(path, self.interface.limit_files()[0]), line).unwrap();
    }

    fn tree(&self) -> Tree {
        Tree::find(Some(&self.place.path("cgroup"))).expect("a tree")
    }

    /// The limit on reads in MiB/s, rounded down.
    fn limit(&self, path: &str) -> Option<u64> {
        let limits = self.tree().limits(path, SDB).expect("it is there");
        limits.rbps.map(|rbps| rbps / MIB)
    }

    fn states(&self) -> StateDir {
        StateDir::find(Some(&self.place.path("state")))
    }

    fn start(&self, rules: Vec<Rule>, states: Option<StateDir>) -> GovernedDisk {
        let settings = Settings { watermark_permille: 900, mode: weir_govern::Mode::Proportional };
        let disk = super::device::find("8:16", &self.place.path("sys")).expect("it is there");
        let sections = rules.iter().map(|_| "rule".to_owned()).collect();
        let plan = PlannedDisk { disk, settings, model: None, rules, sections };
        let sysfs = self.place.path("sys");
        GovernedDisk::start(plan, &self.tree(), &sysfs, states, self.now_ms * 1_000_000)
            .expect("it starts")
    }

    /// Readers read what their limits allow, and the governor looks.
    fn tick(&mut self, governed: &mut GovernedDisk) -> Tick {
        self.now_ms += TICK_MS;
        let paths: Vec<String> = self.readers.keys().cloned().collect();
        for path in paths {
            let Ok(limits) = self.tree().limits(&path, SDB) else { continue };
            let read = limits.rbps.unwrap_or(DISK).min(DISK) * TICK_MS / 1_000;
            self.read += read;
            self.busy_us += read * 1_000_000 / DISK;
            let sum = self.readers.get_mut(&path).expect("it is one");
            *sum += read;
            let sum = *sum;
            match self.interface {
                Interface::V2 => {
                    let line = format!("8:16 rbytes={sum} wbytes=0 rios={} wios=0\n", sum >> 16);
                    fs::write(self.file(&path, "io.stat"), line).unwrap();
                }
                Interface::V1 => {
                    for (file, value) in self.interface.stat_files().iter().zip([sum, sum >> 16]) {
                        let text = format!("8:16 Read {value}\n8:16 Write 0\nTotal {value}\n");
                        fs::write(self.file(&path, file), text).unwrap();
                    }
                }
            }
        }
        self.count();
        governed.tick(self.now_ms * 1_000_000).expect("state can be written")
    }

    fn count(&self) {
        let (sectors, ios) = (self.read / 512, self.read >> 16);
        let text = format!("{ios} 0 {sectors} 0 0 0 0 0 0 {} 0\n", self.busy_us / 1_000);
        let stat = self.place.path("sys/devices/sdb/stat");
        // It is gone where the test has taken the disk away.
        let _ = fs::write(stat, text);
    }

    /// Until `is_so`, for 20 s at most.
    #[track_caller]
    fn until(&mut self, governed: &mut GovernedDisk, is_so: impl Fn(&World) -> bool) {
        for _ in 0..400 {
            self.tick(governed);
            if is_so(self) {
                return;
            }
        }
        panic!("not within 20 s: {:?}", governed.status());
    }
}

const SDB: DeviceNumber = DeviceNumber { major: 8, minor: 16 };

#[test]
fn limits_that_stand_are_raised_and_put_back() {
    for interface in [Interface::V2, Interface::V1] {
        let mut world = World::new(interface);
        world.cgroup("/a", Some(4));
        world.cgroup("/b", Some(2));
        world.cgroup("/none", None);
        world.readers.remove("/none");
        let mut governed = world.start(Vec::new(), Some(world.states()));
        assert!(!world.states().has_state(SDB), "nothing is written yet");
        world.until(&mut governed, |world| {
            world.limit("/a") > Some(8) && world.limit("/b") > Some(4)
        });
        assert!(world.states().has_state(SDB));
        assert_eq!(world.limit("/none"), None);
        for _ in 0..20 {
            world.tick(&mut governed);
        }
        let status = governed.status().expect("it has run for a second").clone();
        assert_eq!(status.cgroups.len(), 2);
        governed.end().expect("all can be put back");
        assert_eq!((world.limit("/a"), world.limit("/b")), (Some(4), Some(2)), "{interface:?}");
        assert!(!world.states().has_state(SDB));
    }
}

#[test]
fn what_others_write_counts_from_then_on() {
    let mut world = World::new(Interface::V2);
    world.cgroup("/a", Some(2));
    let mut governed = world.start(Vec::new(), Some(world.states()));
    world.until(&mut governed, |world| world.limit("/a") > Some(5));
    world.set("/a", 3);
    world.until(&mut governed, |world| world.limit("/a") > Some(5));
    // A new cgroup is found at the next walk, and one whose limit is taken away is left alone.
    world.cgroup("/slice/late", Some(1));
    world.until(&mut governed, |world| world.limit("/slice/late") > Some(1));
    fs::write(world.file("/slice/late", "io.max"), "").unwrap();
    world.until(&mut governed, |world| world.limit("/a") > Some(5));
    governed.end().expect("all can be put back");
    assert_eq!((world.limit("/a"), world.limit("/slice/late")), (Some(3), None));
}

#[test]
fn rules_limit_what_nobody_has_limited() {
    let mut world = World::new(Interface::V2);
    world.cgroup("/system.slice/backup.service", None);
    world.cgroup("/system.slice/db.service", Some(6));
    let selector = |name| Selector::parse(SelectorKind::Unit, name).unwrap();
    let limits = IoMax { rbps: Some(3 * MIB), ..IoMax::default() };
    let rules = vec![Rule { selector: selector("*.service"), limits, settings: None }];
    let mut governed = world.start(rules, Some(world.states()));
    world.tick(&mut governed);
    assert_eq!(world.limit("/system.slice/backup.service"), Some(3));
    assert_eq!(world.limit("/system.slice/db.service"), Some(6));
    governed.end().expect("all can be put back");
    assert_eq!(world.limit("/system.slice/backup.service"), None);
    assert_eq!(world.limit("/system.slice/db.service"), Some(6));
}

#[test]
fn cgroups_and_disks_may_go() {
    let mut world = World::new(Interface::V1);
    world.cgroup("/a", Some(2));
    world.cgroup("/b", Some(2));
    let mut governed = world.start(Vec::new(), Some(world.states()));
    world.until(&mut governed, |world| world.limit("/a") > Some(4));
    fs::remove_dir_all(world.place.path("cgroup/a")).unwrap();
    world.readers.remove("/a");
    assert_eq!(world.tick(&mut governed), Tick::Goes);
    world.until(&mut governed, |world| world.limit("/b") > Some(5));
    fs::remove_dir_all(world.place.path("sys/devices/sdb")).unwrap();
    assert_eq!(world.tick(&mut governed), Tick::Gone);
    governed.drop_gone();
    assert!(!world.states().has_state(SDB));
}

#[test]
fn what_a_killed_governor_leaves_is_put_back() {
    let mut world = World::new(Interface::V2);
    world.cgroup("/a", Some(4));
    world.cgroup("/b", Some(2));
    let mut governed = world.start(Vec::new(), Some(world.states()));
    world.until(&mut governed, |world| world.limit("/a") > Some(8) && world.limit("/b") > Some(4));
    drop(governed);
    let left = world.limit("/a");
    assert!(left > Some(8), "limits are loose");
    world.set("/b", 3);
    // The next governor begins with limits as written, and what others have written meanwhile is theirs.
    let governed = world.start(Vec::new(), Some(world.states()));
    assert_eq!((world.limit("/a"), world.limit("/b")), (Some(4), Some(3)));
    governed.end().expect("nothing is to be put back");
    assert_eq!((world.limit("/a"), world.limit("/b")), (Some(4), Some(3)));
}

#[test]
fn nothing_is_written_before_it_can_be_undone() {
    let mut world = World::new(Interface::V2);
    world.cgroup("/a", Some(4));
    let states = world.states();
    let mut governed = world.start(Vec::new(), Some(states.clone()));
    fs::remove_dir_all(states.path()).unwrap();
    let mut ended = None;
    for _ in 0..400 {
        world.now_ms += TICK_MS;
        world.read += 4 * MIB * TICK_MS / 1_000;
        let sum = world.read;
        fs::write(world.file("/a", "io.stat"), format!("8:16 rbytes={sum} rios={}\n", sum >> 16))
            .unwrap();
        world.busy_us += 10_000;
        world.count();
        if let Err(failure) = governed.tick(world.now_ms * 1_000_000) {
            ended = Some(failure);
            break;
        }
    }
    assert!(format!("{ended:?}").contains("without a record"), "{ended:?}");
    assert_eq!(world.limit("/a"), Some(4));
}

#[test]
fn a_dry_run_writes_nothing() {
    let mut world = World::new(Interface::V2);
    world.cgroup("/a", Some(4));
    let mut governed = world.start(Vec::new(), None);
    for _ in 0..100 {
        world.tick(&mut governed);
    }
    let status = governed.status().expect("it has run for seconds").clone();
    assert!(status.cgroups[0].is_raised, "{status:?}");
    assert_eq!(world.limit("/a"), Some(4));
    governed.end().expect("there is nothing to put back");
    assert_eq!(world.limit("/a"), Some(4));
}

#[test]
fn a_walk_finds_every_cgroup_once_and_parents_first() {
    let mut world = World::new(Interface::V2);
    for above in 0..30 {
        for below in 0..5 {
            world.cgroup(&format!("/a{above}/b{below}"), None);
        }
    }
    let tree = world.tree();
    let mut walk = Walk::new(&tree);
    let mut paths = Vec::new();
    while !walk.is_over() {
        let step = walk.step(&tree);
        assert!(step.len() <= 100);
        paths.extend(step);
    }
    assert_eq!(paths.len(), 30 * 6);
    for (at, path) in paths.iter().enumerate() {
        let (above, _) = path.rsplit_once('/').unwrap();
        assert!(above.is_empty() || paths[..at].iter().any(|before| before == above), "{path}");
    }
}
