//! Texts of settings, as the lab's flags and scenario files read them.

#[path = "../../text/tests/shared/texts.rs"]
mod texts;

use std::collections::BTreeMap;

use weir_lab::builder::{BuildError, ScenarioBuilder, Source};
use weir_lab::scenario::{CgroupSetting, Scenario};
use weir_lab::scenario_file;

const JOB: &str = "[a]\nsize=1m\n";

fn scenario(builder: &ScenarioBuilder) -> Result<Scenario, String> {
    builder.build().map_err(|error| match error {
        BuildError::Setting(error) => error.to_string(),
        BuildError::Jobs(errors) => errors.to_string(),
    })
}

/// A setting given by name, as `--max`, `--weight`, `--limiter` and `--set` are.
fn by_name(key: &str, text: &str) -> Result<Scenario, String> {
    let jobs = Source::Jobs { name: "x.fio".into(), text: JOB.into(), env: BTreeMap::new() };
    let mut builder = ScenarioBuilder::new("x", jobs);
    builder.set(key, text).map_err(|error| error.to_string())?;
    // A limiter is told of by what it limits.
    if key == "limiter" {
        builder.set("max", "rbps=1M").unwrap();
    }
    scenario(&builder)
}

fn in_a_scenario(key: &str, text: &str) -> Result<Scenario, String> {
    let limits = if key == "limiter" { "max = \"rbps=1M\"\n" } else { "" };
    let file = format!("about = \"x\"\n{key} = {text:?}\n{limits}job = {JOB:?}\n");
    let file = scenario_file::read("x.toml", &file, &BTreeMap::new())
        .map_err(|error| error.to_string())?;
    scenario(&file.builder)
}

fn home(scenario: &Scenario) -> &CgroupSetting {
    scenario.cgroups.iter().find(|cgroup| cgroup.path.as_str() == ScenarioBuilder::HOME).unwrap()
}

/// What it is set to, in the words of the table.
fn said(scenario: &Scenario, key: &str) -> String {
    match key {
        "max" => home(scenario).limits.max.to_string(),
        "weight" => home(scenario).weight.unwrap().get().to_string(),
        "limiter" => format!("{:?}", home(scenario).limits.limiter),
        _ => weir_text::print_watermark(scenario.cgroups[0].watermark.unwrap()),
    }
}

#[test]
fn a_setting_has_one_meaning_by_name_and_in_a_file() {
    type Read = fn(&str, &str) -> Result<Scenario, String>;
    for (place, read) in [("name", by_name as Read), ("scenario", in_a_scenario as Read)] {
        for key in ["max", "weight", "limiter", "watermark"] {
            for text in texts::of(key) {
                let found = read(key, text.text).map(|scenario| said(&scenario, key));
                let means = text.means.map(|means| match key {
                    "limiter" => {
                        format!("{:?}", weir_config::parse_limiter(means).unwrap())
                    }
                    _ => means.to_owned(),
                });
                match means {
                    Some(means) => assert_eq!(found, Ok(means), "{place}: {key} {:?}", text.text),
                    None => assert!(found.is_err(), "{place}: {key} {:?}: {found:?}", text.text),
                }
            }
        }
    }
}

#[test]
fn a_repeated_key_in_a_scenario_is_refused() {
    for twice in ["depth = 1\ndepth = 2", "max = \"rbps=1\"\n'max' = \"rbps=2\""] {
        let file = format!("about = \"x\"\n{twice}\njob = {JOB:?}\n");
        assert!(scenario_file::read("x.toml", &file, &BTreeMap::new()).is_err(), "{twice}");
    }
}

#[test]
fn an_invisible_character_in_a_cgroup_name_is_refused() {
    for key in ["max", "weight"] {
        let error = by_name(key, "/a\u{202e}b 5").unwrap_err();
        assert!(error.ends_with("U+202E"), "{error}");
    }
    let job = "[a]\nsize=1m\ncgroup=a\u{200b}\n";
    let jobs = Source::Jobs { name: "x.fio".into(), text: job.into(), env: BTreeMap::new() };
    let refused = match ScenarioBuilder::new("x", jobs).build() {
        Ok(scenario) => {
            weir_lab::sim::run(&scenario, &mut |_| std::ops::ControlFlow::Continue(())).is_err()
        }
        Err(_) => true,
    };
    assert!(refused, "a job's cgroup");
}
