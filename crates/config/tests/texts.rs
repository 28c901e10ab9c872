//! Texts of settings, as configuration files and the flags of `weir serve IMAGE` read them.

#[path = "../../text/tests/shared/texts.rs"]
mod texts;

use weir_config::{CgroupConfig, Config, ConfigErrors, SingleExport, parse_limiter};

/// What the first cgroup is set to, in the words of the table.
fn said(config: Result<Config, ConfigErrors>, key: &str) -> Result<String, ConfigErrors> {
    let config = config?;
    let cgroup: &CgroupConfig = &config.cgroups[0];
    Ok(match key {
        "max" => cgroup.limits.first().map(|on| on.limits.max.to_string()).unwrap_or_default(),
        "weight" | "bfq.weight" => cgroup.weight_on(0).get().to_string(),
        "limiter" => format!("{:?}", cgroup.limiter),
        _ => weir_text::print_watermark(config.devices[0].watermark),
    })
}

fn in_a_file(key: &str, text: &str) -> Result<String, ConfigErrors> {
    let (of_device, of_cgroup) = match key {
        "watermark" => (format!("watermark = {text:?}"), String::new()),
        "max" => (String::new(), format!("\"io.max\" = {:?}", format!("disk {text}"))),
        key => (String::new(), format!("\"io.{key}\" = {text:?}")),
    };
    let text = format!(
        "[device.disk]\npath = \"memory:1M\"\n{of_device}\n[cgroup.\"/a\"]\n{of_cgroup}\n\
         [export.a]\ndevice = \"disk\"\ncgroup = \"/a\"\n"
    );
    said(Config::from_str("weir.toml", &text), key)
}

fn as_a_flag(key: &str, text: &str) -> Result<String, ConfigErrors> {
    let mut single = SingleExport { image: "memory:1M".into(), ..SingleExport::default() };
    let flag = match key {
        "max" => &mut single.max,
        "weight" => &mut single.weight,
        "limiter" => &mut single.limiter,
        _ => &mut single.watermark,
    };
    *flag = Some(text.into());
    said(Config::single(&single), key)
}

fn check(place: &str, keys: &[&str], read: impl Fn(&str, &str) -> Result<String, ConfigErrors>) {
    for key in keys {
        for text in texts::of(key) {
            let means = text.means.map(|means| match *key {
                "limiter" => format!("{:?}", parse_limiter(means).unwrap()),
                _ => means.to_owned(),
            });
            match (read(key, text.text), means) {
                (Ok(said), Some(means)) => {
                    assert_eq!(said, means, "{place}: {key} {:?}", text.text);
                }
                (Ok(said), None) => panic!("{place}: {key} {:?} is taken for {said}", text.text),
                (Err(errors), Some(_)) => panic!("{place}: {key} {:?}: {errors}", text.text),
                (Err(errors), None) => {
                    let error = &errors.errors()[0];
                    assert!(error.hint.is_some(), "{place}: nothing is suggested for {error}");
                }
            }
        }
    }
}

#[test]
fn a_text_in_a_file_means_what_it_says_or_is_refused() {
    check("file", &["max", "weight", "bfq.weight", "limiter", "watermark"], in_a_file);
}

#[test]
fn a_text_after_a_flag_means_what_it_says_or_is_refused() {
    check("flag", &["max", "weight", "limiter", "watermark"], as_a_flag);
}

#[test]
fn a_key_said_twice_in_a_file_is_refused() {
    for twice in [
        "\"io.weight\" = 1\n\"io.weight\" = 2",
        "\"io.max\" = \"disk rbps=1\"\n'io.max' = \"disk rbps=2\"",
        "\"io.weight\" = 1\n\"io.bfq.weight\" = 2",
        "[cgroup.\"/a\"]",
        "[cgroup.\"/a/\"]",
    ] {
        let text = format!(
            "[device.disk]\npath = \"memory:1M\"\n[cgroup.\"/a\"]\n{twice}\n\
             [export.a]\ndevice = \"disk\"\ncgroup = \"/a\"\n"
        );
        assert!(Config::from_str("weir.toml", &text).is_err(), "{twice}");
    }
}

/// A device stands in front of a value, and never changes what the value means.
#[test]
fn a_weight_may_be_of_one_device() {
    let config = |weights: &str| {
        let text = format!(
            "[device.one]\npath = \"memory:1M\"\n[device.two]\npath = \"memory:1M\"\n\
             [cgroup.\"/a\"]\n\"io.weight\" = {weights}\n[export.a]\ndevice = \"one\"\ncgroup = \"/a\"\n"
        );
        Config::from_str("weir.toml", &text)
            .map(|config| [0, 1].map(|device| config.cgroups[0].weight_on(device).get()))
    };
    for (weights, on) in [
        ("10000", [10_000, 10_000]),
        ("1_000", [1_000, 1_000]),
        ("0x10", [16, 16]),
        ("\"two 300\"", [100, 300]),
        ("[\"default 200\", \"two 300\"]", [200, 300]),
        ("[\"two 300\", \"default 200\"]", [200, 300]),
        ("[50, \"* 7\", \"one 9\"]", [9, 7]),
        ("[50, \"two 300\", \"two default\"]", [50, 50]),
        ("[\"one 5\", \"one 6\"]", [6, 100]),
    ] {
        assert_eq!(config(weights).unwrap(), on, "{weights}");
    }
    for (weights, message) in [
        ("\"three 300\"", "there is no device \"three\""),
        ("\"8:0 200\"", "no device here is the block device 8:0"),
        ("\"1 000\"", "weight 000 is not between 1 and 10000"),
        ("[]", ""),
        ("[1, true]", "expected a string or a whole number, found true or false"),
        ("1.5", "expected a string or a whole number, found a number with a point"),
    ] {
        match config(weights) {
            Ok(on) => assert_eq!((message, on), ("", [100, 100]), "{weights}"),
            Err(errors) => assert_eq!(errors.errors()[0].message, message, "{weights}"),
        }
    }
}

#[test]
fn a_device_before_a_flags_limit_is_refused_with_the_rest() {
    for text in ["8:16 rbps=4M", "disk rbps=4M", "* rbps=4M"] {
        let error = &as_a_flag("max", text).unwrap_err().errors()[0].clone();
        assert!(error.message.ends_with("names a device: a single image has no name"), "{error}");
        assert_eq!(error.hint.as_deref(), Some("leave it out: \"rbps=4M\""));
    }
    let error = &as_a_flag("weight", "8:16 200").unwrap_err().errors()[0].clone();
    assert_eq!(error.message, "a single image has no name: no device can be named");
}
