//! Clients that read one stream in turn.

use weir_engine::Instant;

use super::{BLOCK, Scene};

#[test]
fn interleaved_readers_become_one_stream() {
    // Three clients read one stream in turn, each its next block when the last is back: apart, the disk would wait for
    // each in turn, and seek.
    let mut scene = Scene::new(true, 1);
    let tasks = [(); 3].map(|()| scene.task());
    let mut next = 0_u64;
    for task in tasks {
        scene.read(task, next);
        next += u64::from(BLOCK);
    }
    let mut order = Vec::new();
    for ms in 0..300 {
        scene.at(ms);
        let Some(task) = scene.dispatch() else { continue };
        order.push(scene.out[0].1.extent.offset);
        scene.complete();
        scene.read(task, next);
        next += u64::from(BLOCK);
    }
    let gaps = order.windows(2).filter(|pair| pair[0] + u64::from(BLOCK) != pair[1]).count();
    assert!(order.len() > 280 && gaps < 4, "{} requests with {gaps} gaps", order.len());
}

#[test]
fn members_of_a_shared_stream_wait_for_the_straggler() {
    // Three read every third block each, as above, and the disk takes all they ask for. That a client leaves something out
    // for others is seen from the second request on that it sends for all of them.
    let mut scene = Scene::new(true, 4);
    let [a, b, c] = [(); 3].map(|()| scene.task());
    let block = |number: u64| number * u64::from(BLOCK);
    let held = |scene: &Scene| scene.engine.bfq_stats().held;
    for round in 0..3 {
        for (number, task) in [a, b, c].into_iter().enumerate() {
            scene.read(task, block(3 * round + number as u64));
            assert_eq!(scene.dispatch(), Some(task));
        }
        (0..3).for_each(|_| scene.at(1 + round).complete());
    }
    // A does not return. The other two have moved on to what is behind its next block, and are held for 1 ms.
    scene.read(b, block(10));
    scene.read(c, block(11));
    assert_eq!(scene.dispatch(), None);
    assert_eq!((scene.engine.poll_timeout(), held(&scene)), (Some(Instant::from_millis(4)), 1));
    assert_eq!(scene.at(4).dispatch(), Some(b));
    assert_eq!(scene.dispatch(), Some(c), "it begins where b's ends");
    // They have each had one more when A comes at last. Its blocks go first, until it has caught up with them.
    (0..2).for_each(|_| scene.at(5).complete());
    scene.read(a, block(9));
    scene.read(b, block(13));
    scene.read(c, block(14));
    for number in [9, 12] {
        assert_eq!(scene.dispatch(), Some(a), "block {number}");
        assert_eq!(scene.dispatch().is_none(), number == 9, "b's is not beside block 9");
        if number == 9 {
            scene.at(6).complete();
            assert_eq!(scene.dispatch(), None, "A is awaited");
            scene.read(a, block(12));
        }
    }
    assert_eq!(scene.dispatch(), Some(c));
    assert_eq!(held(&scene), 2);
}

#[test]
fn a_lost_member_of_a_shared_stream_costs_the_others_little() {
    // A, B and C begin as above, and A is away after each request for 3 ms, longer than the device idles.
    let mut scene = Scene::new(true, 1);
    let [a, b, c] = [(); 3].map(|()| scene.task());
    let mut next = [0_u64, 1, 2].map(|number| number * u64::from(BLOCK));
    let mut read = |scene: &mut Scene, place: usize, task| {
        scene.read(task, next[place]);
        next[place] += 3 * u64::from(BLOCK);
    };
    for (place, task) in [a, b, c].into_iter().enumerate() {
        read(&mut scene, place, task);
    }
    let (mut served, mut returns) = (0, None);
    for ms in 0..120 {
        scene.at(ms);
        if returns == Some(ms) {
            read(&mut scene, 0, a);
        }
        // The disk serves four in a millisecond.
        for _ in 0..4 {
            let Some(task) = scene.dispatch() else { break };
            scene.complete();
            if task == a {
                returns = Some(ms + 3);
            } else {
                served += 1;
                read(&mut scene, if task == b { 1 } else { 2 }, task);
            }
        }
    }
    // Three waits cost 9 of the 480, and A has a few. With a wait each time it would be 426.
    assert!(served >= 445, "{served}");
}

#[test]
fn members_do_not_wait_for_a_flow_with_a_stream_of_its_own() {
    // They merged because both read near each other, but A reads all of its blocks and leaves none out for B.
    let mut scene = Scene::new(true, 4);
    let [a, b] = [(); 2].map(|()| scene.task());
    let block = |number: u64| number * u64::from(BLOCK);
    for round in 0..4 {
        scene.read(a, block(round));
        scene.read(b, block(4 + round));
        (0..2).for_each(|_| assert!(scene.dispatch().is_some()));
        (0..2).for_each(|_| scene.at(1 + round).complete());
    }
    assert_eq!(scene.engine.bfq_stats().merging.cooperations, 1);
    // A does not return.
    scene.read(b, block(9));
    assert_eq!(scene.dispatch(), Some(b));
    assert_eq!(scene.engine.bfq_stats().held, 0);
}
