//! Random calls: the page cache against a model that holds every page by itself, and against what must hold whatever
//! happens.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use weir_pagecache::{CacheIo, CacheOp, Owner, PAGE_BYTES, PageCache, Settings, Token};

const FILES: u32 = 3;
const PAGES: u64 = 48;
const MS: u64 = 1_000_000;

#[derive(Clone, Copy, Debug)]
enum Call {
    Read {
        owner: u32,
        file: u32,
        offset: u64,
        len: u32,
    },
    Write {
        owner: u32,
        file: u32,
        offset: u64,
        len: u32,
        sync: bool,
    },
    Sync {
        owner: u32,
        file: u32,
    },
    Trim {
        file: u32,
        offset: u64,
        len: u32,
    },
    Invalidate {
        file: u32,
    },
    Resize {
        file: u32,
        bytes: u64,
    },
    /// A request under way ends: which, of those there are.
    End {
        which: usize,
    },
    Wait {
        ms: u64,
    },
}

/// Calls on bytes, or on whole pages.
fn call(unit: u64) -> impl Strategy<Value = Call> {
    let (owner, file) = (0..3u32, 0..FILES);
    let units = PAGES * PAGE_BYTES / unit;
    // Some begin where others end, so that there is something to read ahead.
    let at = prop_oneof![0..units, Just(0), Just(units / 3)].prop_map(move |at| at * unit);
    let len = prop_oneof![4 => 1..units / 8, 1 => 1..units];
    let len = len.prop_map(move |len| (len * unit) as u32);
    let extent = (owner.clone(), file.clone(), at, len);
    prop_oneof![
        6 => extent.clone().prop_map(|(owner, file, offset, len)| Call::Read { owner, file, offset, len }),
        8 => (extent.clone(), prop::bool::weighted(0.15)).prop_map(|((owner, file, offset, len), sync)| {
            Call::Write { owner, file, offset, len, sync }
        }),
        2 => (owner, file.clone()).prop_map(|(owner, file)| Call::Sync { owner, file }),
        1 => extent.prop_map(|(_, file, offset, len)| Call::Trim { file, offset, len }),
        1 => file.clone().prop_map(|file| Call::Invalidate { file }),
        1 => (file, 0..=units).prop_map(move |(file, at)| Call::Resize { file, bytes: at * unit }),
        10 => (0..100usize).prop_map(|which| Call::End { which }),
        3 => (0..4000u64).prop_map(|ms| Call::Wait { ms }),
    ]
}

fn owner_rule() -> impl Strategy<Value = Owner> {
    prop_oneof![Just(Owner::First), Just(Owner::Last)]
}

/// So little of everything that all waits there are do happen.
fn tight() -> impl Strategy<Value = Settings> {
    let pages = (1..40u64, 0..20u64, 1..40u64, 0..20u64, 0..20u64, 1..20u64);
    (pages, 1..4u32, owner_rule()).prop_map(
        |((memory, background, dirty, own, ahead, chunk), flusher_depth, owner)| Settings {
            dirty_owner_bytes: own * PAGE_BYTES,
            memory_bytes: memory * PAGE_BYTES,
            dirty_background_bytes: background * PAGE_BYTES,
            dirty_bytes: dirty * PAGE_BYTES,
            dirty_expire_ns: 3000 * MS,
            writeback_interval_ns: 500 * MS,
            read_ahead_bytes: ahead * PAGE_BYTES,
            write_chunk_bytes: chunk * PAGE_BYTES,
            flusher_depth,
            owner,
        },
    )
}

/// So much memory that nothing waits but for the disk.
fn roomy() -> impl Strategy<Value = Settings> {
    let huge = 10 * u64::from(FILES) * PAGES * PAGE_BYTES;
    (tight(), 0..60u64).prop_map(move |(settings, background)| Settings {
        memory_bytes: huge,
        dirty_bytes: huge,
        dirty_owner_bytes: 0,
        dirty_background_bytes: background * PAGE_BYTES,
        ..settings
    })
}

type Place = (u32, u64);

/// The whole pages, or those touched, of an extent.
fn pages(offset: u64, len: u32) -> std::ops::Range<u64> {
    offset / PAGE_BYTES..(offset + u64::from(len)).div_ceil(PAGE_BYTES)
}

fn places(io: &CacheIo) -> impl Iterator<Item = Place> + use<> {
    let file = io.file;
    pages(io.offset, io.len).map(move |page| (file, page))
}

/// What an operation promises.
#[derive(Debug)]
enum Promise {
    Read,
    /// These pages are dirty when it ends, or were taken to the disk since it came, by number of request.
    Write {
        since_io: u64,
        places: Vec<Place>,
        sync: bool,
    },
    /// These pages were taken to the disk since, and were there before the flush; and so were those requests.
    Sync {
        since_io: u64,
        places: Vec<Place>,
        under_way: Vec<u64>,
    },
}

struct World {
    cache: PageCache,
    now_ns: u64,
    tokens: u64,
    /// With the number of the call that each came with.
    promises: BTreeMap<u64, (u64, Promise)>,
    in_flight: BTreeMap<u64, CacheIo>,
    /// The last request that wrote each page, by number, and all that have ended.
    taken: BTreeMap<Place, u64>,
    landed: BTreeMap<Place, Vec<u64>>,
    /// In which call each page was trimmed last: what was promised of it before need not be kept.
    trimmed: BTreeMap<Place, u64>,
    calls: u64,
    /// When the last flush that ended was handed out: after how many ends of requests; and of which requests.
    ended: BTreeMap<u64, u64>,
    ends: u64,
    flush_after_ends: u64,
    flushes: BTreeMap<u64, u64>,
    /// Ends of reads come at once.
    quick_reads: bool,
    /// What happened in the last call, in order, for the model.
    news: Vec<CacheIo>,
}

impl World {
    fn new(settings: Settings, quick_reads: bool) -> World {
        World {
            cache: PageCache::new(settings),
            now_ns: 0,
            tokens: 0,
            promises: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            taken: BTreeMap::new(),
            landed: BTreeMap::new(),
            trimmed: BTreeMap::new(),
            calls: 0,
            ended: BTreeMap::new(),
            ends: 0,
            flush_after_ends: 0,
            flushes: BTreeMap::new(),
            quick_reads,
            news: Vec::new(),
        }
    }

    fn token(&mut self, promise: Promise) -> Token {
        self.tokens += 1;
        self.promises.insert(self.tokens, (self.calls, promise));
        Token(self.tokens)
    }

    fn last_io(&self) -> u64 {
        self.taken.values().copied().max().unwrap_or(0)
    }

    fn dirty_places(&self, file: u32) -> Vec<Place> {
        let is_dirty = |page: &u64| self.cache.dirty_owner(file, page * PAGE_BYTES).is_some();
        (0..2 * PAGES).filter(is_dirty).map(|page| (file, page)).collect()
    }

    fn call(&mut self, call: Call) {
        self.news.clear();
        self.calls += 1;
        match call {
            Call::Read { owner, file, offset, len } => {
                let token = self.token(Promise::Read);
                self.cache.read(self.now_ns, token, owner, file, offset, len);
            }
            Call::Write { owner, file, offset, len, sync } => {
                let places: Vec<Place> = pages(offset, len).map(|page| (file, page)).collect();
                let since_io = self.last_io();
                let token = self.token(Promise::Write { since_io, places, sync });
                self.cache.write(self.now_ns, token, owner, file, offset, len, sync);
            }
            Call::Sync { owner, file } => {
                let places = self.dirty_places(file);
                let writes = |io: &&CacheIo| io.op == CacheOp::Write && io.file == file;
                let under_way = self.in_flight.values().filter(writes).map(|io| io.id).collect();
                let since_io = self.last_io();
                let token = self.token(Promise::Sync { since_io, places, under_way });
                self.cache.sync(self.now_ns, token, owner, file);
            }
            Call::Trim { file, offset, len } => {
                let call = self.calls;
                self.trimmed.extend(pages(offset, len).map(|page| ((file, page), call)));
                self.cache.trim(file, offset, len);
            }
            Call::Invalidate { file } => self.cache.invalidate(self.now_ns, file),
            Call::Resize { file, bytes } => {
                let (call, beyond) = (self.calls, bytes / PAGE_BYTES..2 * PAGES);
                self.trimmed.extend(beyond.map(|page| ((file, page), call)));
                self.cache.set_file_size(file, bytes);
            }
            Call::End { which } => {
                let which = which.checked_rem(self.in_flight.len());
                if let Some(&id) = which.and_then(|which| self.in_flight.keys().nth(which)) {
                    self.end(id);
                }
            }
            Call::Wait { ms } => {
                let until_ns = self.now_ns + ms * MS;
                while let Some(at_ns) = self.cache.poll_timeout().filter(|&at| at <= until_ns) {
                    self.now_ns = self.now_ns.max(at_ns);
                    self.cache.handle_timeout(self.now_ns);
                    self.pump();
                }
                self.now_ns = until_ns;
            }
        }
        self.pump();
    }

    fn end(&mut self, id: u64) {
        let io = self.in_flight.remove(&id).expect("under way");
        self.ends += 1;
        self.ended.insert(id, self.ends);
        match io.op {
            CacheOp::Write => {
                places(&io).for_each(|place| self.landed.entry(place).or_default().push(id));
            }
            CacheOp::Flush => {
                let after = self.flushes.remove(&id).expect("noted when handed out");
                self.flush_after_ends = self.flush_after_ends.max(after);
            }
            CacheOp::Read => {}
        }
        self.cache.completed(self.now_ns, id);
    }

    fn pump(&mut self) {
        loop {
            self.cache.check().unwrap();
            let mut quick = Vec::new();
            while let Some(io) = self.cache.poll_io() {
                self.take(io);
                if io.op == CacheOp::Read && self.quick_reads {
                    quick.push(io.id);
                }
            }
            while let Some(token) = self.cache.poll_done() {
                let (call, promise) = self.promises.remove(&token.0).expect("ends once");
                self.hold(call, promise);
            }
            if quick.is_empty() {
                return;
            }
            for id in quick {
                self.end(id);
            }
        }
    }

    fn take(&mut self, io: CacheIo) {
        let here: BTreeSet<Place> = places(&io).collect();
        for other in self.in_flight.values().filter(|other| other.op != CacheOp::Flush) {
            assert!(places(other).all(|place| !here.contains(&place)), "{io:?} and {other:?}");
        }
        match io.op {
            CacheOp::Read => {
                // No read from the disk of what is newer in memory.
                for &(file, page) in &here {
                    assert!(!self.cache.is_cached(file, page * PAGE_BYTES), "{io:?}, {page}");
                }
            }
            CacheOp::Write => {
                assert!(!here.is_empty());
                self.taken.extend(here.into_iter().map(|place| (place, io.id)));
            }
            CacheOp::Flush => {
                self.flushes.insert(io.id, self.ends);
            }
        }
        self.news.push(io);
        assert_eq!(self.in_flight.insert(io.id, io), None, "one number twice");
    }

    /// An operation ended: has it kept what it promised?
    fn hold(&self, call: u64, promise: Promise) {
        let is_trimmed = |place: &Place| self.trimmed.get(place).is_some_and(|&at| at >= call);
        let on_disk = |place: &Place, since_io: u64| {
            let in_time = |id: &u64| *id > since_io && self.ended[id] <= self.flush_after_ends;
            is_trimmed(place) || self.landed.get(place).is_some_and(|ids| ids.iter().any(in_time))
        };
        match promise {
            Promise::Read => {}
            Promise::Write { since_io, places, sync: true } => {
                for place in places {
                    assert!(on_disk(&place, since_io), "{place:?} is not on disk");
                }
            }
            Promise::Write { since_io, places, sync: false } => {
                for place in places {
                    let dirty = self.cache.dirty_owner(place.0, place.1 * PAGE_BYTES).is_some();
                    let taken = self.taken.get(&place).is_some_and(|&id| id > since_io);
                    assert!(dirty || taken || is_trimmed(&place), "{place:?} is lost");
                }
            }
            Promise::Sync { since_io, places, under_way } => {
                for place in places {
                    assert!(on_disk(&place, since_io), "{place:?} is not on disk");
                }
                for id in under_way {
                    assert!(self.ended.get(&id).is_some_and(|&at| at <= self.flush_after_ends));
                }
            }
        }
    }

    /// Ends everything; answers in how many steps.
    fn drain(&mut self) -> u64 {
        let mut steps = 0;
        loop {
            if let Some(&id) = self.in_flight.keys().next() {
                self.end(id);
            } else if let Some(at_ns) = self.cache.poll_timeout() {
                assert!(at_ns > self.now_ns, "the timer is in the past");
                self.now_ns = at_ns;
                self.cache.handle_timeout(at_ns);
            } else {
                return steps;
            }
            self.pump();
            steps += 1;
            assert!(steps < 100_000, "it does not come to an end");
        }
    }
}

/// One page by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    Clean,
    Dirty(u32),
    Writing { owner: u32, again: bool },
}

/// All pages one by one, told of every call and every request.
struct Model {
    rule: Owner,
    pages: BTreeMap<Place, Page>,
    sizes: BTreeMap<u32, u64>,
}

impl Model {
    fn write(&mut self, writer: u32, place: Place) {
        let owner = |before: u32| if self.rule == Owner::Last { writer } else { before };
        let now = match self.pages.get(&place) {
            None | Some(Page::Clean) => Page::Dirty(writer),
            Some(&Page::Dirty(before)) => Page::Dirty(owner(before)),
            Some(&Page::Writing { owner: before, .. }) => {
                Page::Writing { owner: owner(before), again: true }
            }
        };
        self.pages.insert(place, now);
    }

    fn forget(&mut self, place: Place) {
        match self.pages.get_mut(&place) {
            Some(Page::Writing { again, .. }) => *again = false,
            _ => {
                self.pages.remove(&place);
            }
        }
    }

    fn issued(&mut self, io: &CacheIo) {
        for place in places(io) {
            let now = match io.op {
                CacheOp::Write => {
                    assert_eq!(self.pages.get(&place), Some(&Page::Dirty(io.owner)), "{io:?}");
                    Page::Writing { owner: io.owner, again: false }
                }
                CacheOp::Read => {
                    assert_eq!(self.pages.get(&place), None, "{io:?}");
                    Page::Clean
                }
                CacheOp::Flush => unreachable!("has no pages"),
            };
            self.pages.insert(place, now);
        }
    }

    fn ended(&mut self, io: &CacheIo) {
        for place in places(io).filter(|_| io.op == CacheOp::Write) {
            let Some(Page::Writing { owner, again }) = self.pages.get(&place).copied() else {
                panic!("{place:?} of {io:?}")
            };
            self.pages.insert(place, if again { Page::Dirty(owner) } else { Page::Clean });
        }
    }

    fn compare(&self, cache: &PageCache) {
        for place in (0..FILES).flat_map(|file| (0..2 * PAGES).map(move |page| (file, page))) {
            let (file, offset) = (place.0, place.1 * PAGE_BYTES);
            let page = self.pages.get(&place);
            let dirty = match page {
                Some(&Page::Dirty(owner) | &Page::Writing { owner, again: true }) => Some(owner),
                _ => None,
            };
            assert_eq!(cache.dirty_owner(file, offset), dirty, "{place:?}: {page:?}");
            assert_eq!(cache.is_cached(file, offset), page.is_some(), "{place:?}: {page:?}");
        }
    }
}

/// A third of what is asked for, 256 if nothing is: each looks at every page after every call.
fn cases() -> ProptestConfig {
    let asked = ProptestConfig::default();
    ProptestConfig { cases: asked.cases.div_ceil(3), failure_persistence: None, ..asked }
}

proptest! {
    #![proptest_config(cases())]

    /// With room for everything, the cache is what one page after the other is.
    #[test]
    fn pages_agree_with_the_model(
        settings in roomy(),
        calls in prop::collection::vec(call(PAGE_BYTES), 1..120),
    ) {
        let mut world = World::new(settings, true);
        let mut model =
            Model { rule: settings.owner, pages: BTreeMap::new(), sizes: BTreeMap::new() };
        for call in calls {
            let before = world.in_flight.clone();
            world.call(call);
            // First what the call itself does, then the requests that it led to.
            match call {
                Call::Write { owner, file, offset, len, .. } => {
                    pages(offset, len).for_each(|page| model.write(owner, (file, page)));
                }
                Call::Trim { file, offset, len } => {
                    pages(offset, len).for_each(|page| model.forget((file, page)));
                }
                Call::Resize { file, bytes } => {
                    model.sizes.insert(file, bytes);
                    (bytes / PAGE_BYTES..2 * PAGES).for_each(|page| model.forget((file, page)));
                }
                Call::Invalidate { file } => {
                    model.pages.retain(|place, page| place.0 != file || *page != Page::Clean);
                }
                _ => {}
            }
            let is_under_way = |io: &&CacheIo| !world.in_flight.contains_key(&io.id);
            before.values().filter(is_under_way).for_each(|io| model.ended(io));
            world.news.iter().for_each(|io| model.issued(io));
            model.compare(&world.cache);
        }
        world.drain();
        prop_assert!(world.promises.is_empty(), "{:?}", world.promises);
        prop_assert_eq!(world.cache.counters().dirty_bytes, 0);
        prop_assert_eq!(world.cache.counters().throttled_writes, 0);
    }

    /// With too little of everything, it all still comes to an end, in order, and nothing is lost. The limits are held
    /// by `check`, after each call.
    #[test]
    fn everything_ends_and_nothing_is_lost(
        settings in tight(),
        calls in prop::collection::vec(call(512), 1..120),
    ) {
        let mut world = World::new(settings, false);
        for call in &calls {
            world.call(*call);
        }
        let steps = world.drain();
        prop_assert!(world.promises.is_empty(), "{:?}", world.promises);
        prop_assert_eq!(world.cache.counters().dirty_bytes, 0);
        // A page of each operation at a time, a flush, and looks of the flusher for what is left.
        let bound = calls.len() as u64 * (4 * PAGES + 10) + 20;
        prop_assert!(steps <= bound, "{steps} steps, {bound} expected at most");
    }

    /// The same calls give the same answers.
    #[test]
    fn the_same_calls_give_the_same_answers(
        settings in tight(),
        calls in prop::collection::vec(call(512), 1..60),
    ) {
        let run = || {
            let mut world = World::new(settings, false);
            let news = |call: &Call| {
                world.call(*call);
                world.news.clone()
            };
            calls.iter().map(news).collect::<Vec<_>>()
        };
        prop_assert_eq!(run(), run());
    }
}
