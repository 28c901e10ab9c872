//! Chapter of the manual as a page: headings, paragraphs, tables, lists and code, as our chapters use Markdown.
//!
//! A row of a table becomes a tagged paragraph, because a page of 80 columns has no room for three of text.

use clap_mangen::roff::{Inline, Roff, bold, italic, roman};

/// Adds `text` to `page`, but for its title.
pub(super) fn render(text: &str, page: &mut Roff) {
    let mut lines = text.lines().peekable();
    let mut is_behind_heading = true;
    while let Some(line) = lines.next() {
        if let Some(heading) = line.strip_prefix('#') {
            let depth = heading.chars().take_while(|letter| *letter == '#').count();
            let heading = plain(heading.trim_start_matches(['#', ' ']));
            match depth {
                0 => continue,
                1 => page.control("SH", [heading.to_uppercase().as_str()]),
                _ => page.control("SS", [heading.as_str()]),
            };
            is_behind_heading = true;
            continue;
        }
        if line.trim().is_empty() || line.starts_with("<!--") {
            continue;
        }
        if line.starts_with("```") {
            let code: Vec<&str> =
                lines.by_ref().take_while(|line| !line.starts_with("```")).collect();
            page.control("PP", []);
            as_it_is(&code.join("\n"), page);
        } else if line.starts_with('|') {
            let is_row = |line: &&str| line.starts_with('|');
            let mut rows = vec![cells(line)];
            while let Some(line) = lines.next_if(is_row) {
                rows.push(cells(line));
            }
            table(&rows, page);
        } else if let Some(item) = line.strip_prefix("- ") {
            let mut item = item.to_owned();
            while let Some(more) = lines.next_if(|line| line.starts_with("  ")) {
                item = item + " " + more.trim_start();
            }
            page.control("IP", ["\\(bu", "2"]);
            page.text(inlines(&item));
        } else {
            let mut paragraph = line.to_owned();
            let goes_on = |line: &&str| {
                let is_other =
                    ["#", "|", "```", "- ", "<!--"].iter().any(|mark| line.starts_with(mark));
                !line.trim().is_empty() && !is_other
            };
            while let Some(more) = lines.next_if(goes_on) {
                paragraph = paragraph + " " + more;
            }
            if !is_behind_heading {
                page.control("PP", []);
            }
            page.text(inlines(&paragraph));
        }
        is_behind_heading = false;
    }
}

/// Adds a block whose lines and spaces stay as they are.
pub(super) fn as_it_is(block: &str, page: &mut Roff) {
    page.control("RS", ["2"]);
    page.control("nf", []);
    for line in block.lines() {
        page.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
    }
    page.control("fi", []);
    page.control("RE", []);
}

/// The first cell is the term, the last one says what it is, and one between them is the default.
fn table(rows: &[Vec<String>], page: &mut Roff) {
    // Below the head is the line that makes it a table.
    for row in rows.iter().skip(2) {
        let Some((term, rest)) = row.split_first() else { continue };
        page.control("TP", []);
        let mut tag = inlines(term);
        let (says, between) =
            rest.split_last().map_or(("", rest), |(last, between)| (last.as_str(), between));
        for cell in between.iter().filter(|cell| !cell.is_empty()) {
            tag.push(roman("  ("));
            tag.extend(inlines(cell));
            tag.push(roman(")"));
        }
        page.text(tag);
        page.text(if says.is_empty() { vec![roman("see below")] } else { inlines(says) });
    }
}

/// Cells of a row. A bar within code does not divide.
fn cells(line: &str) -> Vec<String> {
    let line = line.trim().trim_start_matches('|');
    let line = line.strip_suffix('|').unwrap_or(line);
    let mut cells = vec![String::new()];
    let mut is_code = false;
    for letter in line.chars() {
        is_code ^= letter == '`';
        match letter {
            '|' if !is_code => cells.push(String::new()),
            _ => cells.last_mut().expect("there is one").push(letter),
        }
    }
    cells.iter().map(|cell| cell.trim().to_owned()).collect()
}

/// Code is bold, emphasis and the words of links italic.
fn inlines(text: &str) -> Vec<Inline> {
    let mut inlines = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['`', '[', '*']) {
        let (before, marked) = rest.split_at(at);
        let found = match marked.as_bytes()[0] {
            b'`' => marked[1..].split_once('`').map(|(code, rest)| (bold(code), rest)),
            b'[' => marked[1..].split_once("](").and_then(|(words, target)| {
                let (_, rest) = target.split_once(')')?;
                (!words.contains(['[', ']'])).then(|| (italic(plain(words)), rest))
            }),
            _ => {
                let marks = marked.len() - marked.trim_start_matches('*').len();
                let found = marked[marks..].split_once(&marked[..marks]);
                found.map(|(words, rest)| (italic(plain(words)), rest))
            }
        };
        inlines.push(roman(before));
        rest = match found {
            Some((inline, rest)) => {
                inlines.push(inline);
                rest
            }
            None => {
                inlines.push(roman(&marked[..1]));
                &marked[1..]
            }
        };
    }
    inlines.push(roman(rest));
    inlines
}

/// Without the marks of code.
fn plain(text: &str) -> String {
    text.replace('`', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chapter_becomes_a_page() {
        let text = "# Title\n\nOne `two`\nthree [four](five.md).\n\n## `[six]`\n\n| key | default | |\n|---|---|---|\n\
                    | `a` | `\"x|y\"` | does *this* |\n\n- an item\n  goes on\n\n```sh\n  code `as` is\n```\n";
        let mut page = Roff::new();
        render(text, &mut page);
        let page = page.render();
        let page = page.split_once(".SH").map_or(page.as_str(), |_| page.as_str());
        for part in [
            "One \\fBtwo\\fR three \\fIfour\\fR.",
            ".SH [SIX]",
            ".TP\n\\fBa\\fR  (\\fB\"x|y\"\\fR)\ndoes \\fIthis\\fR",
            ".IP \\(bu 2\nan item goes on",
            ".nf\ncode `as` is\n.fi",
        ] {
            assert!(page.contains(part), "{part}\n---\n{page}");
        }
        assert!(!page.contains("Title"));
    }
}
