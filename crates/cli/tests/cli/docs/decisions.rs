//! The form of decision records: four headings, one page, measurements in an appendix, and a line in the index.

use std::collections::BTreeMap;
use std::fs;

use super::spec::root;

/// Lines of a decision before its appendix.
const MAX_LINES: usize = 60;

const HEADINGS: [&str; 4] = ["## Decision", "## Context", "## Alternatives", "## Consequences"];

/// Errors of the decision `number`.
fn check(number: u32, text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if !text.starts_with(&format!("# {number}. ")) {
        wrong.push(format!("does not begin with `# {number}. TITLE`"));
    }
    let headings: Vec<&str> = text.lines().filter(|line| line.starts_with("## ")).collect();
    let appendices = headings.get(HEADINGS.len()..).unwrap_or_default();
    if headings.get(..HEADINGS.len()) != Some(&HEADINGS)
        || !appendices.iter().all(|h| h.starts_with("## Appendix: "))
    {
        wrong.push(format!(
            "has the headings {headings:?}, not {HEADINGS:?} and then `## Appendix: …`"
        ));
    }
    let lines = text.lines().take_while(|line| !line.starts_with("## Appendix")).count();
    if lines > MAX_LINES {
        wrong.push(format!("has {lines} lines before its appendix, and {MAX_LINES} are a page"));
    }
    wrong
}

#[test]
fn each_decision_is_a_page_with_its_four_headings_and_in_the_index() {
    let folder = root().join("docs/decisions");
    let index = fs::read_to_string(folder.join("index.md")).unwrap();
    let mut decisions = BTreeMap::new();
    for entry in fs::read_dir(&folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if let Some(number) = name.split('-').next().and_then(|number| number.parse::<u32>().ok()) {
            decisions.insert(number, name);
        }
    }
    let mut wrong = Vec::new();
    for (number, name) in &decisions {
        let text = fs::read_to_string(folder.join(name)).unwrap();
        let title = text.lines().next().unwrap_or_default().trim_start_matches("# ");
        let (_, title) = title.split_once(". ").unwrap_or_default();
        if !index.contains(&format!("\n{number}. [{title}]({name})\n")) {
            wrong.push(format!("{name}: index.md has no line `{number}. [{title}]({name})`"));
        }
        wrong.extend(check(*number, &text).into_iter().map(|what| format!("{name}: {what}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(decisions.len() >= 44, "{} decisions", decisions.len());
}

#[test]
fn a_decision_with_wrong_headings_number_or_length_is_reported() {
    let good = format!("# 7. Units\n\n{}\n\n## Appendix: figures\n", HEADINGS.join("\n\n"));
    assert_eq!(check(7, &good), [""; 0]);
    assert_eq!(check(8, &good).len(), 1);
    assert_eq!(check(7, &good.replace("## Context", "## Why")).len(), 1);
    assert_eq!(check(7, &good.replace("## Appendix: figures", "## Figures")).len(), 1);
    assert_eq!(check(7, &good.replace("## Context", &"text\n".repeat(MAX_LINES))).len(), 2);
    let long_appendix = format!("{good}{}", "figures\n".repeat(200));
    assert_eq!(check(7, &long_appendix), [""; 0]);
}
