//! Valid configurations and their meaning; the example tells the true defaults.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use weir_config::{Backend, Config, DeviceRange, Direct, ListenAddress, ServerConfig};
use weir_engine::settings::{BfqSettings, KernelProfile, LowLatency, PrioClass, SliceProfile};
use weir_engine::{Dimension, LimiterKind, Limits, PerDimension, SchedulerKind, Watermark, Weight};

fn example() -> Config {
    let text = include_str!("../examples/weir.toml");
    Config::from_str("weir.toml", text).unwrap_or_else(|errors| panic!("{errors}"))
}

const MINIMAL: &str = r#"
    [device.disk0]
    path = "/srv/disk0.img"
    [cgroup."/vm1"]
    [export.vm1]
    device = "disk0"
    cgroup = "/vm1"
"#;

#[test]
fn the_example_is_read_as_it_says() {
    let config = example();

    let address: SocketAddr = "127.0.0.1:10809".parse().unwrap();
    assert_eq!(config.server.listen, [ListenAddress::Tcp(address)]);
    assert_eq!(config.server.socket.as_deref(), Some(Path::new("/run/weir/nbd.sock")));
    assert_eq!(config.server.socket_mode, 0o600);

    let names: Vec<&str> = config.devices.iter().map(|device| device.name.as_str()).collect();
    assert_eq!(names, ["disk0", "ram", "slow"], "devices keep the order of the file");
    assert_eq!(config.devices[1].backend, Backend::Memory { size: 64 << 20 });
    let slow = Backend::Emulated("null,rate=4M,latency=10us,size=4G".parse().unwrap());
    assert_eq!(config.devices[2].backend, slow);

    let paths: Vec<&str> = config.cgroups.iter().map(|cgroup| cgroup.path.as_str()).collect();
    assert_eq!(paths, ["/vms", "/vms/vm1", "/vms/vm2"]);
    let vms = &config.cgroups[0];
    let devices: Vec<usize> = vms.limits.iter().map(|limits| limits.device).collect();
    assert_eq!(devices, [0, 1, 2], "* is every device");
    assert_eq!(
        vms.limits[1].limits.max.to_string(),
        "rbps=419430400 wbps=419430400 riops=max wiops=max"
    );

    let vm1 = &config.cgroups[1];
    assert_eq!(vm1.weight, Weight::new(200).unwrap());
    let expected = Limits {
        max: PerDimension::NONE
            .with(Dimension::Rbps, 4 << 20)
            .with(Dimension::Wbps, 2 << 20)
            .with(Dimension::Riops, 100),
        burst: PerDimension::NONE.with(Dimension::Rbps, 1 << 20).with(Dimension::Riops, 8),
        peak: PerDimension::NONE.with(Dimension::Riops, 1000),
        limiter: LimiterKind::Pace,
    };
    assert_eq!((vm1.limits[0].device, vm1.limits[0].limits), (0, expected));
    assert_eq!(
        (vm1.limits[1].device, vm1.limits.len()),
        (2, 2),
        "a device without limits is left out"
    );

    let profile = SliceProfile { kernel: KernelProfile::K418, hz: 1000, slice_ticks: 20 };
    assert_eq!(config.cgroups[2].limiter, LimiterKind::Slice(profile));
    assert_eq!(config.cgroups[2].limits[0].limits.limiter, LimiterKind::Slice(profile));

    assert_eq!((config.exports[0].name.as_str(), config.exports[0].device), ("vm1", 0));
    assert_eq!(config.exports[0].range, DeviceRange { start: 0, end: Some(3 << 30) });
    assert_eq!((config.exports[1].name.as_str(), config.exports[1].device), ("", 1));
    assert_eq!(config.exports[1].cgroup.as_str(), "/");
}

#[test]
fn defaults_are_what_the_example_calls_them() {
    let minimal = Config::from_str("weir.toml", MINIMAL).unwrap();
    assert_eq!(minimal.devices[0], example().devices[0]);
    let mut server = minimal.server;
    server.fill_in(Path::new(ServerConfig::RUNTIME_DIR));
    assert_eq!(server, ServerConfig { listen: Vec::new(), ..example().server });
    assert_eq!(minimal.devices[0].engine.scheduler, SchedulerKind::None);
    assert_eq!(minimal.cgroups[0].weight, Weight::DEFAULT);
    assert_eq!(minimal.cgroups[0].limiter, LimiterKind::default());
    assert_eq!(minimal.exports[0].range, DeviceRange::default());
}

#[test]
fn a_later_line_adds_to_an_earlier_one() {
    let text = MINIMAL.replace(
        "[export",
        "\"io.max\" = [\"* rbps=4M riops=100\", \"disk0 riops=max wiops=7\"]\n[export",
    );
    let config = Config::from_str("weir.toml", &text).unwrap();
    let limits = config.cgroups[0].limits[0].limits.max.to_string();
    assert_eq!(limits, "rbps=4194304 wbps=max riops=max wiops=7");
}

#[test]
fn a_cache_is_asked_for_and_has_a_size() {
    let cache = |keys: &str| {
        let text = MINIMAL.replace("[cgroup", &format!("{keys}\n[cgroup"));
        let config =
            Config::from_str("weir.toml", &text).unwrap_or_else(|errors| panic!("{errors}"));
        config.devices[0].cache.map(|cache| u64::from(cache.blocks_max.get()) * 4096)
    };
    for (keys, bytes) in [
        ("", None),
        ("cache = \"none\"", None),
        ("cache = \"writeback\"", Some(256 << 20)),
        ("cache = \"writeback\"\ncache_size = \"1M\"", Some(1 << 20)),
        ("cache_size = \"3G\"\ncache = \"writeback\"", Some(3 << 30)),
    ] {
        assert_eq!(cache(keys), bytes, "{keys}");
    }
}

#[test]
fn settings_of_bfq_are_text_numbers_or_switches() {
    let bfq = |keys: &str| {
        let text = MINIMAL.replace("[cgroup", &format!("[device.disk0.bfq]\n{keys}\n[cgroup"));
        let config =
            Config::from_str("weir.toml", &text).unwrap_or_else(|errors| panic!("{errors}"));
        config.devices[0].engine.bfq
    };
    let parse = |text| weir_text::parse_bfq(text, BfqSettings::DEFAULT).unwrap();
    for (keys, text) in [
        ("", ""),
        ("slice_idle = 0\nlow_latency = false", "slice_idle=0 low_latency=0"),
        ("slice_idle = \"1500us\"\nlow_latency = 1", "slice_idle_us=1500"),
        // In the order of the file it would be off in the end.
        ("stable_late = 1\nstable = \"kernel\"", "stable=600/180/1"),
    ] {
        assert_eq!(bfq(keys), parse(text), "{keys}");
    }
}

#[test]
fn io_bfq_low_latency_is_a_key_of_a_cgroup() {
    let minimal = Config::from_str("weir.toml", MINIMAL).unwrap();
    assert_eq!(minimal.cgroups[0].low_latency, None);
    for policy in LowLatency::ALL {
        let key = format!("\"io.bfq.low_latency\" = {:?}\n[export", policy.name());
        let config = Config::from_str("weir.toml", &MINIMAL.replace("[export", &key)).unwrap();
        assert_eq!(config.cgroups[0].low_latency, Some(policy));
    }
}

#[test]
fn classes_have_the_kernels_names() {
    for class in PrioClass::ALL {
        let key = format!("\"io.prio.class\" = {:?}\n[export", class.name());
        let config = Config::from_str("weir.toml", &MINIMAL.replace("[export", &key)).unwrap();
        assert_eq!(config.cgroups[0].prio_class, class);
    }
}

#[test]
fn io_weight_and_io_bfq_weight_are_one_setting() {
    let text = |key: &str| MINIMAL.replace("[export", &format!("{key} = 7\n[export"));
    for key in ["\"io.weight\"", "\"io.bfq.weight\""] {
        let config = Config::from_str("weir.toml", &text(key)).unwrap();
        assert_eq!(config.cgroups[0].weight, Weight::new(7).unwrap(), "{key}");
    }
}

#[test]
fn loopback_needs_no_permission_and_the_rest_does() {
    for (listen, allowed) in [
        ("\"127.0.0.1:0\"", true),
        ("\"127.9.9.9:10809\"", true),
        ("\"[::1]:10809\"", true),
        ("\"[::ffff:127.0.0.1]:10809\"", true),
        ("\"localhost:10809\"", true),
        ("[\"127.0.0.1:0\", \"127.0.0.1:0\"]", true),
        ("\"0.0.0.0:10809\"", false),
        ("\"[::]:10809\"", false),
        ("\"192.0.2.1:10809\"", false),
        ("\"vsock:1:10809\"", true),
        ("\"vsock:10809\"", false),
        ("\"vsock:any:10809\"", false),
        ("\"vsock:2:10809\"", false),
    ] {
        let text = format!("[server]\nlisten = {listen}\n{MINIMAL}");
        assert_eq!(Config::from_str("weir.toml", &text).is_ok(), allowed, "{listen}");
        let text = format!("[server]\nallow_remote = true\nlisten = {listen}\n{MINIMAL}");
        assert!(Config::from_str("weir.toml", &text).is_ok(), "{listen}");
    }
}

#[test]
fn bfq_is_told_whether_seeks_take_time() {
    for (path, rotational) in [
        ("/srv/disk0.img", true),
        ("memory:1G", false),
        ("emulated:hdd7200", true),
        ("emulated:ssd-sata", false),
        ("emulated:null", false),
    ] {
        let device = format!("path = {path:?}\nscheduler = \"bfq\"");
        let text = MINIMAL.replace("path = \"/srv/disk0.img\"", &device);
        let engine = Config::from_str("weir.toml", &text).unwrap().devices[0].engine;
        assert_eq!(
            (engine.scheduler, engine.rotational),
            (SchedulerKind::Bfq, rotational),
            "{path}"
        );
    }
}

/// A directory of its own for each test, gone at its end.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("weir-config-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Directory(path.canonicalize().unwrap())
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_file_s_images_are_beside_it_and_must_exist() {
    let directory = Directory::new("images");
    let file = directory.0.join("weir.toml");
    let text = MINIMAL.replace("/srv/disk0.img", "disk0.img");
    std::fs::write(&file, format!("[server]\nsocket = \"nbd.sock\"\n{text}")).unwrap();

    let errors = Config::from_file(&file).unwrap_err();
    let image = directory.0.join("disk0.img");
    assert_eq!(errors.errors().len(), 1);
    assert_eq!(errors.errors()[0].message, format!("{image:?} does not exist"));
    assert_eq!(errors.errors()[0].line, Some(5));
    assert!(errors.errors()[0].hint.as_ref().unwrap().contains("truncate"));
    let backend = Backend::File { path: image.clone(), direct: Direct::Auto };
    assert_eq!(Config::plan_from_file(&file).unwrap().devices[0].backend, backend);

    std::fs::create_dir(&image).unwrap();
    let errors = Config::from_file(&file).unwrap_err();
    assert!(errors.errors()[0].message.contains("is a directory"));
    std::fs::remove_dir(&image).unwrap();

    std::fs::write(&image, [0; 512]).unwrap();
    let config = Config::from_file(&file).unwrap();
    assert_eq!(config.devices[0].backend, backend);
    assert_eq!(Config::plan_from_file(&file).unwrap(), config);
    assert_eq!(config.server.socket, Some(directory.0.join("nbd.sock")));
}

#[test]
fn a_range_is_inside_the_image_that_is_there() {
    let directory = Directory::new("ranges");
    let file = directory.0.join("weir.toml");
    let image = std::fs::File::create(directory.0.join("disk0.img")).unwrap();
    image.set_len(1 << 30).unwrap();
    for (range, fits) in [
        ("0..1G", true),
        ("1023M..", true),
        ("512..1024", true),
        ("0..1073741825", false),
        ("1G..", false),
        ("2G..3G", false),
    ] {
        let text = format!("{MINIMAL}range = {range:?}").replace("/srv/disk0.img", "disk0.img");
        std::fs::write(&file, &text).unwrap();
        match Config::from_file(&file) {
            Ok(_) => assert!(fits, "{range}"),
            Err(errors) => {
                assert!(!fits, "{range}: {errors}");
                let message = "the range reaches past the device's end at 1 GiB";
                assert_eq!(errors.errors()[0].message, message, "{range}");
            }
        }
        // A caller that opens nothing does not need all files; existing ones are inspected.
        assert_eq!(Config::plan_from_file(&file).is_ok(), fits, "{range}");
        assert!(Config::from_str("weir.toml", &text).is_ok(), "{range}");
    }
}

#[test]
fn a_missing_block_device_comes_without_the_hint_to_create_it() {
    let directory = Directory::new("missing");
    let file = directory.0.join("weir.toml");
    for (path, hint) in [
        (
            "/dev/nvme9n9p9",
            "block devices are made by the kernel: `lsblk --paths` lists those there are",
        ),
        (
            "/dev/mapper/none",
            "block devices are made by the kernel: `lsblk --paths` lists those there are",
        ),
    ] {
        std::fs::write(&file, MINIMAL.replace("/srv/disk0.img", path)).unwrap();
        let errors = Config::from_file(&file).unwrap_err();
        assert_eq!(errors.errors()[0].hint.as_deref(), Some(hint), "{path}");
    }
    std::fs::write(&file, MINIMAL.replace("/srv/disk0.img", "none/disk0.img")).unwrap();
    let errors = Config::from_file(&file).unwrap_err();
    let hint = errors.errors()[0].hint.clone().unwrap();
    assert!(hint.starts_with("its directory") && !hint.contains("truncate"), "{hint}");
}

#[test]
fn one_image_under_two_names_is_refused() {
    let directory = Directory::new("links");
    std::fs::write(directory.0.join("a.img"), [0; 512]).unwrap();
    std::os::unix::fs::symlink("a.img", directory.0.join("b.img")).unwrap();
    let file = directory.0.join("weir.toml");
    let text = MINIMAL.replace("/srv/disk0.img", "a.img") + "[device.disk1]\npath = \"b.img\"";
    std::fs::write(&file, text).unwrap();
    let errors = Config::from_file(&file).unwrap_err();
    assert_eq!(errors.errors()[0].message, "device \"disk0\" has the same path");
}

#[test]
fn a_file_that_is_no_configuration_is_refused_in_one_line() {
    let directory = Directory::new("odd");
    let errors = Config::from_file(&directory.0.join("none.toml")).unwrap_err();
    assert!(errors.errors()[0].message.starts_with("cannot be read: "), "{errors}");
    assert_eq!(errors.errors()[0].line, None);

    let file = directory.0.join("weir.toml");
    std::fs::write(&file, b"[device.disk0]\npath = \"\xff\"\n").unwrap();
    let errors = Config::from_file(&file).unwrap_err();
    assert_eq!(errors.errors()[0].message, "the file is not UTF-8 text");
    assert_eq!((errors.errors()[0].line, errors.errors()[0].column), (Some(2), Some(9)));

    let sparse = std::fs::File::create(&file).unwrap();
    sparse.set_len((16 << 20) + 1).unwrap();
    let errors = Config::from_file(&file).unwrap_err();
    assert_eq!(errors.errors()[0].message, "the file is larger than 16 MiB");
}

/// A device's model is read from beside the configuration; what is wrong with it is told where it is named.
#[test]
fn a_model_is_read_from_its_file() {
    let place = std::env::temp_dir().join(format!("weir-config-model-{}", std::process::id()));
    std::fs::create_dir_all(&place).unwrap();
    let text = "[device.d]\npath = \"memory:1G\"\nmodel = \"d.model.toml\"\n[export.\"\"]\ndevice = \"d\"\ncgroup = \"/\"\n";
    std::fs::write(place.join("weir.toml"), text).unwrap();
    let read = |model: &str| {
        std::fs::write(place.join("d.model.toml"), model).unwrap();
        Config::from_file(&place.join("weir.toml"))
    };
    let good = read("size = 1073741824\nrbps = 4096\nrseqiops = 1\nrrandiops = 1\nstreams = 7\n");
    let bad = read("size = 1073741824\nrbps = 0\nrseqiops = 1\nrrandiops = 1\n").unwrap_err();
    std::fs::remove_dir_all(&place).unwrap();
    let capacity = good.unwrap().devices[0].engine.capacity.unwrap();
    assert_eq!(capacity.streams, 7);
    assert_eq!(capacity.costs.price(weir_engine::Op::Write, 4096, true).as_nanos(), 1_000_000_000);
    let [error] = bad.errors() else { panic!("{bad}") };
    assert_eq!((error.key.as_str(), error.line), ("device.d.model", Some(3)));
    assert!(
        error.message.contains("d.model.toml:2:8: rbps: 0 is not between 4 KiB/s and 1 TiB/s"),
        "{error}"
    );
}

#[test]
fn a_watermark_is_a_device_s_and_a_cgroup_s() {
    let minimal = Config::from_str("weir.toml", MINIMAL).unwrap();
    assert_eq!(minimal.devices[0].watermark, Watermark::HARD);
    assert_eq!(minimal.cgroups[0].watermark, None);
    for (written, read) in [("90", "90"), ("\"100 mode=gate\"", "100 mode=gate"), ("0", "0")] {
        let read = weir_text::parse_watermark(read).unwrap();
        let key = format!("\"io.watermark\" = {written}\n[export");
        let config = Config::from_str("weir.toml", &MINIMAL.replace("[export", &key)).unwrap();
        assert_eq!(config.cgroups[0].watermark, Some(read));
        let key = format!("watermark = {written}\n[cgroup");
        let config = Config::from_str("weir.toml", &MINIMAL.replacen("[cgroup", &key, 1)).unwrap();
        assert_eq!(config.devices[0].watermark, read);
    }
}
