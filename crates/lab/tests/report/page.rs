//! The page: well-formed, complete, and closed to what names in a job file would like to do.

use std::path::Path;

use weir_lab::report::{html, json};
use weir_lab::results::Results;

use crate::sample::{many, nothing, one_request, tenants};

/// The page of some runs, which is left in `target/tmp` for a look at it.
fn page(name: &str, runs: &[(&str, &Results)]) -> String {
    let text = html(runs);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("report-{name}.html"));
    std::fs::write(path, &text).expect("target/tmp can be written");
    text
}

/// What follows the opening tag of an element whose content is not markup.
fn raw_text<'t>(rest: &'t str, tag: &str) -> Option<(&'t str, &'t str)> {
    matches!(tag, "script" | "style").then(|| {
        let end = rest.find(&format!("</{tag}>")).expect("scripts and styles end");
        rest.split_at(end)
    })
}

/// Every element is closed, in order; every `<` begins a tag and every `&` an entity; ids are unique. Returns the text
/// between the tags.
pub(crate) fn well_formed(page: &str) -> String {
    let mut rest = page.strip_prefix("<!doctype html>\n").expect("the page says what it is");
    let (mut open, mut ids, mut text) = (Vec::new(), Vec::new(), String::new());
    while let Some(start) = rest.find('<') {
        text.push_str(&rest[..start]);
        text.push('\n');
        let end = start + rest[start..].find('>').expect("a tag ends");
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        assert!(!tag.contains('<'), "a tag in a tag: {tag}");
        assert_eq!(tag.matches('"').count() % 2, 0, "quotes: {tag}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "before: {rest:.80}");
            continue;
        }
        if let Some((_, id)) = tag.split_once(" id=\"") {
            let id = id.split('"').next().unwrap();
            assert!(!ids.contains(&id), "{id} twice");
            ids.push(id);
        }
        if !tag.ends_with('/') {
            let name = tag.split(' ').next().unwrap();
            open.push(name);
            if let Some((_, after)) = raw_text(rest, name) {
                rest = after;
            }
        }
    }
    assert_eq!(open, [""; 0], "never closed");
    assert_eq!(rest, "\n", "nothing follows the page");
    for (at, _) in text.match_indices('&') {
        let entity = &text[at..text[at..].find(';').map_or(at, |end| at + end + 1)];
        assert!(["&amp;", "&lt;", "&gt;", "&quot;", "&#39;"].contains(&entity), "{entity}");
    }
    text
}

#[test]
fn every_element_is_closed() {
    let (one, two) = (tenants(1, 1), tenants(2, 2));
    for (name, runs) in [
        ("one", &[("one", &one)][..]),
        ("two", &[("before", &one), ("after", &two)]),
        ("three", &[("a", &one), ("b", &two), ("c", &one)]),
        ("nothing", &[("nothing", &nothing())]),
        ("request", &[("request", &one_request())]),
        ("many", &[("many", &many())]),
        ("none", &[]),
    ] {
        well_formed(&page(name, runs));
    }
}

#[test]
fn the_page_has_what_the_table_has() {
    let text = well_formed(&html(&[("one", &tenants(1, 1))]));
    let has = |what: &str| assert!(text.contains(&format!("\n{what}\n")), "{what}");
    // A job: 1,500 reads of 4 KiB in 10 s, its p50, p99 and maximum.
    ["db", "600 KiB/s", "150/s", "8.80 ms", "13.6 ms", "259 ms"].into_iter().for_each(has);
    // A cgroup: its limits, its share of the bytes, what it waited for.
    ["/batch", "max wbps=20MiB; burst wbps=1MiB; slice:K612,hz=250,slice=100ms", "76 %"]
        .into_iter()
        .for_each(has);
    ["limits of /vms/db", "70 %", "riops", "5 %", "24 %"].into_iter().for_each(has);
    // The plots: limits in the legend, the watermark.
    ["19.2 MiB/s, limit 20.0 MiB/s at the end", "busy 94 % of the time, watermark 90 %"]
        .into_iter()
        .for_each(has);
    ["600 KiB/s, limit riops=150, about 4.00 KiB each at the end", "p99.9", "10 s"]
        .into_iter()
        .for_each(has);
    // What changed meanwhile: told, and marked in each plot over time.
    has("3.33 s max=/batch wbps=8M");
    let marks = text.matches("\n1\n").count();
    assert!(marks >= 5, "{marks}");
    has("2 options have no effect in the lab: ioscheduler (line 4), thread (line 9)");
    has("copy failed: no space left on the disk at offset 201326592");
}

#[test]
fn latency_over_time_and_jobs_that_share_a_cgroup_are_drawn() {
    let mut results = tenants(1, 1);
    for cgroup in &mut results.cgroups {
        (0..50).for_each(|ms| cgroup.latency_series.record(ms * 1_000_000, 300_000 + 1000 * ms));
    }
    let shared = results.rows[0].cgroup.clone();
    for row in results.rows.iter_mut().take(2) {
        row.cgroup = shared.clone();
        row.series.read.add(5_000_000, 4096);
        row.series.read_ios.add(5_000_000, 1);
    }
    let page = page("over-time", &[("one", &results)]);
    let text = well_formed(&page);
    for what in [
        "Latency over time",
        "Percentiles of all requests",
        "p99 of each cgroup",
        "How many requests took how long",
        &format!("{} in {shared}", results.rows[0].name),
        &format!("{} in {shared}", results.rows[1].name),
    ] {
        assert!(text.contains(&format!("\n{what}\n")), "{what}");
    }
    assert!(page.contains("class=\"cells\""), "the heat map has cells");
}

#[test]
fn two_runs_have_their_ratios() {
    let text = well_formed(&html(&[("before", &tenants(1, 1)), ("after", &tenants(2, 2))]));
    for what in ["after against before", "2.04x", "8.80 ms \u{2192} 18.0 ms", "Reads, after"] {
        assert!(text.contains(&format!("\n{what}\n")), "{what}");
    }
}

#[test]
fn the_title_names_at_most_four_runs() {
    let results = nothing();
    for (names, title) in [
        (&["a", "b"][..], "a and b"),
        (&["a", "b", "c", "d"], "a, b, c and d"),
        (&["a", "b", "c", "d", "e"], "a, b, c and 2 more"),
    ] {
        let runs: Vec<(&str, &Results)> = names.iter().map(|name| (*name, &results)).collect();
        let page = html(&runs);
        assert!(page.contains(&format!("<h1>{title}</h1>")), "{title}");
    }
}

#[test]
fn the_data_is_the_report() {
    let results = tenants(1, 1);
    let page = html(&[("one", &results)]);
    let (_, rest) = page.split_once("<script type=\"application/json\" id=\"data\">").unwrap();
    let (data, _) = rest.split_once("</script>").unwrap();
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    assert_eq!(data["runs"][0]["name"], "one");
    assert_eq!(data["runs"][0]["cgroups"], json(&results)["cgroups"]);
}

#[test]
fn names_from_files_stay_text() {
    let mut results = tenants(1, 1);
    let evil = "</script><img src=x onerror=alert(1)>\"'&<!--\x1b";
    for text in [&mut results.title, &mut results.disk, &mut results.scheduler] {
        *text = evil.into();
    }
    results.notes = vec![evil.into()];
    results.rows[0].name = evil.into();
    results.rows[0].error = Some(evil.into());
    results.rows[0].cgroup = evil.into();
    results.cgroups[2].path = evil.into();
    results.cgroups[2].limit_waits[0].path = evil.into();
    let page = html(&[(evil, &results), ("b", &tenants(1, 1))]);
    let text = well_formed(&page);
    assert!(
        text.contains("&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;&quot;&#39;&amp;&lt;!--")
    );
    assert!(!page.contains("<img") && !page.contains("<!--"));
    assert_eq!(page.matches("<script").count(), 2);
    assert_eq!(page.matches("</script>").count(), 2);
}

#[test]
fn nothing_is_fetched() {
    let page = html(&[("one", &tenants(1, 1))]);
    for word in ["http:", "https:", "url(", "@import", " src=", "fetch(", "XMLHttp"] {
        assert!(!page.contains(word), "{word}");
    }
}

#[test]
fn the_same_results_give_the_same_page() {
    assert_eq!(html(&[("a", &many())]), html(&[("a", &many())]));
}

/// Every coordinate is from 0 to 1000.
#[test]
fn lines_stay_in_their_frame() {
    let (one, many) = (tenants(1, 1), many());
    let page = html(&[("one", &one), ("many", &many), ("request", &one_request())]);
    let mut paths = 0;
    for (_, rest) in page.match_indices(" d=\"").map(|(at, found)| page.split_at(at + found.len()))
    {
        let path = rest.split('"').next().unwrap();
        for number in path.split(|c: char| !(c.is_ascii_digit() || c == '.' || c == '-')) {
            let Ok(number) = number.parse::<f64>() else { continue };
            assert!((0.0..=1000.0).contains(&number), "{number} in {path}");
        }
        paths += 1;
    }
    assert!(paths > 100, "{paths}");
}
