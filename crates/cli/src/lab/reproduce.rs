//! `weir lab reproduce`.

use weir_lab::reproduce::{ALL, Outcome};

use crate::failure::Failure;
use crate::output;
use crate::table::{Align, Table};

const EXAMPLES: &str = "\
Examples:
  weir lab reproduce
  weir lab reproduce blk-throttle-tail --format json

JSON: a list with an object a result: `name`, `source`, `about`, and `published` and `runs`, lists
of {`setting`, `figures`}; the figures' names carry their units.";

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
    let outcomes = wanted
        .map(|one| one.run().map_err(|error| Failure::failed(format!("{}: {error}", one.name))))
        .collect::<Result<Vec<Outcome>, Failure>>()?;
    if args.format == output::Format::Json {
        return output::print_json(&outcomes, false);
    }
    let pictures: Vec<String> = outcomes.iter().map(picture).collect();
    output::print(&pictures.join("\n"))
}

fn picture(outcome: &Outcome) -> String {
    let names: Vec<&str> = outcome
        .published
        .iter()
        .chain(&outcome.runs)
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
    let align: Vec<Align> =
        [Align::Left].into_iter().chain(names.iter().map(|_| Align::Right)).collect();
    format!(
        "{}: {}\n{}\n\n{}\n",
        outcome.name,
        outcome.about,
        outcome.source,
        table.lines(&align).join("\n")
    )
}

/// `latency_us_p99_9` as `p99.9 ms`.
fn head(name: &str) -> String {
    match name.strip_prefix("latency_us_") {
        Some(figure) => format!("{} ms", figure.replace('_', ".")),
        None => name.replace('_', " "),
    }
}

fn cell(name: &str, value: f64) -> String {
    match name.starts_with("latency_us_") {
        true => format!("{:.3}", value / 1000.0),
        false => format!("{value:.1}"),
    }
}
