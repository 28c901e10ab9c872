//! References to the specifications in `docs/spec`: each names its document, and an item that is there.
//!
//! The form is `spec/bfq 2.6`, or a list as in `spec/throttle 1.5, 1.8 and P20`, on one line. CONTRIBUTING.md says what
//! items there are.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Where references are looked for, beside the pages at the root of the repository.
const DIRECTORIES: [&str; 6] = ["bench", "crates", "docs", "fuzz", "scenarios", "tests"];

/// This file, whose tests contain wrong references.
const SELF: &str = "crates/cli/tests/cli/docs/spec.rs";

/// Files in which P1, P2 and so on are processes.
const PROCESSES: [&str; 2] = ["docs/bfq-merging.md", "crates/engine/tests/merge/"];

/// Properties of the throttle specification.
const PROPERTIES: u32 = 24;

/// A document with its items: sections by their headings, everything else by its anchor, in lower case.
struct Spec {
    name: &'static str,
    items: BTreeSet<String>,
}

impl Spec {
    fn new(name: &'static str, text: &str) -> Spec {
        let mut items = BTreeSet::new();
        let mut add = |item: &str| {
            assert!(
                items.insert(item.to_lowercase()),
                "docs/spec/{name}.md: {item} is there twice"
            );
        };
        for line in text.lines() {
            if let Some(heading) = line.strip_prefix("## ").or_else(|| line.strip_prefix("### ")) {
                let number = heading.split(' ').next().expect("a heading").trim_end_matches('.');
                if number.starts_with(|first: char| first.is_ascii_digit()) {
                    add(number);
                }
            }
            for anchor in line.split("<a id=\"").skip(1) {
                add(anchor.split('"').next().expect("an anchor"));
            }
        }
        Spec { name, items }
    }

    fn has(&self, item: &str) -> bool {
        self.items.contains(&item.to_lowercase())
    }
}

pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn specs() -> [Spec; 2] {
    ["bfq", "throttle"].map(|name| {
        let path = root().join("docs/spec").join(name).with_extension("md");
        Spec::new(name, &std::fs::read_to_string(path).expect("a specification"))
    })
}

/// Length of the number at the start of `text`: digits, or `1.12.3` if it may have dots.
fn number_len(text: &str, with_dots: bool) -> usize {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let mut len = digits(text);
    while with_dots && len > 0 && text[len..].starts_with('.') && digits(&text[len + 1..]) > 0 {
        len += 1 + digits(&text[len + 1..]);
    }
    len
}

/// The item at the start of `text`: `2.6`, `D-17`, `EX-7a`, `P20`.
fn item(text: &str) -> Option<&str> {
    let prefix = ["D-", "EX-", "P", ""].into_iter().find(|prefix| text.starts_with(prefix))?;
    let mut len = match number_len(&text[prefix.len()..], prefix.is_empty()) {
        0 => return None,
        len => prefix.len() + len,
    };
    if prefix == "EX-" && text[len..].starts_with(['a', 'b']) {
        len += 1;
    }
    let goes_on = text[len..].starts_with(|next: char| next.is_alphanumeric() || next == '_');
    (!goes_on).then_some(&text[..len])
}

/// The items listed at the start of `text`, and how long the list is.
fn list(text: &str) -> (Vec<&str>, usize) {
    let (mut items, mut len) = (Vec::new(), 0);
    while let Some(found) = item(&text[len..]) {
        items.push(found);
        len += found.len();
        let between = [", ", " and ", " to ", " or "];
        let Some(word) = between
            .into_iter()
            .find(|word| text[len..].strip_prefix(word).is_some_and(|rest| item(rest).is_some()))
        else {
            break;
        };
        len += word.len();
    }
    (items, len)
}

/// Whether a word may begin at `at`.
fn is_start(line: &str, at: usize) -> bool {
    !line[..at].ends_with(|before: char| before.is_alphanumeric() || "_-./".contains(before))
}

/// The part of a line that is prose: a comment in code, everything on a page.
fn prose<'t>(name: &str, line: &'t str) -> Option<&'t str> {
    match Path::new(name).extension()?.to_str()? {
        "md" => Some(line),
        "rs" => line.split_once("//").map(|(_, text)| text.trim_start_matches(['/', '!'])),
        _ => None,
    }
}

/// The references on one line.
#[derive(Default)]
struct Found {
    right: usize,
    wrong: Vec<String>,
    /// The parts of the line that name their document.
    named: Vec<Range<usize>>,
}

impl Found {
    fn resolve(&mut self, spec: &Spec, item: &str) {
        match spec.has(item) {
            true => self.right += 1,
            false => self.wrong.push(format!("docs/spec/{}.md has no {item}", spec.name)),
        }
    }

    /// References of the form `spec/bfq 2.6`.
    fn references(&mut self, line: &str, specs: &[Spec]) {
        for (at, found) in line.match_indices("spec/").filter(|found| is_start(line, found.0)) {
            let rest = &line[at + found.len()..];
            let word = rest.split(|next: char| !next.is_ascii_lowercase()).next().unwrap_or("");
            let rest = &rest[word.len()..];
            let (items, len) = list(rest.strip_prefix(' ').unwrap_or(""));
            match specs.iter().find(|spec| spec.name == word) {
                None if items.is_empty() => {}
                None => self.wrong.push(format!("there is no docs/spec/{word}.md")),
                Some(_) if rest.starts_with(".md") => {}
                Some(_) if items.is_empty() => {
                    self.wrong.push(format!("spec/{word} has no item on this line"));
                }
                Some(spec) => {
                    items.into_iter().for_each(|item| self.resolve(spec, item));
                    self.named.push(at..at + found.len() + word.len() + 1 + len);
                }
            }
        }
    }

    /// Links of the form `[D-17](spec/bfq.md#d-17)`.
    fn links(&mut self, line: &str, specs: &[Spec]) {
        for (at, found) in line.match_indices(".md#") {
            let (before, after) = (&line[..at], &line[at + found.len()..]);
            let anchor = after.split(')').next().unwrap_or("");
            let is_of = |spec: &&Spec| before.ends_with(&format!("spec/{}", spec.name));
            if let Some(spec) = specs.iter().find(is_of) {
                self.resolve(spec, anchor);
                self.named.push(before.rfind('[').unwrap_or(0)..at);
            }
        }
    }

    /// Items after `prefix` that no document is named for, from `start` on.
    fn bare<'t>(&self, line: &'t str, prefix: &str, start: usize) -> Vec<&'t str> {
        let is_named = |at: usize| self.named.iter().any(|named| named.contains(&at));
        line.match_indices(prefix)
            .filter(|&(at, _)| at >= start && is_start(line, at) && !is_named(at))
            .filter_map(|(at, _)| item(&line[at..]))
            .collect()
    }
}

/// Errors of the references in a file, each with its line, and the number of good ones.
fn check(name: &str, text: &str, specs: &[Spec]) -> (Vec<String>, usize) {
    let (mut wrong, mut right) = (Vec::new(), 0);
    let has_processes = PROCESSES.iter().any(|processes| name.starts_with(processes));
    for (index, line) in text.lines().enumerate() {
        let mut found = Found::default();
        found.references(line, specs);
        found.links(line, specs);
        let unnamed = |spec: &str, item: &str| format!("{item} is to be spec/{spec} {item}");
        for item in ["D-", "EX-"].iter().flat_map(|prefix| found.bare(line, prefix, 0)) {
            wrong.push(format!("{name}:{}: {}", index + 1, unnamed("bfq", item)));
        }
        let start = prose(name, line).map_or(line.len(), |text| line.len() - text.len());
        for item in found.bare(line, "P", start) {
            let number = item[1..].parse::<u32>();
            let is_property = number.is_ok_and(|number| (1..=PROPERTIES).contains(&number));
            if is_property && !has_processes {
                wrong.push(format!("{name}:{}: {}", index + 1, unnamed("throttle", item)));
            }
        }
        right += found.right;
        wrong.extend(found.wrong.iter().map(|what| format!("{name}:{}: {what}", index + 1)));
    }
    wrong.extend(unnamed(name, text));
    (wrong, right)
}

/// Mentions of a specification, with an item or as *the* one, without its name.
fn unnamed(name: &str, text: &str) -> Vec<String> {
    let lines = text.lines().enumerate().flat_map(|(index, line)| {
        // Code between two comments ends a sentence.
        prose(name, line).unwrap_or(".").split_whitespace().map(move |word| (index + 1, word))
    });
    let words: Vec<(usize, &str)> = lines.collect();
    let plain = |at: usize| {
        let word = words.get(at).map_or("", |(_, word)| word);
        word.trim_matches(|end: char| !end.is_alphanumeric()).trim_end_matches("'s")
    };
    let mut wrong = Vec::new();
    for (at, &(line, word)) in words.iter().enumerate() {
        let is_link = word.starts_with('[') || word.contains("](");
        if !plain(at).eq_ignore_ascii_case("specification") || is_link {
            continue;
        }
        let before = at.checked_sub(1).map_or("", plain).to_lowercase();
        let next = if plain(at + 1).starts_with("section") { at + 2 } else { at + 1 };
        let is_one = ["the", "this", "bfq", "throttle"].contains(&before.as_str());
        if is_one || item(plain(next)).is_some() {
            wrong.push(format!("{name}:{line}: say which specification, as in spec/bfq 2.6"));
        }
    }
    wrong
}

/// The files below `path` that may have references.
fn files(path: &Path, found: &mut Vec<PathBuf>) {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
    if path.is_dir() {
        if name != "target" && !name.starts_with('.') && !path.ends_with("docs/spec") {
            for entry in std::fs::read_dir(path).expect("a directory") {
                files(&entry.unwrap().path(), found);
            }
        }
    } else if ["rs", "md", "toml", "py"].into_iter().any(|end| name.ends_with(&format!(".{end}"))) {
        found.push(path.to_owned());
    }
}

#[test]
fn references_to_the_specifications_resolve() {
    let (root, specs) = (root(), specs());
    let mut paths = Vec::new();
    for directory in DIRECTORIES {
        files(&root.join(directory), &mut paths);
    }
    for entry in std::fs::read_dir(&root).expect("the repository") {
        let path = entry.unwrap().path();
        if path.is_file() {
            files(&path, &mut paths);
        }
    }
    paths.sort();
    let (mut wrong, mut right) = (Vec::new(), 0);
    for path in paths {
        let name = path.strip_prefix(&root).unwrap().display().to_string();
        if name != SELF {
            let text = std::fs::read_to_string(&path).expect("text");
            let (more, count) = check(&name, &text, &specs);
            wrong.extend(more);
            right += count;
        }
    }
    assert!(wrong.is_empty(), "{} references:\n{}", wrong.len(), wrong.join("\n"));
    assert!(right >= 200, "{right} references");
}

#[test]
fn the_specifications_have_all_their_items() {
    let [bfq, throttle] = specs();
    let items =
        |prefix: &str, count: u32| (1..=count).map(move |n| format!("{prefix}{n}")).collect();
    let of_bfq: [Vec<String>; 3] = [items("D-", 29), items("11.", 25), items("2.", 11)];
    let of_throttle: [Vec<String>; 3] =
        [items("P", PROPERTIES), items("1.12.", 11), items("1.", 14)];
    for (spec, items) in [(bfq, of_bfq), (throttle, of_throttle)] {
        let missing: Vec<_> = items.iter().flatten().filter(|item| !spec.has(item)).collect();
        assert!(missing.is_empty(), "docs/spec/{}.md: {missing:?}", spec.name);
    }
}

#[test]
fn wrong_references_are_found() {
    let text = "## 1. A\n### 1.5 B\n<a id=\"d-17\"></a>D-17\n<a id=\"ex-7a\"></a>";
    let specs = [Spec::new("bfq", text), Spec::new("throttle", "## 1. A\n<a id=\"p2\"></a>")];
    let right = [
        ("a.rs", "// See spec/bfq 1.5, 1 and D-17.", 3),
        ("a.rs", "/// (spec/bfq EX-7a), spec/throttle P2 to 1.", 3),
        ("a.rs", "/// In docs/spec/bfq.md; P50, P99.9, P7x; AD-3.", 0),
        ("a.rs", "let name = \"P7\"; // A code.", 0),
        ("a.rs", "// The NBD URI specification of 2019; a file or specification.", 0),
        ("a.rs", "// A specification\nlet x = 1;\n// 1.5", 0),
        ("docs/a.md", "| [D-17](spec/bfq.md#d-17) | [it](../spec/bfq.md#d-17) |", 2),
        (
            "docs/a.md",
            "[spec/bfq 1.5](spec/bfq.md), written from [the specification](spec/bfq.md)",
            1,
        ),
        ("docs/a.md", "It is in the [specification of all](spec/bfq.md).", 0),
        ("docs/bfq-merging.md", "P1 reads what P2 writes", 0),
    ];
    for (name, text, count) in right {
        assert_eq!(check(name, text, &specs), (Vec::new(), count), "{text}");
    }
    let wrong = [
        ("a.rs", "// See spec/bfq 1.6."),
        ("a.rs", "// See spec/bfq 1.5 and D-18."),
        ("a.rs", "// See spec/throttle D-17."),
        ("a.rs", "// See spec/cfq 1.5."),
        ("a.rs", "// See spec/bfq\n// 1.5."),
        ("a.rs", "// As D-17 says."),
        ("a.rs", "panic!(\"D-17\")"),
        ("a.rs", "// EX-7a: as told."),
        ("a.rs", "/// P2: nothing is lost."),
        ("a.rs", "// So it is (specification 1.5)."),
        ("a.rs", "// So it is (Specification\n    /// 1.5)."),
        ("a.rs", "// So it is (specification, section 1.5)."),
        ("a.rs", "// By the BFQ specification."),
        ("a.rs", "// So it is (specification sections 1.5)."),
        ("a.rs", "// As the specification says."),
        ("a.rs", "// As in the\n// specification's table."),
        ("docs/a.md", "P2 of a kind"),
        ("docs/a.md", "[D-17](spec/bfq.md#d-18)"),
        ("docs/a.md", "[D-17](bfq.md#d-17)"),
    ];
    for (name, text) in wrong {
        let (found, _) = check(name, text, &specs);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        let line = if text.contains("    /// 1.5") || !text.contains("\n// spec") { 1 } else { 2 };
        assert!(found[0].starts_with(&format!("{name}:{line}: ")), "{text}: {found:?}");
    }
}
