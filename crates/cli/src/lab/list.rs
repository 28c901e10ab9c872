//! `weir lab list`.

use std::collections::BTreeMap;

use clap::ValueEnum;
use serde_json::json;
use weir_lab::builder::SETTINGS;
use weir_lab::reproduce;
use weir_lab::scenario_file::{self, SCENARIOS};

use crate::failure::Failure;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  weir lab list
  weir lab list scenarios
  weir lab list settings --format json | jq -r '.settings[].name'";

/// List scenarios, disks, kernels, settings and reproductions
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Only these
    what: Option<What>,
    /// What to print
    #[arg(long, value_enum, default_value_t)]
    format: output::Format,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum What {
    /// For `weir lab run`
    Scenarios,
    /// For `--disk`, and for `weir serve emulated:DISK`
    Disks,
    /// For `--limiter slice --kernel`
    Kernels,
    /// For `--set`
    Settings,
    /// For `weir lab reproduce`
    Reproductions,
}

/// Versions of Linux with different limiters.
const KERNELS: [(&str, &str); 6] = [
    ("4.18", "up to 4.18: waits past the end of its slice"),
    ("K419a", "4.19 as first released: the fix, whose wait may be 0"),
    ("4.19", "5.3 and stable 4.19 to 6.0: the fix, mended"),
    ("6.1", "6.1 to 6.11: budget kept over a change of limits; split requests pay I/Os"),
    ("6.12", "6.12 to 6.14: metadata overtakes"),
    ("6.15", "6.15 and later: bytes first, then I/Os"),
];

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let mut lists = Vec::new();
    for what in What::value_variants() {
        if args.what.is_none_or(|wanted| wanted == *what) {
            lists.push((title(*what), entries(*what)));
        }
    }
    if args.format == output::Format::Json {
        let all: serde_json::Map<String, serde_json::Value> = lists
            .into_iter()
            .map(|(title, entries)| {
                let entries = entries.into_iter();
                let entries = entries.map(|(name, about)| json!({ "name": name, "about": about }));
                (title.to_owned(), entries.collect())
            })
            .collect();
        return output::print_json(&all, false);
    }
    let mut text = String::new();
    for (title, entries) in lists {
        if !text.is_empty() {
            text.push('\n');
        }
        text += &format!("{title}:\n");
        let width = entries.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        for (name, about) in entries {
            text += &format!("  {name:width$}  {about}\n");
        }
    }
    output::print(&text)
}

fn title(what: What) -> &'static str {
    match what {
        What::Scenarios => "scenarios",
        What::Disks => "disks",
        What::Kernels => "kernels",
        What::Settings => "settings",
        What::Reproductions => "reproductions",
    }
}

fn entries(what: What) -> Vec<(String, String)> {
    let own = |(name, about): (&str, &str)| (name.to_owned(), about.to_owned());
    match what {
        What::Scenarios => SCENARIOS
            .iter()
            .map(|(name, text)| {
                let read = scenario_file::read(name, text, &BTreeMap::new());
                (name.to_string(), read.map_or_else(|error| error.to_string(), |file| file.about))
            })
            .collect(),
        What::Disks => weir_disk::presets()
            .map(|preset| (preset.name.to_owned(), preset.about.to_owned()))
            .collect(),
        What::Kernels => KERNELS.into_iter().map(own).collect(),
        What::Settings => SETTINGS
            .iter()
            .map(|(name, value, about)| (format!("{name}={value}"), about.to_string()))
            .collect(),
        What::Reproductions => {
            reproduce::ALL.iter().map(|one| own((one.name, one.about))).collect()
        }
    }
}
