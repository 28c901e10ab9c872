//! One export from flags: the same limits as from a file, and pictures of the command line.

use weir_config::{Backend, Config, ConfigErrors, SingleExport};
use weir_engine::Weight;

fn ram() -> SingleExport {
    SingleExport { image: "memory:1G".into(), ..SingleExport::default() }
}

fn some(text: &str) -> Option<String> {
    Some(text.into())
}

fn limits(single: &SingleExport) -> [String; 3] {
    let config = Config::single(single).unwrap_or_else(|errors| panic!("{errors}"));
    let limits = config.cgroups[0].limits[0].limits;
    [limits.max, limits.burst, limits.peak].map(|values| values.to_string())
}

#[test]
fn flags_mean_what_keys_mean() {
    let single = SingleExport {
        max: some("rbps=50M riops=500"),
        burst: some("riops=8"),
        peak: some("riops=1k"),
        weight: some("200"),
        limiter: some("token"),
        scheduler: some("bfq"),
        bfq: some("slice_idle=0 stable=kernel"),
        watermark: some("90 reserve=kept"),
        socket: some("/run/weir/one.sock"),
        socket_mode: some("0660"),
        listen: vec!["127.0.0.1:0".into(), "[::1]:0".into()],
        read_only: true,
        drain_time: some("1min"),
        ..ram()
    };
    let config = Config::single(&single).unwrap();
    let text = r#"
        [server]
        drain_time = "1min"
        socket = "/run/weir/one.sock"
        socket_mode = "660"
        listen = ["127.0.0.1:0", "[::1]:0"]
        [device.disk]
        path = "memory:1G"
        read_only = true
        scheduler = "bfq"
        bfq = { slice_idle = 0, stable = "kernel" }
        watermark = "90 reserve=kept"
        [cgroup."/main"]
        "io.max" = "disk rbps=50M riops=500"
        "io.burst" = "disk riops=8"
        "io.peak" = "disk riops=1k"
        "io.weight" = 200
        "io.limiter" = "token"
        [export.""]
        device = "disk"
        cgroup = "/main"
    "#;
    assert_eq!(config, Config::from_str("weir.toml", text).unwrap());
    assert_eq!(config.cgroups[0].weight, Weight::new(200).unwrap());
}

#[test]
fn an_image_alone_is_a_configuration() {
    let config = Config::single(&ram()).unwrap();
    assert_eq!(config.devices[0].backend, Backend::Memory { size: 1 << 30 });
    assert_eq!((config.exports[0].name.as_str(), config.cgroups[0].limits.len()), ("", 0));
}

#[test]
fn one_burst_for_every_key_that_it_fits() {
    let max = some("rbps=50M riops=500 wiops=500");
    let [_, burst, _] = limits(&SingleExport { max: max.clone(), burst: some("16"), ..ram() });
    assert_eq!(burst, "rbps=max wbps=max riops=16 wiops=16");
    let [_, burst, _] = limits(&SingleExport { max, burst: some("1M"), ..ram() });
    assert_eq!(burst, "rbps=1048576 wbps=max riops=max wiops=max");
}

#[track_caller]
fn refused(single: &SingleExport, expected: &str) -> ConfigErrors {
    let errors = Config::single(single).unwrap_err();
    let expected = expected.trim_matches('\n');
    assert_eq!(errors.to_string(), expected, "\n{errors}\n");
    errors
}

#[test]
fn errors_name_the_flag_and_point_into_the_command_line() {
    let single = SingleExport {
        max: some("rbps=4MB riosp=500"),
        weight: some("50000"),
        limiter: some("pase"),
        listen: vec!["0.0.0.0:10809".into()],
        ..ram()
    };
    let errors = refused(
        &single,
        r#"
error: --max: rbps: "4MB" is ambiguous: allowed are 1 to 18446744073709551614 and max
 |
 | weir serve memory:1G --max "rbps=4MB riosp=500" --weight 50000 --limiter pase --listen 0.0.0.0:10809
 |                             ^^^^^^^^
 |
 = help: write "4MiB" for 4 x 1024^2, or "4000000" for 4 x 10^6 bytes

error: --max: unknown key "riosp" (= "500"): allowed are rbps, wbps, riops, wiops, rwbps and rwiops
 |
 | weir serve memory:1G --max "rbps=4MB riosp=500" --weight 50000 --limiter pase --listen 0.0.0.0:10809
 |                                      ^^^^^^^^^
 |
 = help: did you mean "riops"?

error: --weight: weight 50000 is not between 1 and 10000
 |
 | weir serve memory:1G --max "rbps=4MB riosp=500" --weight 50000 --limiter pase --listen 0.0.0.0:10809
 |                                                          ^^^^^
 |
 = help: only ratios among siblings count: divide all of them by the same number

error: --limiter: there is no limiter "pase"
 |
 | weir serve memory:1G --max "rbps=4MB riosp=500" --weight 50000 --limiter pase --listen 0.0.0.0:10809
 |                                                                          ^^^^
 |
 = help: did you mean "pace"?

error: --listen: 0.0.0.0:10809 can be reached from other machines, and clients need no certificate
 |
 | weir serve memory:1G --max "rbps=4MB riosp=500" --weight 50000 --limiter pase --listen 0.0.0.0:10809
 |                                                                                        ^^^^^^^^^^^^^
 |
 = help: listen on 127.0.0.1; or serve a configuration that has TLS; or say `--allow-remote` if everyone on that network may read and write the exports
"#,
    );
    let record = serde_json::to_value(&errors.errors()[2]).unwrap();
    let expected = serde_json::json!({
        "file": "command line",
        "line": 1,
        "column": 58,
        "key": "--weight",
        "message": "weight 50000 is not between 1 and 10000",
        "hint": "only ratios among siblings count: divide all of them by the same number",
    });
    assert_eq!(record, expected);
    assert_eq!(
        errors.errors()[3].to_string(),
        "command line: --limiter: there is no limiter \"pase\" (did you mean \"pace\"?)"
    );
    assert!(errors.render(true).contains("\u{1b}["), "colours on request");
}

#[test]
fn a_cache_is_asked_for_with_flags() {
    let cache = |kind, size| {
        let single = SingleExport { cache: some(kind), cache_size: size, ..ram() };
        Config::single(&single).unwrap().devices[0].cache.map(|cache| cache.blocks_max.get())
    };
    assert_eq!(cache("none", None), None);
    assert_eq!(cache("writeback", None), Some(65_536));
    assert_eq!(cache("writeback", some("4M")), Some(1024));
    refused(
        &SingleExport { cache_size: some("4M"), ..ram() },
        r#"
error: --cache-size: there is no cache that could have a size
 |
 | weir serve memory:1G --cache-size 4M
 |                                   ^^
 |
 = help: ask for one: --cache writeback
"#,
    );
}

#[test]
fn a_model_is_read_from_its_file() {
    let place = std::env::temp_dir().join(format!("weir-single-model-{}", std::process::id()));
    std::fs::create_dir_all(&place).unwrap();
    let file = place.join("d.model.toml");
    std::fs::write(
        &file,
        "size = 1073741824\nrbps = 4096\nrseqiops = 1\nrrandiops = 1\nstreams = 7\n",
    )
    .unwrap();
    let asked = |path: std::path::PathBuf| {
        let model = path.to_str().map(String::from);
        Config::single(&SingleExport { model, ..ram() })
    };
    let [good, missing] = [file, place.join("none.toml")].map(asked);
    std::fs::remove_dir_all(&place).unwrap();
    assert_eq!(good.unwrap().devices[0].engine.capacity.unwrap().streams, 7);
    let errors = missing.unwrap_err();
    let [error] = errors.errors() else { panic!("{errors}") };
    assert_eq!(error.key, "--model");
    assert!(error.message.contains("none.toml"), "{error}");
}

#[test]
fn a_burst_that_fits_nothing_is_refused() {
    refused(
        &SingleExport { max: some("rbps=4M"), burst: some("8"), ..ram() },
        r#"
error: --burst: a burst of 8 I/Os, but --max has no riops, wiops or rwiops
 |
 | weir serve memory:1G --max rbps=4M --burst 8
 |                                            ^
 |
 = help: a plain number is I/Os (8), one with a unit is bytes (1M)
"#,
    );
}

#[test]
fn what_is_wrong_with_a_burst_is_told_once() {
    for burst in ["0", "99999999999999999999", "many", "4294967295"] {
        let max = some("riops=4 wiops=4");
        let errors = Config::single(&SingleExport { max, burst: some(burst), ..ram() });
        assert_eq!(errors.unwrap_err().errors().len(), 1, "{burst}");
    }
}

#[test]
fn contradictions_and_missing_images_are_found_here_too() {
    let single = SingleExport { max: some("riops=100"), peak: some("riops=50"), ..ram() };
    let errors = Config::single(&single).unwrap_err();
    assert_eq!(errors.errors()[0].key, "--peak");

    let single = SingleExport { image: "/nowhere/disk.img".into(), max: some("riops=0"), ..ram() };
    let errors = Config::single(&single).unwrap_err();
    let keys: Vec<&str> = errors.errors().iter().map(|error| error.key.as_str()).collect();
    assert_eq!(keys, ["IMAGE", "--max"]);
    assert_eq!(errors.errors()[0].message, "\"/nowhere/disk.img\" does not exist");
}

#[test]
fn every_word_of_bfq_is_looked_at() {
    let single = SingleExport { bfq: some("slice_idel=1 low_latency=2 x"), ..ram() };
    refused(
        &single,
        r#"
error: --bfq: bfq has no setting "slice_idel"
 |
 | weir serve memory:1G --bfq "slice_idel=1 low_latency=2 x"
 |                             ^^^^^^^^^^^^
 |
 = help: did you mean `slice_idle`?

error: --bfq: low_latency = 2: allowed are 0 and 1
 |
 | weir serve memory:1G --bfq "slice_idel=1 low_latency=2 x"
 |                                          ^^^^^^^^^^^^^
 |
 = help: what is usual: "low_latency=1"

error: --bfq: "x" is not KEY=VALUE
 |
 | weir serve memory:1G --bfq "slice_idel=1 low_latency=2 x"
 |                                                        ^
 |
 = help: for example "slice_idle=0 low_latency=0"
"#,
    );
}
