//! `weir lab reproduce`.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use weir_lab::reproduce::{ALL, Outcome, Reproduction, Run};

use crate::failure::Failure;
use crate::output;
use crate::table::{Align, Table};

/// Nothing is shown of what takes no longer.
const QUIET: Duration = Duration::from_secs(2);

const EXAMPLES: &str = "\
Examples:
  weir lab reproduce
  weir lab reproduce stable-merge
  weir lab reproduce blk-throttle-tail --format json

JSON: a list with an object a result: `name`, `source`, `about`, and `published`
and `runs`, lists of {`setting`, `figures`}; the figures' names carry their
units.";

/// Run published results again, beside what was published
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Which; all if none is named
    name: Option<String>,
    /// What to print
    #[arg(long, value_enum, default_value_t)]
    format: output::Format,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let known = || ALL.iter().map(|one| one.name);
    if let Some(name) = &args.name
        && !known().any(|known| known == name)
    {
        let hint = format!("known: {}", known().collect::<Vec<_>>().join(", "));
        return Err(Failure::wrong(format!("there is no reproduction {name:?}")).hint(hint));
    }
    let wanted = ALL.iter().filter(|one| args.name.as_ref().is_none_or(|name| one.name == name));
    let outcomes = wanted.map(outcome).collect::<Result<Vec<Outcome>, Failure>>()?;
    if args.format == output::Format::Json {
        return output::print_json(&outcomes, false);
    }
    let pictures: Vec<String> = outcomes.iter().map(picture).collect();
    output::print(&pictures.join("\n"))
}

/// Runs one, with a bar on the terminal once that has taken a while.
fn outcome(one: &Reproduction) -> Result<Outcome, Failure> {
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::hidden());
    let style = ProgressStyle::with_template("{spinner} {elapsed} {msg}: {pos} of {len} runs");
    bar.set_style(style.expect("a template that is right"));
    bar.set_message(one.name);
    let shown = AtomicBool::new(!std::io::stderr().is_terminal());
    let ran = one.run(&|done, all| {
        if bar.elapsed() > QUIET && !shown.swap(true, Ordering::Relaxed) {
            bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(5));
        }
        bar.set_length(all.into());
        bar.set_position(done.into());
    });
    bar.finish_and_clear();
    ran.map_err(|error| Failure::failed(format!("{}: {error}", one.name)))
}

fn picture(outcome: &Outcome) -> String {
    // Results have all columns, in order; published figures have some.
    let names: Vec<&str> = outcome
        .runs
        .iter()
        .chain(&outcome.published)
        .flat_map(|run| run.figures.iter().map(|(name, _)| *name))
        .fold(Vec::new(), |mut names, name| {
            if !names.contains(&name) {
                names.push(name);
            }
            names
        });
    let heads: Vec<String> = names.iter().map(|name| head(name)).collect();
    let heads = [""].into_iter().chain(heads.iter().map(String::as_str));
    let mut table = Table::new(&heads.collect::<Vec<_>>());
    let published = outcome.published.iter();
    let published = published.map(|run| (format!("published, {}", run.setting), run));
    let runs = outcome.runs.iter().map(|run| (run.setting.clone(), run));
    for (label, run) in published.chain(runs) {
        let cell = |name: &&str| run.figure(name).map_or("-".into(), |value| cell(name, value));
        table.row([label].into_iter().chain(names.iter().map(cell)));
    }
    let Outcome { name, about, source, .. } = outcome;
    let mut text = format!("{name}: {about}\n{source}\n\n{}\n", lines(&table, names.len()));
    if !outcome.beside.is_empty() {
        let figures: Vec<String> = outcome.beside.iter().map(|name| head(name)).collect();
        text += &format!("\n{}, side by side:\n{}\n", figures.join(" and "), beside(outcome));
    }
    text
}

/// A case in a line: published figures, and the result of each variant.
fn beside(outcome: &Outcome) -> String {
    let ways = outcome.ways();
    let heads = ["", "published"].into_iter().chain(ways.iter().copied());
    let mut table = Table::new(&heads.collect::<Vec<_>>());
    for case in &outcome.published {
        let figures = |run: &Run| {
            let figure =
                |name: &&str| run.figure(name).map_or("-".into(), |value| cell(name, value));
            outcome.beside.iter().map(figure).collect::<Vec<String>>().join("  ")
        };
        let of = |way: &&str| outcome.run_of(&case.setting, way).map_or("-".into(), figures);
        let cells = [case.setting.clone(), figures(case)].into_iter().chain(ways.iter().map(of));
        table.row(cells);
    }
    lines(&table, 1 + ways.len())
}

/// A table with names in the first column and numbers in the `others`.
fn lines(table: &Table, others: usize) -> String {
    let align = [Align::Left].into_iter().chain(core::iter::repeat_n(Align::Right, others));
    table.lines(&align.collect::<Vec<_>>()).join("\n")
}

/// `latency_us_p99_9` as `p99.9 ms`, `startup_s_p50` as `p50 s`.
fn head(name: &str) -> String {
    let unit = |before, unit| {
        let figure = name.strip_prefix(before)?;
        Some(format!("{} {unit}", figure.replace('_', ".")))
    };
    let times = [("latency_us_", "ms"), ("startup_s_", "s"), ("duration_s_", "s")];
    let head = times.into_iter().find_map(|(before, after)| unit(before, after));
    head.unwrap_or_else(|| {
        name.replace("_mb_per_sec", " MB/s").replace("_mib_per_sec", " MiB/s").replace('_', " ")
    })
}

fn cell(name: &str, value: f64) -> String {
    match name.starts_with("latency_us_") {
        true => format!("{:.3}", value / 1000.0),
        false if name.contains("_s_") || name.ends_with("_ratio") || name.starts_with("split") => {
            format!("{value:.2}")
        }
        false => format!("{value:.1}"),
    }
}
