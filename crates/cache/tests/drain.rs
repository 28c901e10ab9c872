//! The end of a cache before a device with bad blocks: all other bytes are written, and exactly the rest is named.

use std::num::NonZeroU32;

use proptest::prelude::*;
use weir_cache::{Admission, Cache, Reason, Settings};
use weir_engine::{Config, Engine, Extent, Instant, Path};

const BLOCK: usize = 4096;
const BLOCKS: usize = 64;
/// The device ends inside a block.
const SIZE: usize = BLOCKS * BLOCK - 1000;
/// ENOSPC.
const FULL: Reason = Reason(28);

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_can_be_written_is_and_the_rest_is_named(
        writes in prop::collection::vec((0..SIZE, 1..3 * BLOCK, any::<u8>()), 1..40),
        bad in prop::collection::btree_set(0..BLOCKS, 0..6),
        fails_before in any::<bool>(),
    ) {
        let mut engine = Engine::new(Config::default(), Instant::ZERO);
        let owner = engine.ensure_cgroup(&Path::parse("/a").unwrap()).unwrap();
        let settings = Settings {
            blocks_max: NonZeroU32::new(1024).unwrap(),
            request_blocks_max: NonZeroU32::new(16).unwrap(),
            ..Settings::default()
        };
        let mut cache = Cache::new(settings, SIZE as u64, Instant::ZERO);
        // What the device has, and what clients were told that it has.
        let mut device = vec![None; SIZE];
        let mut wanted: Vec<Option<u8>> = vec![None; SIZE];
        for (offset, len, value) in writes {
            let end = (offset + len).min(SIZE);
            let bytes = vec![value; end - offset];
            let admission = cache.write(Instant::ZERO, owner, offset as u64, &bytes, 0);
            prop_assert_eq!(admission, Admission::Taken);
            wanted[offset..end].fill(Some(value));
        }
        let mut turn = |cache: &mut Cache, now: Instant| {
            let mut parts = Vec::new();
            let mut requests = 0;
            while let Some(write) = cache.poll_write(now) {
                assert!(cache.start(write.id, &mut parts), "nothing else is at the device");
                requests += 1;
                let touches = |at: &&usize| {
                    let bad = (**at * BLOCK) as u64..((**at + 1) * BLOCK) as u64;
                    parts.iter().any(|part: &Extent| {
                        part.offset < bad.end && bad.start < part.offset + u64::from(part.len)
                    })
                };
                if bad.iter().find(touches).is_some() {
                    cache.complete(now, write.id, Err(FULL));
                    continue;
                }
                for part in &parts {
                    let mut bytes = vec![0; part.len as usize];
                    cache.copy(part.offset, &mut bytes);
                    let at = part.offset as usize;
                    let values = bytes.iter().map(|&byte| Some(byte));
                    device[at..at + bytes.len()].iter_mut().zip(values).for_each(|(to, byte)| *to = byte);
                }
                cache.complete(now, write.id, Ok(()));
            }
            requests
        };
        let now = Instant::from_millis(6_000);
        if fails_before {
            turn(&mut cache, now);
        }
        cache.drain(now);
        let requests = turn(&mut cache, now);
        prop_assert!(requests <= 3 * BLOCKS, "{} requests", requests);
        prop_assert_eq!(cache.dirty_bytes(), 0);
        cache.check().map_err(TestCaseError::fail)?;
        let lost = cache.lost();
        for pair in lost.windows(2) {
            prop_assert!(pair[0].end < pair[1].start, "in order, neighbours as one");
        }
        for at in 0..SIZE {
            let is_lost = lost.iter().any(|range| range.contains(&(at as u64)));
            prop_assert_eq!(is_lost, wanted[at].is_some() && bad.contains(&(at / BLOCK)), "{}", at);
            prop_assert!(is_lost || device[at] == wanted[at], "byte {at}");
        }
    }
}

/// Before its end a cache would lose all that it has.
#[test]
fn what_is_still_cached_is_lost_too() {
    let mut engine = Engine::new(Config::default(), Instant::ZERO);
    let owner = engine.ensure_cgroup(&Path::parse("/a").unwrap()).unwrap();
    let mut cache = Cache::new(Settings::default(), 1 << 20, Instant::ZERO);
    for offset in [5000, 5100, 100_000] {
        cache.write(Instant::ZERO, owner, offset, &[1; 100], 0);
    }
    assert_eq!(cache.lost(), [5000..5200, 100_000..100_100]);
}
