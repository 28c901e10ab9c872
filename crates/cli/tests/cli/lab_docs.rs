//! docs/lab.md shows what the commands in it print.

use crate::support::Place;

const PAGE: &str = include_str!("../../../../docs/lab.md");

/// The blocks of code in some language: what follows the language, and what stands between the fences.
fn blocks<'t>(page: &'t str, language: &str) -> Vec<(&'t str, &'t str)> {
    let mut rest = page;
    let mut blocks = Vec::new();
    while let Some(at) = rest.find("```") {
        let (named, after) = rest[at + 3..].split_once('\n').expect("a fence ends its line");
        let end = after.find("\n```").expect("a block is closed");
        let (known, name) = named.split_once(' ').unwrap_or((named, ""));
        if known == language {
            blocks.push((name, &after[..=end]));
        }
        rest = &after[end + 4..];
    }
    blocks
}

/// The commands of a block, each with what is shown of its output.
fn commands(block: &str) -> Vec<(String, Vec<&str>)> {
    let mut commands: Vec<(String, Vec<&str>)> = Vec::new();
    let mut is_continued = false;
    for line in block.lines() {
        let (text, goes_on) = match line.strip_suffix('\\') {
            Some(text) => (text, true),
            None => (line, false),
        };
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(_), _) => commands.push((text[2..].into(), Vec::new())),
            (None, Some((command, _))) if is_continued => command.push_str(text),
            (None, Some((_, shown))) => shown.push(line),
            (None, None) => panic!("output of no command: {line}"),
        }
        is_continued = goes_on && (is_continued || line.starts_with("$ "));
    }
    commands
}

/// The words of a command, as a shell sees them as far as it goes here: blanks and double quotes.
fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (index, part) in command.split('"').enumerate() {
        match index % 2 {
            0 => words.extend(part.split_whitespace().map(str::to_owned)),
            _ => words.push(part.to_owned()),
        }
    }
    words
}

/// Whether `printed` is what is `shown`, where a line of `…` stands for any lines.
fn is_shown(shown: &[&str], printed: &[&str]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((&"…", rest)) => (0..=printed.len()).any(|at| is_shown(rest, &printed[at..])),
        Some((line, rest)) => printed.split_first().is_some_and(|(first, printed)| {
            first.trim_end() == line.trim_end() && is_shown(rest, printed)
        }),
    }
}

#[test]
fn what_is_left_out_may_be_anything_and_the_rest_may_not() {
    assert!(is_shown(&["a", "…", "d"], &["a", "b", "c", "d"]));
    assert!(is_shown(&["…"], &[]) && is_shown(&["a "], &["a"]));
    assert!(!is_shown(&["a", "…", "d"], &["a", "b", "c"]) && !is_shown(&["a"], &["a", "b"]));
    assert_eq!(
        words("weir lab --max \"/a riops=1\" x"),
        ["weir", "lab", "--max", "/a riops=1", "x"]
    );
    let block = "$ weir a \\\n   b\nout\n$ weir c\n";
    assert_eq!(commands(block), [("weir a    b".into(), vec!["out"]), ("weir c".into(), vec![])]);
}

#[test]
fn the_page_of_the_lab_shows_what_is_printed() {
    let place = Place::new("lab-docs");
    for (name, file) in blocks(PAGE, "ini") {
        assert!(!name.is_empty(), "a job file without a name:\n{file}");
        place.file(name, file);
    }
    let mut checked = 0;
    for (command, shown) in
        blocks(PAGE, "console").into_iter().flat_map(|(_, block)| commands(block))
    {
        let words = words(&command);
        assert_eq!(words[0], "weir", "{command}");
        let arguments: Vec<&str> = words[1..].iter().map(String::as_str).collect();
        let (status, out, err) = place.run_inside(&arguments);
        assert_eq!(status, 0, "{command}: {err}");
        let printed: Vec<&str> = out.lines().collect();
        // An empty line before the next command is the page's own.
        let end = shown.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
        assert!(
            is_shown(&shown[..end], &printed),
            "docs/lab.md has another output of\n$ {command}\n{out}"
        );
        checked += 1;
    }
    assert!(checked >= 5, "{checked} commands");
}
