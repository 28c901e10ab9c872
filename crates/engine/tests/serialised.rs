//! Serialisation with the feature `serde`.

use serde_json::{from_str, json, to_value};
use weir_engine::{Config, Engine, Extent, Instant, LimiterKind, Limits, Op, Weight};

#[test]
fn limits_are_the_text_of_io_max() {
    let limits = Limits::parse("rbps=1M riops=100").unwrap();
    let value = to_value(limits).unwrap();
    assert_eq!(value["max"], "rbps=1048576 wbps=max riops=100 wiops=max");
    assert_eq!(value["limiter"], json!(LimiterKind::Pace));
    assert_eq!(from_str::<Limits>(&value.to_string()).unwrap(), limits);
}

#[test]
fn a_value_out_of_range_is_not_read() {
    assert_eq!(from_str::<Weight>("200").unwrap().get(), 200);
    assert!(from_str::<Weight>("0").is_err() && from_str::<Weight>("10001").is_err());
    let fast = r#"{"max": "rbps=fast", "burst": "", "peak": "", "limiter": "Pace"}"#;
    assert!(from_str::<Limits>(fast).is_err());
}

#[test]
fn statistics_and_requests_are_serialised() {
    let engine = Engine::new(Config::default(), Instant::ZERO);
    let stats = to_value(engine.tree_stats()).unwrap();
    assert_eq!(stats[0]["path"], "/");
    assert_eq!(stats[0]["counters"]["read"], json!({"bytes": 0, "ios": 0}));
    assert_eq!(to_value(engine.device()).unwrap()["in_flight"], 0);
    let extent = Extent::new(4096, 512);
    assert_eq!(
        to_value((Op::Read, extent)).unwrap(),
        json!(["Read", {"offset": 4096, "len": 512}])
    );
}
