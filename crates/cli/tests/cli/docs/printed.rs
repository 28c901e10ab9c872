//! Output of commands in the manual against the commands' output.
//!
//! A `console` block below [`MARK`] is run and compared; with `WEIR_DOCS=write`, as `make docs-figures` sets it, it is
//! written anew instead. What costs no time and needs nothing from outside has to be marked.

use super::page::{self, Block, Page, Shown, words};
use crate::support::Place;

/// The line before a block whose output is checked.
const MARK: &str = "<!-- Printed by the command; `make docs-figures` writes it anew. -->";

/// Commands that are the same on every machine, and soon done.
const CHECKED: [&[&str]; 5] = [
    &["lab", "run"],
    &["lab", "compare"],
    &["lab", "sweep"],
    &["lab", "reproduce"],
    &["disk", "list"],
];

/// Lines of any number and content, in a block.
const ANY: &str = "…";

/// The arguments of a `weir` command, built or installed.
fn arguments(command: &str) -> Option<Vec<String>> {
    let words = words(command);
    let (program, arguments) = words.split_first()?;
    matches!(program.as_str(), "weir" | "target/release/weir").then(|| arguments.to_vec())
}

/// Whether `printed` matches `shown`.
fn is_shown(shown: &[&str], printed: &[&str]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((&ANY, rest)) => (0..=printed.len()).any(|at| is_shown(rest, &printed[at..])),
        Some((line, rest)) => printed.split_first().is_some_and(|(first, printed)| {
            first.trim_end() == line.trim_end() && is_shown(rest, printed)
        }),
    }
}

/// A line without its figures and units.
fn shape(line: &str) -> String {
    let is_figure = |word: &&str| {
        word.contains(|letter: char| letter.is_ascii_digit())
            || matches!(
                word.trim_end_matches(','),
                "KiB/s" | "MiB/s" | "GiB/s" | "B/s" | "s" | "ms" | "us" | "ns" | "-"
            )
    };
    line.split_whitespace().filter(|word| !is_figure(word)).collect::<Vec<_>>().join(" ")
}

/// The lines of `printed` that stand where those of `shown` stood, with [`ANY`] for the same others. None if a part of
/// `shown` is not there any more.
fn shown_anew(shown: &[&str], printed: &[&str]) -> Option<Vec<String>> {
    let shapes: Vec<String> = printed.iter().map(|line| shape(line)).collect();
    let parts: Vec<&[&str]> = shown.split(|line| *line == ANY).collect();
    if let [all] = parts.as_slice() {
        // Where everything is shown, whatever is printed now is right; an empty line at the end is the page's own.
        let empty =
            all.iter().rev().take_while(|line| line.is_empty()).map(|line| (*line).to_owned());
        return Some(printed.iter().map(|line| line.trim_end().to_owned()).chain(empty).collect());
    }
    let (mut at, mut lines) = (0, Vec::new());
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            lines.push(ANY.to_owned());
        }
        let is_last = index + 1 == parts.len();
        let part = match is_last {
            true => {
                &part[..part.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1)]
            }
            false => part,
        };
        let wanted: Vec<String> = part.iter().map(|line| shape(line)).collect();
        let fits = |&from: &usize| shapes.get(from..from + part.len()) == Some(&wanted[..]);
        let from = match (index, is_last) {
            (0, _) => Some(0).filter(fits),
            (_, true) if !part.is_empty() => {
                Some(printed.len().checked_sub(part.len())?).filter(fits)
            }
            _ => (at..=printed.len()).find(fits),
        }?;
        lines
            .extend(printed[from..from + part.len()].iter().map(|line| line.trim_end().to_owned()));
        at = from + part.len();
    }
    Some(lines)
}

/// Current output of the command.
fn run(place: &Place, page: &Page, shown: &Shown<'_>) -> String {
    let arguments =
        arguments(&shown.command).unwrap_or_else(|| panic!("{}: {}", page.name, shown.command));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (status, out, err) = place.run_inside(&arguments);
    assert_eq!(status, 0, "{}: {}: {err}", page.name, shown.command);
    out
}

/// A block with the current output.
fn written_anew(place: &Place, page: &Page, block: &Block<'_>) -> String {
    let mut lines: Vec<String> = Vec::new();
    for shown in block.commands() {
        lines.extend(shown.source.iter().map(|line| (*line).to_owned()));
        let out = run(place, page, &shown);
        let printed: Vec<&str> = out.lines().collect();
        let anew = shown_anew(&shown.output, &printed).unwrap_or_else(|| {
            panic!("{}: $ {}: a part of what is shown is not printed any more; show another by hand:\n{out}", page.name, shown.command)
        });
        lines.extend(anew);
    }
    lines.join("\n") + "\n"
}

fn compare(place: &Place, page: &Page, block: &Block<'_>) {
    for shown in block.commands() {
        let out = run(place, page, &shown);
        let printed: Vec<&str> = out.lines().collect();
        // An empty line before the next command is the page's own.
        let end = shown.output.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
        let printed_end =
            printed.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
        assert!(
            is_shown(&shown.output[..end], &printed[..printed_end]),
            "{} shows another output (`make docs-figures` writes it anew) of\n$ {}\n{out}",
            page.name,
            shown.command
        );
    }
}

#[test]
fn the_manual_shows_what_commands_print_now() {
    let writes = std::env::var_os("WEIR_DOCS").is_some_and(|how| how == "write");
    let mut checked = 0;
    for page in page::all() {
        let place = Place::new("docs-printed");
        for block in page.blocks().iter().filter(|block| !block.file.is_empty()) {
            place.file(block.file, block.text);
        }
        let mut text = page.text.clone();
        // From the last to the first, so that places of earlier ones stay right.
        for block in page.blocks_in("console").collect::<Vec<_>>().iter().rev() {
            if block.line_before != MARK {
                continue;
            }
            checked += block.commands().len();
            match writes {
                true => {
                    let anew = written_anew(&place, &page, block);
                    text.replace_range(block.start..block.start + block.text.len(), &anew);
                }
                false => compare(&place, &page, block),
            }
        }
        if text != page.text {
            std::fs::write(&page.path, text).unwrap();
        }
    }
    assert!(checked >= 13, "{checked} commands");
}

/// An output that is not compared goes stale.
#[test]
fn what_can_be_compared_is_marked() {
    for page in page::all() {
        for block in page.blocks() {
            for shown in block.commands() {
                let Some(arguments) = arguments(&shown.command) else { continue };
                let is_virtual = arguments.iter().any(|word| word == "--virtual-time");
                let is_checked = is_virtual
                    || CHECKED.iter().any(|known| {
                        known.len() <= arguments.len()
                            && known.iter().zip(&arguments).all(|(known, word)| known == word)
                    });
                let shows = shown.output.iter().any(|line| !line.is_empty());
                assert!(
                    !(is_checked && shows)
                        || (block.line_before == MARK && block.language == "console"),
                    "{}: the output of `{}` is compared with nothing; put this line before its block:\n{MARK}",
                    page.name,
                    shown.command
                );
            }
        }
    }
}

#[test]
fn an_ellipsis_matches_any_lines_and_nothing_else_does() {
    assert!(is_shown(&["a", "…", "d"], &["a", "b", "c", "d"]));
    assert!(is_shown(&["…"], &[]) && is_shown(&["a "], &["a"]));
    assert!(!is_shown(&["a", "…", "d"], &["a", "b", "c"]) && !is_shown(&["a"], &["a", "b"]));
}

#[test]
fn figures_are_written_anew_where_they_stood() {
    let printed = ["head", "a  7.5 ms", "b  8.5 ms", "", "Disk busy 91 %, 1.2 MiB/s", "Notes"];
    let anew = |shown: &[&str]| shown_anew(shown, &printed).map(|lines| lines.join("|"));
    assert_eq!(anew(&["head", "…", "b  100 us", ""]).as_deref(), None, "`b` is not the end");
    assert_eq!(anew(&["head", "…", "b  100 us", "…"]).as_deref(), Some("head|…|b  8.5 ms|…"));
    assert_eq!(
        anew(&["…", "Disk busy 3 %, 700 KiB/s", "Notes", ""]).as_deref(),
        Some("…|Disk busy 91 %, 1.2 MiB/s|Notes")
    );
    assert_eq!(
        anew(&["old", ""]).as_deref(),
        Some("head|a  7.5 ms|b  8.5 ms||Disk busy 91 %, 1.2 MiB/s|Notes|")
    );
    assert_eq!(anew(&["…", "c  1 ms", "…"]), None);
}
