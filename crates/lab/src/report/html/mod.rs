//! Page of HTML on one run, or on several side by side.

mod axis;
mod blame;
mod calibration;
mod chart;
mod heat;
mod latency;
mod latency_over_time;
mod markup;
mod over_time;
mod palette;
mod rates;
mod tables;
mod utilisation;

use serde_json::{Value, json};
use weir_units::Nanos;

pub use self::calibration::calibration;
use self::chart::Chart;
use self::markup::{Markup, script_json};
use self::palette::Palette;
use super::compare::compare;
use crate::results::Results;

use weir_page::{SCRIPT, STYLE};

/// Nothing is loaded from anywhere, whatever a name in a job file says.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
                      img-src data:";

/// Named runs as one page of HTML: bandwidth over time with limits, latency by percentile, utilisation of the disk,
/// causes of waits, and the tables; for several runs also the ratios to the first.
///
/// Self-contained: style, drawings, script and data are in the page, and nothing is fetched. Everything can be read
/// without the script, which adds values under the pointer. The same results give the same bytes. The data stands as
/// JSON in `<script type="application/json" id="data">`: `runs` is a list of `name` and [`report`](super::json()).
/// O(rows + cgroups) for each run; tables list the first 200 rows.
pub fn html(results: &[(&str, &Results)]) -> String {
    let (title, palette) = (title(results), Palette::of(results));
    page(&title, &data(results), |markup| {
        head(markup, results, &title);
        markup.element("main", &[], |markup| body(markup, results, &palette));
    })
}

/// A page with its data, and the script that shows values under the pointer.
fn page(title: &str, data: &Value, body: impl FnOnce(&mut Markup)) -> String {
    let mut markup = Markup::default();
    markup.raw("<!doctype html>\n");
    markup.element("html", &[("lang", &"en")], |markup| {
        markup.element("head", &[], |markup| {
            markup.void("meta", &[("charset", &"utf-8")]);
            let size = "width=device-width, initial-scale=1";
            markup.void("meta", &[("name", &"viewport"), ("content", &size)]);
            markup.void("meta", &[("name", &"color-scheme"), ("content", &"light dark")]);
            let policy = "Content-Security-Policy";
            markup.void("meta", &[("http-equiv", &policy), ("content", &POLICY)]);
            markup.void("link", &[("rel", &"icon"), ("href", &"data:,")]);
            markup.leaf("title", &[], title);
            markup.element("style", &[], |markup| markup.raw(STYLE));
        });
        markup.element("body", &[], |markup| {
            body(markup);
            let attributes: markup::Attributes<'_> =
                &[("type", &"application/json"), ("id", &"data")];
            markup.element("script", attributes, |markup| markup.raw(&script_json(data)));
            markup.element("script", &[], |markup| markup.raw(SCRIPT));
        });
    });
    markup.raw("\n");
    markup.finish()
}

/// Runs that the page's title names; the table below it names all.
const TITLED_MAX: usize = 4;

fn title(results: &[(&str, &Results)]) -> String {
    let names = || results.iter().map(|(name, _)| *name);
    match results {
        [] => "no run".into(),
        [(_, one)] => one.title.clone(),
        [first @ .., (last, _)] if results.len() <= TITLED_MAX => {
            format!("{} and {last}", names().take(first.len()).collect::<Vec<_>>().join(", "))
        }
        many => {
            let named = names().take(TITLED_MAX - 1).collect::<Vec<_>>().join(", ");
            format!("{named} and {} more", many.len() + 1 - TITLED_MAX)
        }
    }
}

fn head(markup: &mut Markup, results: &[(&str, &Results)], title: &str) {
    markup.element("header", &[], |markup| {
        markup.leaf("h1", &[], title);
        match results {
            [(_, one)] => {
                markup.element("p", &[("class", &"setting")], |markup| {
                    markup.breakable(&tables::setting(one));
                });
                facts(markup, &tables::facts(one));
            }
            several => tables::runs(markup, several),
        }
    });
}

fn facts(markup: &mut Markup, facts: &[(&str, String)]) {
    markup.element("dl", &[], |markup| {
        for (name, value) in facts {
            markup.element("div", &[], |markup| {
                markup.leaf("dt", &[], name);
                markup.leaf("dd", &[], value);
            });
        }
    });
}

fn body(markup: &mut Markup, results: &[(&str, &Results)], palette: &Palette) {
    if let [first, others @ ..] = results {
        for other in others {
            section(markup, &format!("{} against {}", other.0, first.0), RATIOS, |markup| {
                tables::ratios(markup, &compare(*first, *other), palette);
            });
        }
    }
    let over_time = |of| rates::charts(of, results, palette);
    plots(markup, "Bandwidth", BANDWIDTH, over_time(rates::Of::Bytes), results.len());
    plots(markup, "IOPS", IOPS, over_time(rates::Of::Requests), results.len());
    plots(markup, "Latency", LATENCY, latency::charts(results, palette), results.len());
    let (over_time, heat_maps) = latency_over_time::charts(results, palette);
    if !over_time.is_empty() {
        section(markup, "Latency over time", OVER_TIME, |markup| {
            markup.element("div", &[("class", &"charts")], |markup| {
                over_time.iter().for_each(|chart| chart.write(markup));
                heat_maps.iter().for_each(|map| map.write(markup));
            });
        });
    }
    let busy = utilisation::chart(results).into_iter().collect();
    plots(markup, "Utilisation", UTILISATION, busy, 1);
    for (name, one) in results {
        let of_run = |title: &str| match results.len() {
            1 => title.to_owned(),
            _ => format!("{title}: {name}"),
        };
        section(markup, &of_run("What requests waited for"), BLAME, |markup| {
            blame::write(markup, one, palette);
        });
        if !one.rows.is_empty() {
            section(markup, &of_run("Jobs"), JOBS, |markup| tables::jobs(markup, one, palette));
        }
        section(markup, &of_run("Cgroups"), CGROUPS, |markup| {
            tables::cgroups(markup, one, palette);
        });
        if !one.changes.is_empty() {
            section(markup, &of_run("Changed while it ran"), CHANGES, |markup| {
                markup.element("ol", &[], |markup| {
                    for change in &one.changes {
                        let at = Nanos(change.at_ns).rounded();
                        markup.leaf("li", &[], &format!("{at} {}", change.setting));
                    }
                });
            });
        }
        if !one.notes.is_empty() {
            section(markup, &of_run("Notes"), "", |markup| {
                markup.element("ul", &[], |markup| {
                    one.notes.iter().for_each(|note| markup.leaf("li", &[], note));
                });
            });
        }
    }
}

const RATIOS: &str = "Ratios: above 1x is more. Blue is better, orange is worse, by more than 2 %.";
const BANDWIDTH: &str =
    "Dashed lines are limits, dotted ones limits on requests times the mean size of a request.";
const IOPS: &str =
    "Dashed lines are limits, dotted ones limits on bytes by the mean size of a request.";
const LATENCY: &str = "How long a request took at most, for how many of them: at p99, 99 of 100.";
const OVER_TIME: &str = "In the engine, requests by the time of their end. The darker a place, the more of the requests of that time took so long.";
const UTILISATION: &str =
    "Share of the time with a request at the disk. A dashed line is the watermark.";
const BLAME: &str = "Each row is the time that a cgroup's requests were inside, cut by what they waited for. Rows \
                     include the cgroups below.";
const JOBS: &str = "As the processes see it, from issue to completion.";
const CHANGES: &str = "Dotted lines with these numbers in the plots over time. What is said of limits is what they were at the end.";
const CGROUPS: &str =
    "In the engine, including the cgroups below. Held: requests that had to wait for a limit.";

fn section(markup: &mut Markup, title: &str, about: &str, inside: impl FnOnce(&mut Markup)) {
    markup.element("section", &[], |markup| {
        markup.leaf("h2", &[], title);
        if !about.is_empty() {
            markup.leaf("p", &[("class", &"note")], about);
        }
        inside(markup);
    });
}

/// A section of charts, in as many columns as there are runs, or two.
fn plots(markup: &mut Markup, title: &str, about: &str, charts: Vec<Chart>, runs: usize) {
    if charts.is_empty() {
        return;
    }
    section(markup, title, about, |markup| {
        let class = match charts.len() {
            1 => "charts one",
            _ if runs > 2 => "charts many",
            _ => "charts",
        };
        markup.element("div", &[("class", &class)], |markup| {
            charts.iter().for_each(|chart| chart.write(markup));
        });
    });
}

fn data(results: &[(&str, &Results)]) -> Value {
    let runs = results.iter().map(|(name, one)| {
        let mut value = super::json(one);
        value["name"] = (*name).into();
        value
    });
    json!({ "runs": runs.collect::<Vec<_>>() })
}
