//! Defects of the kernel's scheduler that this one does not have, by the numbers of spec/bfq 10.

use weir_engine::settings::PriorityClass;
use weir_engine::{Change, Dispatch, Extent, Op, Outcome, Priority, Request};

use super::{BLOCK, Scene};

#[test]
fn d24_a_sibling_comes_first_within_its_cgroup() {
    // The cgroup is the only one, so that the choice at the root is the same for each of its clients.
    for (class, level, comes_first) in [
        (PriorityClass::RealTime, 4, true),
        (PriorityClass::BestEffort, 0, true),
        (PriorityClass::BestEffort, 4, false),
        (PriorityClass::Idle, 4, false),
    ] {
        let mut scene = Scene::new(false, 1);
        let cgroup = scene.cgroup("only", 100);
        let (stream, (client, late)) = (scene.client(cgroup).1, scene.client(cgroup));
        let priority = Priority::new(class, level).expect("a level");
        let change = Change::SetPriority { client, priority };
        scene.engine.reconfigure(scene.now, change).expect("a live client");
        for number in 0..4 {
            scene.read(stream, number * u64::from(BLOCK));
        }
        assert_eq!(scene.dispatch(), Some(stream));
        scene.at(1).read(late, 1 << 40);
        scene.complete();
        let expected = if comes_first { late } else { stream };
        assert_eq!(scene.dispatch(), Some(expected), "{class:?}, level {level}");
    }
}

#[test]
fn d27_readers_of_one_stream_have_the_weight_of_all_of_them() {
    // Three read a stream in turn, as one, and a fourth reads one of its own: each has a quarter, as if apart.
    let mut scene = Scene::new(true, 1);
    let (readers, stranger) = ([(); 3].map(|()| scene.task()), scene.task());
    let [mut next, mut far] = [0, 1_u64 << 40];
    let mut read_on = |scene: &mut Scene, task| {
        let end = if task == stranger { &mut far } else { &mut next };
        scene.read(task, *end);
        *end += u64::from(BLOCK);
    };
    for task in readers.into_iter().chain([stranger; 2]) {
        read_on(&mut scene, task);
    }
    let mut served = [0_u64; 2];
    for ms in 0..8000 {
        scene.at(ms);
        let Some(task) = scene.dispatch() else { continue };
        served[usize::from(task == stranger)] += 1;
        scene.complete();
        read_on(&mut scene, task);
    }
    assert_eq!(scene.engine.bfq_stats().merging.cooperations, 2, "they are one");
    // A slot is of 8 MiB, 64 requests, at most: each is within two of its share.
    let [stream, own] = served;
    assert!(stream.abs_diff(3 * own) < 2 * 64 * 4, "{stream} of the stream, and {own}");
    assert!(stream + own > 7900, "{stream} and {own}");
}

/// As after a power cut, when hundreds of machines read the same block.
#[test]
fn d27_the_weight_of_hundreds_of_merged_flows_is_bounded() {
    let mut scene = Scene::new(true, 1);
    for _ in 0..700 {
        let request = Request::new(scene.task(), Op::Read, Extent::new(0, BLOCK), 0);
        scene.engine.submit(scene.now, request).expect("room");
    }
    scene.engine.check().expect("a sound engine");
    let mut served = 0;
    while let Some(Dispatch { ticket, .. }) = scene.engine.poll_dispatch(scene.now) {
        scene.engine.complete(scene.now, ticket, Outcome::Done);
        served += 1;
    }
    assert_eq!(served, 700);
    assert_eq!(scene.engine.bfq_stats().merging.cooperations, 699, "they are one");
}

/// One that is alone in its class rests with its finish a rounding ahead of a virtual time that only its own service moves.
#[test]
fn d24_a_better_class_comes_first_also_when_it_has_been_served_before() {
    for requests in 1..4 {
        let mut scene = Scene::new(true, 1);
        let root = scene.engine.root();
        let (stream, (client, urgent)) = (scene.task(), scene.client(root));
        let priority = Priority::new(PriorityClass::RealTime, 4).expect("a level");
        let change = Change::SetPriority { client, priority };
        scene.engine.reconfigure(scene.now, change).expect("a live client");
        (0..requests).for_each(|number| scene.read(urgent, number * u64::from(BLOCK)));
        for _ in 0..requests {
            assert_eq!(scene.dispatch(), Some(urgent));
            scene.complete();
        }
        // It is waited for in vain.
        for number in 0..8 {
            scene.at(20).read(stream, (1 << 40) + number * u64::from(BLOCK));
        }
        assert_eq!(scene.dispatch(), Some(stream));
        scene.at(30).complete();
        assert_eq!(scene.dispatch(), Some(stream));
        scene.at(40).read(urgent, 1 << 39);
        scene.complete();
        assert_eq!(scene.dispatch(), Some(urgent), "{requests} requests before");
    }
}
