//! Page of a calibration: rates by depth, and prices by length as measured and as the model has them.

use serde_json::json;
use weir_calibrate::{Load, Order, Outcome, Step};
use weir_engine::{Direction, Op};
use weir_units::{BytesPerSec, IosPerSec, Nanos};

use super::axis::Axis;
use super::chart::{Chart, Legend, Line};
use super::palette::Colour;
use super::{facts, page, plots};

const RATES: &str = "Each line is a kind of request, with so many of them at the device at once.";
const PRICES: &str = "How long the device is kept by one request. Lines are the model, dots what was measured; random \
                      requests of 64 KiB are a trial that the model was not made from.";

/// Lengths at which the model is drawn, in KiB.
const LENGTHS_KIB: [u32; 9] = [4, 8, 16, 32, 64, 128, 256, 512, 1024];

/// A calibration of the device `name` as one page of HTML, self-contained as [`html`](super::html())'s. The data
/// stands as JSON in `<script type="application/json" id="data">`: `steps` is a list of `load`, `depth`,
/// `requests_per_sec` and `price_ns`.
pub fn calibration(name: &str, outcome: &Outcome) -> String {
    let steps = outcome.steps.iter().map(|step| {
        json!({
            "load": step.load.to_string(),
            "depth": step.load.depth,
            "requests_per_sec": step.per_sec().round(),
            "price_ns": step.price_ns().round(),
        })
    });
    let data = json!({ "target": name, "steps": steps.collect::<Vec<_>>() });
    page(&format!("What {name} does"), &data, |markup| {
        markup.element("header", &[], |markup| {
            markup.leaf("h1", &[], &format!("What {name} does"));
            facts(markup, &figures(outcome));
        });
        markup.element("main", &[], |markup| {
            let (long, short) = (by_depth(outcome, true), by_depth(outcome, false));
            plots(markup, "Rate by depth", RATES, long.into_iter().chain(short).collect(), 1);
            plots(markup, "Price by length", PRICES, prices(outcome).into_iter().collect(), 1);
        });
    })
}

fn figures(outcome: &Outcome) -> Vec<(&'static str, String)> {
    let model = &outcome.model;
    let bytes = |figure: u64| BytesPerSec(figure).rounded().to_string();
    let ios = |figure: u64| IosPerSec(figure).rounded().to_string();
    let mut facts = vec![
        ("reads", bytes(model.reads.bytes_per_sec.get())),
        ("sequential 4 KiB reads", ios(model.reads.sequential_iops.get())),
        ("random 4 KiB reads", ios(model.reads.random_iops.get())),
    ];
    if let Some(writes) = &model.writes {
        facts.extend([
            ("writes", bytes(writes.bytes_per_sec.get())),
            ("sequential 4 KiB writes", ios(writes.sequential_iops.get())),
            ("random 4 KiB writes", ios(writes.random_iops.get())),
        ]);
    }
    facts.push(("latency beyond the price", Nanos(model.latency_ns).rounded().to_string()));
    facts.push(("sequential streams", model.streams.to_string()));
    facts
}

struct Kind<'o> {
    load: Load,
    steps: Vec<&'o Step>,
}

/// Loads with at least two depths, with long or short requests.
fn kinds(outcome: &Outcome, are_long: bool) -> Vec<Kind<'_>> {
    let mut kinds: Vec<Kind<'_>> = Vec::new();
    for step in outcome.steps.iter().filter(|step| (step.load.len >= 1 << 20) == are_long) {
        match kinds.iter_mut().find(|kind| kind.load.is_alike(&step.load)) {
            Some(kind) => kind.steps.push(step),
            None => kinds.push(Kind { load: step.load, steps: vec![step] }),
        }
    }
    kinds.retain(|kind| kind.steps.len() > 1);
    kinds
}

fn by_depth(outcome: &Outcome, are_long: bool) -> Option<Chart> {
    let kinds = kinds(outcome, are_long);
    let all = || kinds.iter().flat_map(|kind| &kind.steps);
    let deepest = all().map(|step| step.load.depth).max()?;
    let value = |step: &Step| if are_long { step.bytes_per_sec() } else { step.per_sec() };
    let largest = all().map(|step| value(step)).fold(0.0, f64::max) as u64;
    let lines = kinds.iter().enumerate().map(|(index, kind)| Line {
        name: kind.load.to_string(),
        colour: Colour::Own(index),
        points: kind.steps.iter().map(|step| (f64::from(step.load.depth), value(step))).collect(),
    });
    let legend: Vec<Legend> = kinds
        .iter()
        .enumerate()
        .map(|(index, kind)| {
            let best = kind.steps.iter().map(|step| value(step)).fold(0.0, f64::max) as u64;
            let more = match are_long {
                true => BytesPerSec(best).rounded().to_string(),
                false => IosPerSec(best).rounded().to_string(),
            };
            Legend { name: kind.load.to_string(), colour: Colour::Own(index), more }
        })
        .collect();
    let description = legend
        .iter()
        .map(|entry| format!("{}: at most {}", entry.name, entry.more))
        .collect::<Vec<_>>();
    Some(Chart {
        id: if are_long { "long" } else { "short" }.into(),
        title: if are_long { "Long requests" } else { "Requests of 4 KiB" }.into(),
        description: format!("Rate by requests at once. {}.", description.join("; ")),
        x: Axis::count(deepest),
        y: if are_long { Axis::rate(largest) } else { Axis::ios(largest) },
        lines: lines.collect(),
        limits: Vec::new(),
        marks: Vec::new(),
        legend,
        is_area: false,
        is_wide: false,
    })
}

/// Kinds of requests that have prices.
const PRICED: [(Direction, bool, &str); 4] = [
    (Direction::Read, true, "sequential reads"),
    (Direction::Read, false, "random reads"),
    (Direction::Write, true, "sequential writes"),
    (Direction::Write, false, "random writes"),
];

fn prices(outcome: &Outcome) -> Option<Chart> {
    let costs = outcome.model.costs();
    let mut lines = Vec::new();
    let mut legend = Vec::new();
    for (index, (direction, is_sequential, name)) in PRICED.into_iter().enumerate() {
        let measured = best_by_length(outcome, direction, is_sequential);
        if measured.is_empty() {
            continue;
        }
        let op = if direction == Direction::Read { Op::Read } else { Op::Write };
        let price =
            |len: u32| (f64::from(len), costs.price(op, len, is_sequential).as_nanos() as f64);
        let colour = Colour::Own(index);
        lines.push(Line {
            name: name.into(),
            colour,
            points: LENGTHS_KIB.map(|kib| price(kib << 10)).into(),
        });
        let dots = measured.iter().map(|step| Line {
            name: format!("measured, {}", step.load),
            colour,
            points: vec![(f64::from(step.load.len), step.price_ns())],
        });
        lines.extend(dots);
        let short = Nanos(price(4096).1 as u64).rounded();
        legend.push(Legend { name: name.into(), colour, more: format!("4 KiB in {short}") });
    }
    let values = || lines.iter().flat_map(|line| &line.points).map(|(_, price)| *price as u64);
    let description =
        legend.iter().map(|entry| format!("{}: {}", entry.name, entry.more)).collect::<Vec<_>>();
    Some(Chart {
        id: "prices".into(),
        title: "Time of the device for a request".into(),
        description: format!("Price by length. {}.", description.join("; ")),
        x: Axis::size(4 << 10, 1 << 20),
        y: Axis::latency(values().min()?, values().max()?),
        lines,
        limits: Vec::new(),
        marks: Vec::new(),
        legend,
        is_area: false,
        is_wide: true,
    })
}

/// By length, the step with the lowest price.
fn best_by_length(outcome: &Outcome, direction: Direction, is_sequential: bool) -> Vec<&Step> {
    let order = if is_sequential { Order::Sequential { streams: 1 } } else { Order::Random };
    let mut best: Vec<&Step> = Vec::new();
    let alike = |step: &&Step| (step.load.direction, step.load.order) == (direction, order);
    for step in outcome.steps.iter().filter(alike) {
        match best.iter_mut().find(|other| other.load.len == step.load.len) {
            Some(other) if step.price_ns() < other.price_ns() => *other = step,
            Some(_) => {}
            None => best.push(step),
        }
    }
    best
}
