//! Recursive counters of all cgroups, in one walk.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use crate::core::Core;
use crate::stats::{CgroupStats, Counters};
use crate::tree::ROOT;

/// See [`crate::Engine::tree_stats`].
pub(crate) fn tree_stats(core: &Core) -> Vec<CgroupStats> {
    let tree = &core.tree;
    let order = tree.subtree(ROOT);
    // Where a cgroup is in `order`, by index; its parent has a place before it.
    let mut places = vec![0; order.iter().max().map_or(0, |&last| last as usize + 1)];
    let mut rows: Vec<CgroupStats> = Vec::with_capacity(order.len());
    for (place, &at) in order.iter().enumerate() {
        places[at as usize] = place;
        let node = &tree.cgroups[at];
        let path = match node.parent {
            _ if at == ROOT => String::from("/"),
            ROOT => format!("/{}", node.name),
            parent => format!("{}/{}", rows[places[parent as usize]].path, node.name),
        };
        let mut counters = Counters::default();
        let cgroup = tree.id(at);
        core.add_counters(at, &mut counters);
        rows.push(CgroupStats { cgroup, path, counters, bfq: core.bfq_stats(at) });
    }
    // From the last to the first, so that a cgroup has all that is below it before it is added to its parent.
    for (place, &at) in order.iter().enumerate().rev() {
        let (before, from) = rows.split_at_mut(place);
        from[0].counters.blame.tidy();
        if at != ROOT {
            let above = &mut before[places[tree.cgroups[at].parent as usize]];
            above.counters.gather(&from[0].counters);
            above.bfq.absorb(&from[0].bfq);
        }
    }
    let mut is_named = order.iter().map(|&at| !tree.cgroups[at].dying);
    rows.retain(|_| is_named.next().unwrap_or_default());
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Change, Config, Dimension, Engine, Extent, Instant, Limits, Op, Outcome, Path,
        PerDimension, Request, TaskId,
    };

    /// One read through a client of its own, which stays open.
    fn read(engine: &mut Engine, path: &str, bytes: u32) -> TaskId {
        let cgroup = engine.ensure_cgroup(&Path::parse(path).expect("a path")).expect("made");
        let client = engine.open_client(cgroup).expect("a live cgroup");
        let task = engine.open_task(client).expect("a live client");
        let request = Request::new(task, Op::Read, Extent::new(0, bytes), 0);
        engine.submit(Instant::ZERO, request).expect("room");
        let dispatch = engine.poll_dispatch(Instant::ZERO).expect("no limit");
        engine.complete(Instant::ZERO, dispatch.ticket, Outcome::Done);
        task
    }

    fn rows(engine: &Engine) -> Vec<(String, u64)> {
        let rows = engine.tree_stats().into_iter();
        rows.map(|row| (row.path, row.counters.read.bytes)).collect()
    }

    #[test]
    fn each_has_the_sums_of_all_below_it_and_parents_come_first() {
        let mut engine = Engine::new(Config::default(), Instant::ZERO);
        assert_eq!(rows(&engine), [("/".into(), 0)]);
        for (path, bytes) in [("/b/c", 1), ("/b", 10), ("/a", 100), ("/b/d/e", 1000)] {
            read(&mut engine, path, bytes);
        }
        let all = [("/", 1111), ("/a", 100), ("/b", 1011), ("/b/c", 1), ("/b/d", 1000)];
        let all = all.into_iter().chain([("/b/d/e", 1000)]);
        assert_eq!(rows(&engine), all.map(|(path, sum)| (path.into(), sum)).collect::<Vec<_>>());
    }

    /// Cgroups that come, wait for their own limit and that of their parent, and go.
    #[test]
    fn what_removed_cgroups_waited_for_takes_no_more_room_with_each() {
        const TURNS: u64 = 100;
        let mut engine = Engine::new(Config::default(), Instant::ZERO);
        let limit = |engine: &mut Engine, now, path: &str, ios| {
            let cgroup = engine.ensure_cgroup(&Path::parse(path).expect("a path")).expect("made");
            let limits = Limits {
                max: PerDimension::NONE.with(Dimension::Riops, ios),
                burst: PerDimension::NONE.with(Dimension::Riops, 1),
                ..Limits::default()
            };
            engine.reconfigure(now, Change::SetLimits { cgroup, limits }).expect("limits");
            cgroup
        };
        let above = limit(&mut engine, Instant::ZERO, "/a", 50);
        for turn in 0..TURNS {
            let begin = Instant::from_millis(1000 * turn);
            engine.handle_timeout(begin);
            let cgroup = limit(&mut engine, begin, "/a/short", 100);
            let client = engine.open_client(cgroup).expect("a live cgroup");
            let task = engine.open_task(client).expect("a live client");
            for tag in 0..3 {
                let request = Request::new(task, Op::Read, Extent::new(0, 512), tag);
                engine.submit(begin, request).expect("room");
            }
            for wait_ms in (0..100).step_by(10) {
                let now = Instant::from_millis(1000 * turn + wait_ms);
                engine.handle_timeout(now);
                while let Some(dispatch) = engine.poll_dispatch(now) {
                    engine.complete(now, dispatch.ticket, Outcome::Done);
                }
            }
            engine.close_task(task);
            engine.close_client(client);
            let now = Instant::from_millis(1000 * turn + 100);
            engine.reconfigure(now, Change::Remove { cgroup }).expect("nobody is in it");
            let blame = engine.counters(above, true).expect("it is there").blame;
            assert_eq!(blame.limits.len(), 2, "its own, and one for all that are gone: {blame:?}");
            assert!(blame.limits.iter().any(|limit| limit.cgroup == above));
            // The second went 20 ms after the first, and the third 20 ms later.
            assert_eq!(blame.total_ns(), (turn + 1) * 60_000_000);
        }
    }

    #[test]
    fn what_was_removed_has_no_row_and_stays_in_the_sums() {
        let mut engine = Engine::new(Config::default(), Instant::ZERO);
        let task = read(&mut engine, "/a/gone", 1);
        let gone = engine.find_cgroup(&Path::parse("/a/gone").expect("a path")).expect("live");
        engine.reconfigure(Instant::ZERO, Change::Remove { cgroup: gone }).expect("no children");
        let left = [("/".into(), 1), ("/a".into(), 1)];
        assert_eq!(rows(&engine), left, "while it has a client");
        assert_eq!(engine.counters(gone, false).expect("it has a client").read.bytes, 1);
        engine.close_task(task);
        assert_eq!(rows(&engine), left);
    }
}
