//! Table of waits: a row for each cgroup, a column for each cause, cells shaded by share.

use std::collections::BTreeMap;

use weir_engine::Dimension;

use super::markup::Markup;
use super::palette::Palette;
use crate::report::figures::{Cause, Wait, inside_ns, percent_text, quotient, waits};
use crate::results::{CgroupResults, Results};

/// Cgroups whose limits have a column of their own; with more, only own and ancestors' limits are told apart.
const OWNERS_MAX: usize = 10;
const ROWS_MAX: usize = 200;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Column<'r> {
    LimitsOf(&'r str),
    OwnLimits,
    LimitsAbove,
    Others,
    Lifted,
    Window,
    Device,
}

impl Column<'_> {
    fn name(self) -> String {
        match self {
            Column::LimitsOf(path) => format!("limits of {path}"),
            Column::OwnLimits => "own limits".into(),
            Column::LimitsAbove => "limits above or below".into(),
            Column::Others => "others' turns".into(),
            Column::Lifted => "lifted limits".into(),
            Column::Window => "device window".into(),
            Column::Device => "device".into(),
        }
    }
}

/// The matrix of one run; nothing if no request was completed.
pub(super) fn write(markup: &mut Markup, results: &Results, palette: &Palette) {
    let rows: Vec<(&CgroupResults, Vec<Wait<'_>>)> = results
        .cgroups
        .iter()
        .map(|cgroup| (cgroup, waits(cgroup)))
        .filter(|(_, waits)| !waits.is_empty())
        .collect();
    let columns = columns(&rows);
    if rows.is_empty() {
        markup.leaf("p", &[("class", &"note")], "No request was completed.");
        return;
    }
    let region: super::markup::Attributes<'_> = &[
        ("class", &"scroll"),
        ("tabindex", &0),
        ("role", &"region"),
        ("aria-label", &"What each cgroup waited for"),
    ];
    markup.element("div", region, |markup| {
        markup.element("table", &[("class", &"blame")], |markup| {
            head(markup, &columns);
            markup.element("tbody", &[], |markup| {
                for (cgroup, waits) in rows.iter().take(ROWS_MAX) {
                    row(markup, cgroup, waits, &columns, palette);
                }
            });
        });
    });
    if rows.len() > ROWS_MAX {
        let more = format!("{} more cgroups are in the data.", rows.len() - ROWS_MAX);
        markup.leaf("p", &[("class", &"note")], &more);
    }
}

/// The columns, limits in the order of the tree.
fn columns<'r>(rows: &[(&'r CgroupResults, Vec<Wait<'r>>)]) -> Vec<Column<'r>> {
    let causes = || rows.iter().flat_map(|(_, waits)| waits.iter().map(|wait| wait.cause));
    let mut owners: Vec<&str> = Vec::new();
    for (cgroup, _) in rows {
        let limits =
            cgroup.limit_waits.iter().filter(|limit| limit.wait_ns != [0; Dimension::COUNT]);
        for limit in limits.filter(|limit| !limit.path.is_empty()) {
            if owners.len() <= OWNERS_MAX && !owners.contains(&limit.path.as_str()) {
                owners.push(&limit.path);
            }
        }
    }
    let mut columns: Vec<Column<'_>> = match owners.len() {
        0..=OWNERS_MAX => {
            owners.sort_unstable();
            owners.into_iter().map(Column::LimitsOf).collect()
        }
        _ => vec![Column::OwnLimits, Column::LimitsAbove],
    };
    columns.push(Column::Others);
    if causes().any(|cause| cause == Cause::Lifted) {
        columns.push(Column::Lifted);
    }
    columns.extend([Column::Window, Column::Device]);
    columns
}

fn column<'r>(cgroup: &CgroupResults, cause: Cause<'r>, columns: &[Column<'_>]) -> Column<'r> {
    match cause {
        Cause::Limit { path, .. } if columns.contains(&Column::LimitsOf(path)) => {
            Column::LimitsOf(path)
        }
        Cause::Limit { path, .. } if path == cgroup.path => Column::OwnLimits,
        Cause::Limit { .. } => Column::LimitsAbove,
        Cause::Others => Column::Others,
        Cause::Lifted => Column::Lifted,
        Cause::Window => Column::Window,
        Cause::Device => Column::Device,
    }
}

fn head(markup: &mut Markup, columns: &[Column<'_>]) {
    markup.element("thead", &[], |markup| {
        markup.element("tr", &[], |markup| {
            markup.leaf("th", &[("scope", &"col")], "cgroup");
            for column in columns {
                markup.leaf("th", &[("scope", &"col")], &column.name());
            }
        });
    });
}

fn row(
    markup: &mut Markup,
    cgroup: &CgroupResults,
    waits: &[Wait<'_>],
    columns: &[Column<'_>],
    palette: &Palette,
) {
    let whole = inside_ns(waits);
    let mut cells: BTreeMap<Column<'_>, (u64, Vec<&Wait<'_>>)> = BTreeMap::new();
    for wait in waits {
        let cell = cells.entry(column(cgroup, wait.cause, columns)).or_default();
        cell.0 = cell.0.saturating_add(wait.wait_ns);
        cell.1.push(wait);
    }
    markup.element("tr", &[], |markup| {
        let class = palette.colour(&cgroup.path).class();
        markup.element("th", &[("scope", &"row"), ("class", &class)], |markup| {
            markup.leaf("i", &[], "");
            markup.text(&cgroup.path);
        });
        for column in columns {
            match cells.get(column) {
                None => markup.leaf("td", &[("class", &"zero")], "0"),
                Some((wait_ns, waits)) => cell(markup, *wait_ns, waits, whole),
            }
        }
    });
}

/// Share and shade; for limits also the dimension of most of it.
fn cell(markup: &mut Markup, wait_ns: u64, waits: &[&Wait<'_>], whole: u64) {
    let shade = format!("--a:{:.2}", quotient(wait_ns, whole));
    let parts = waits
        .iter()
        .map(|wait| format!("{} {}", wait.cause.words(), percent_text(wait.wait_ns, whole)));
    let title = parts.collect::<Vec<_>>().join(", ");
    markup.element("td", &[("style", &shade), ("title", &title)], |markup| {
        markup.text(&percent_text(wait_ns, whole));
        // Waits come with the longest first.
        if let Some(Cause::Limit { dimension, .. }) = waits.first().map(|wait| wait.cause) {
            markup.leaf("small", &[], dimension.key());
        }
    });
}
