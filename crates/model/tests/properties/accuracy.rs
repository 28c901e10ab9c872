//! spec/throttle P2: a limit that is always wanted is reached, to a tenth of a per cent.

use weir_engine::{
    Change, Config, Dimension, Engine, Extent, Instant, Limits, Op, Outcome, PerDimension, Request,
};

/// What one reader that always has four reads waiting gets in `seconds`, in requests.
fn reached(dimension: Dimension, rate: u64, len: u32, seconds: u64) -> u64 {
    let mut engine = Engine::new(Config::default(), Instant::ZERO);
    let cgroup = engine.create_cgroup(engine.root(), "a").expect("a fresh name");
    let limits = Limits { max: PerDimension::NONE.with(dimension, rate), ..Limits::default() };
    engine.reconfigure(Instant::ZERO, Change::SetLimits { cgroup, limits }).expect("valid");
    let client = engine.open_client(cgroup).expect("a live cgroup");
    let task = engine.open_task(client).expect("a live client");
    let read = Request::new(task, Op::Read, Extent::new(0, len), 0);
    let (mut now, mut count) = (Instant::ZERO, 0);
    for _ in 0..4 {
        engine.submit(now, read).expect("room");
    }
    while now < Instant::from_millis(1000 * seconds) {
        while let Some(dispatch) = engine.poll_dispatch(now) {
            count += 1;
            engine.complete(now, dispatch.ticket, Outcome::Done);
            engine.submit(now, read).expect("room");
        }
        now = engine.poll_timeout().expect("one waits");
        engine.handle_timeout(now);
    }
    count
}

#[test]
fn limits_are_reached() {
    for (rate, seconds) in
        [(1, 1000), (3, 400), (7, 200), (99, 20), (1234, 10), (10_000, 3), (1_000_000, 1)]
    {
        let found = reached(Dimension::Riops, rate, 4096, seconds);
        let (wanted, burst) = (rate * seconds, (1 + rate * 15 / 1000).max(4));
        assert!(found >= wanted - wanted / 1000, "{rate} a second: {found} of {wanted}");
        assert!(found <= wanted + burst, "{rate} a second: {found} of {wanted}");
    }
    for (rate, len, seconds) in
        [(65_536, 4096, 100), (1 << 20, 65_536, 100), (1_234_567, 3000, 10), (1 << 30, 65_536, 2)]
    {
        let found = reached(Dimension::Rbps, rate, len, seconds) * u64::from(len);
        let (wanted, burst) = (rate * seconds, (4096 + rate * 15 / 1000).max(4 * 4096));
        // What a request has paid that has not gone is not in it.
        let unpaid = u64::from(len);
        assert!(found + unpaid >= wanted - wanted / 1000, "{rate} B/s: {found} of {wanted}");
        assert!(found <= wanted + burst.max(u64::from(len)), "{rate} B/s: {found} of {wanted}");
    }
}
