//! `weir lab sweep`.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};
use weir_lab::builder::adds_up;
use weir_lab::report;
use weir_lab::results::{Latency, Results, Transfers};
use weir_lab::scenario::Scenario;
use weir_lab::sim;
use weir_units::Nanos;

use super::flags::{self, Settings};
use super::run::{all_succeeded, ended_early};
use crate::failure::Failure;
use crate::output;
use crate::signals::Stop;
use crate::table::{Align, Table};

const EXAMPLES: &str = "\
Examples:
  weir lab sweep job.fio --set fio.iodepth=1,2,4,8,16,32
  weir lab sweep job.fio --set disk=hdd7200,ssd-sata --set max=riops=50,riops=90
  weir lab sweep job.fio --set \"disk={null,latency=10us},{null,latency=1ms}\"
  weir lab sweep noisy-neighbour --set \"limiter=pace,slice:6.12,token,leaky\"

Each combination of the values is a run; runs share the cores. A value with
commas is put in braces. A row sums all jobs up; JSON has every run's whole
report. A command line of fio may stand after `--`, in the place of a job file.";

/// Nothing is shown of what takes no longer.
const QUIET: Duration = Duration::from_secs(2);

/// Most runs of a sweep.
const RUNS_MAX: usize = 100_000;

/// Run every combination of some settings, on all cores
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A fio job file or a scenario
    #[arg(value_name = "JOB|SCENARIO", required_unless_present = "fio")]
    what: Option<String>,
    /// A command line of fio, instead or besides: options, jobs that begin with --name, job files
    #[arg(last = true, value_name = "FIO")]
    fio: Vec<String>,
    /// A setting and its values; may be given several times
    #[arg(long = "set", value_name = "KEY=VALUES", required = true)]
    set: Vec<String>,
    #[command(flatten)]
    settings: Settings,
    /// Runs at a time; as many as there are cores if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// What to print
    #[arg(long, value_enum, default_value_t)]
    format: output::Format,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let stop = Stop::listen()?;
    let axes = args.set.iter().map(|text| axis(text)).collect::<Result<Vec<_>, _>>()?;
    refuse_repeats(&axes)?;
    let count = axes.iter().try_fold(1usize, |all, (_, values)| all.checked_mul(values.len()));
    if count.is_none_or(|count| count > RUNS_MAX) {
        return Err(Failure::wrong(format!("these are more than {RUNS_MAX} runs")));
    }
    let is_trace = flags::tells_a_trace(&axes);
    let builder = flags::open_either(args.what.as_deref(), &args.fio, is_trace)?;
    // All are checked before the first runs.
    let mut runs = Vec::new();
    for point in grid(&axes) {
        let mut builder = builder.clone();
        args.settings.apply(&mut builder, &point)?;
        runs.push((point, flags::scenario(&builder)?));
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = args.jobs.map_or(cores, usize::from).min(runs.len());
    let results = all(&runs, threads, &stop)?;
    match args.format {
        output::Format::Table => {
            let mut lines = picture(&axes, &runs, &results);
            let names: Vec<String> = runs.iter().map(|(point, _)| setting(point)).collect();
            let of_each = names
                .iter()
                .zip(&results)
                .filter_map(|(name, results)| Some((name.as_str(), &results.as_ref()?.notes[..])));
            let notes = report::notes(of_each, output::width());
            if !notes.is_empty() {
                lines.push(String::new());
                lines.extend(notes);
            }
            lines.push(String::new());
            output::print(&lines.join("\n"))?;
        }
        output::Format::Json => {
            let runs = runs.iter().zip(&results).filter_map(|((point, _), results)| {
                let results = results.as_ref()?;
                Some(json!({ "settings": record(point), "report": report::json(results) }))
            });
            output::print_json(&runs.collect::<Vec<Value>>(), false)?;
        }
    }
    ended_early(&stop)?;
    all_succeeded(results.iter().flatten())
}

/// A setting's name and its values.
fn axis(text: &str) -> Result<(String, Vec<String>), Failure> {
    let (key, list) = flags::pair("--set", text)?;
    let mut values = vec![String::new()];
    let mut depth = 0u32;
    for letter in list.chars() {
        match letter {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' if depth == 0 => values.push(String::new()),
            _ => values.last_mut().expect("never empty").push(letter),
        }
    }
    if depth > 0 || values.iter().any(|value| value.trim().is_empty()) {
        let hint = "for example --set depth=1,8,32 or --set \"disk={null,latency=1ms},hdd7200\"";
        return Err(Failure::wrong(format!("--set {text:?}: a value is missing, or a brace"))
            .hint(hint.to_owned()));
    }
    Ok((key, values))
}

/// Where a later value replaces the earlier one, two lists of a setting would give identical runs.
fn refuse_repeats(axes: &[(String, Vec<String>)]) -> Result<(), Failure> {
    for (at, (key, values)) in axes.iter().enumerate() {
        let earlier = axes[..at].iter().find(|(earlier, _)| earlier == key);
        if let Some((_, earlier)) = earlier.filter(|_| !adds_up(key)) {
            let hint = format!("--set {key}={}", [&earlier[..], values].concat().join(","));
            return Err(Failure::wrong(format!("--set {key} is given twice"))
                .hint(format!("all values go in one list: {hint}")));
        }
    }
    Ok(())
}

/// The settings of a run, for people.
fn setting(point: &[(String, String)]) -> String {
    point.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
}

/// The settings of a run, for programs: a list of values where one was given several times.
fn record(point: &[(String, String)]) -> Value {
    let settings = point.iter().map(|(key, value)| {
        let same = point.iter().filter(|(of, _)| of == key).map(|(_, value)| json!(value));
        let same: Vec<Value> = same.collect();
        (key.clone(), if same.len() == 1 { json!(value) } else { Value::Array(same) })
    });
    Value::Object(settings.collect())
}

/// All combinations, the last axis fastest.
fn grid(axes: &[(String, Vec<String>)]) -> Vec<Vec<(String, String)>> {
    axes.iter().fold(vec![Vec::new()], |points, (key, values)| {
        points
            .iter()
            .flat_map(|point| {
                values.iter().map(move |value| {
                    let mut longer = point.clone();
                    longer.push((key.clone(), value.clone()));
                    longer
                })
            })
            .collect()
    })
}

/// Runs all, `threads` at a time; None for runs that a signal prevented.
fn all(
    runs: &[(Vec<(String, String)>, Scenario)],
    threads: usize,
    stop: &Stop,
) -> Result<Vec<Option<Results>>, Failure> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new((0..runs.len()).map(|_| None).collect::<Vec<_>>());
    let bar = ProgressBar::with_draw_target(Some(runs.len() as u64), ProgressDrawTarget::hidden());
    let style = ProgressStyle::with_template("{bar:30} {pos} of {len} runs, {elapsed}");
    bar.set_style(style.expect("a template that is right"));
    let shown = AtomicBool::new(false);
    let look = || {
        if bar.elapsed() > QUIET && !shown.swap(true, Ordering::Relaxed) {
            bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(5));
            bar.tick();
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= runs.len() || stop.signal().is_some() {
                        break;
                    }
                    let results = sim::run(&runs[at].1, &mut |_| {
                        look();
                        match stop.signal() {
                            None => std::ops::ControlFlow::Continue(()),
                            Some(_) => std::ops::ControlFlow::Break(()),
                        }
                    });
                    let mut done = done.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    // Half a run beside whole ones would mislead.
                    if stop.signal().is_none() {
                        done[at] = Some(results);
                    }
                    bar.inc(1);
                    look();
                }
            });
        }
    });
    bar.finish_and_clear();
    let done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    done.into_iter().map(|results| results.transpose().map_err(flags::refused)).collect()
}

fn picture(
    axes: &[(String, Vec<String>)],
    runs: &[(Vec<(String, String)>, Scenario)],
    results: &[Option<Results>],
) -> Vec<String> {
    let figures = ["bandwidth", "IOPS", "mean", "p50", "p99", "p99.9", "max", "disk busy"];
    let head: Vec<&str> = axes.iter().map(|(key, _)| key.as_str()).chain(figures).collect();
    let mut table = Table::new(&head);
    for ((point, _), results) in runs.iter().zip(results) {
        let settings = point.iter().map(|(_, value)| value.clone());
        let Some(results) = results else {
            table.row(settings.chain(["-".to_owned()]));
            continue;
        };
        let mut all = Transfers::default();
        let mut rates = (0.0, 0.0);
        for row in &results.rows {
            for (_, moved) in row.directions() {
                rates = (rates.0 + moved.bytes_per_sec(), rates.1 + moved.iops());
                all.absorb(moved);
            }
        }
        let busy = results.device.utilisation(results.elapsed_ns) * 100.0;
        let cells = [format!("{:.2} MiB/s", rates.0 / 1048576.0), format!("{:.1}", rates.1)]
            .into_iter()
            .chain(times(&all.latency))
            .chain([format!("{busy:.1} %")]);
        table.row(settings.chain(cells));
    }
    let left = axes.iter().map(|_| Align::Left);
    table.lines(&left.chain(figures.iter().map(|_| Align::Right)).collect::<Vec<_>>())
}

fn times(latency: &Latency) -> [String; 5] {
    let [p50, p99, p99_9] = [latency.p50_ns(), latency.p99_ns(), latency.p99_9_ns()];
    [latency.mean_ns() as u64, p50, p99, p99_9, latency.max_ns()].map(short)
}

/// Three digits and a unit.
fn short(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000 => return Nanos(ns).to_string(),
        1_000..1_000_000 => (ns as f64 / 1e3, "us"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    match value {
        ..10.0 => format!("{value:.2} {unit}"),
        ..100.0 => format!("{value:.1} {unit}"),
        _ => format!("{value:.0} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_split_at_commas_outside_braces() {
        let (key, values) = axis("disk={null,latency=1ms},hdd7200").unwrap();
        assert_eq!(
            (key.as_str(), values),
            ("disk", vec!["null,latency=1ms".into(), "hdd7200".into()])
        );
        assert!(axis("depth=1,,2").is_err());
        assert!(axis("disk={null,latency=1ms").is_err());
        assert!(axis("depth").is_err());
    }

    #[test]
    fn what_is_given_twice_is_a_list_or_refused() {
        let axes = [axis("max=riops=1,riops=2").unwrap(), axis("max=wiops=3").unwrap()];
        assert!(refuse_repeats(&axes).is_ok());
        let wanted = json!({ "max": ["riops=2", "wiops=3"], "depth": "8" });
        let depth = axis("depth=8").unwrap();
        assert_eq!(record(&grid(&[&axes[..], &[depth]].concat())[1]), wanted);
        for twice in [["depth=1,2", "depth=3"], ["fio.iodepth=1", "fio.iodepth=2"]] {
            assert!(refuse_repeats(&twice.map(|text| axis(text).unwrap())).is_err());
        }
    }

    #[test]
    fn the_grid_has_every_combination_once() {
        let axes = [axis("a=1,2").unwrap(), axis("b=x,y,z").unwrap()];
        let points = grid(&axes);
        assert_eq!(points.len(), 6);
        let text = |point: &[(String, String)]| {
            point.iter().map(|(key, value)| format!("{key}{value}")).collect::<String>()
        };
        assert_eq!(
            points.iter().map(|point| text(point)).collect::<Vec<_>>()[..4],
            ["a1bx", "a1by", "a1bz", "a2bx"]
        );
    }
}
