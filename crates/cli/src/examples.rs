//! Commands that help texts and the manual show: the argument parser takes them.

use std::fs;
use std::path::Path;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use crate::Cli;

/// Words of a command as in a shell, up to a comment or a pipe.
pub(crate) fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for letter in line.chars() {
        match (quote, letter) {
            (Some(mark), _) if letter == mark => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(letter),
            (None, '"' | '\'') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, '|' | '>' | '<' | '&' | ';') if word.is_none() => break,
            (None, _) if letter.is_whitespace() => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

/// The parser's refusal of a command; None if it is accepted. A `cut` command, as in a sentence, may lack arguments.
pub(crate) fn refusal(line: &str, is_cut: bool) -> Option<String> {
    let mut words = words(line);
    words[0] = "weir".into();
    let error = Cli::try_parse_from(&words).err()?;
    let is_fine = match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => true,
        ErrorKind::MissingRequiredArgument
        | ErrorKind::MissingSubcommand
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => is_cut,
        _ => false,
    };
    (!is_fine).then(|| error.to_string())
}

/// Every command of `weir`, below the root too, with its name.
fn commands(command: clap::Command, name: &str, all: &mut Vec<(String, clap::Command)>) {
    for below in command.get_subcommands() {
        commands(below.clone(), &format!("{name} {}", below.get_name()), all);
    }
    all.push((name.to_owned(), command));
}

fn all_commands() -> Vec<(String, clap::Command)> {
    let mut all = Vec::new();
    commands(Cli::command(), "weir", &mut all);
    all
}

/// The README and the pages of the manual: name and text.
fn pages() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs = fs::read_dir(root.join("docs")).expect("the manual");
    let docs = docs.map(|entry| entry.expect("a page").path());
    let pages = docs.filter(|path| path.extension().is_some_and(|end| end == "md"));
    let pages = pages.chain([root.join("README.md")]);
    pages
        .map(|path| (path.display().to_string(), fs::read_to_string(&path).expect("text")))
        .collect()
}

/// The blocks of code of a page.
fn blocks(text: &str) -> impl Iterator<Item = &str> {
    text.split("```")
        .skip(1)
        .step_by(2)
        .map(|block| block.split_once('\n').map_or("", |(_, code)| code))
}

/// A `weir` command in a line of a block: plain, behind a prompt, or by its path in `target`.
fn command_of(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = ["$ ", "# "].iter().find_map(|prompt| line.strip_prefix(prompt)).unwrap_or(line);
    ["weir ", "target/release/weir "]
        .iter()
        .any(|program| line.starts_with(program))
        .then_some(line)
}

/// Lines that end in a backslash go on with the next.
fn joined(block: &str) -> String {
    let mut parts = block.split("\\\n");
    let first = parts.next().unwrap_or_default().trim_end().to_owned();
    parts.fold(first, |joined, part| joined + " " + part.trim_start())
}

#[test]
fn the_parser_takes_every_example_of_the_help() {
    let mut count = 0;
    for (name, command) in all_commands() {
        let Some(help) = command.get_after_help() else { continue };
        for line in joined(&help.to_string()).lines().filter_map(|line| line.strip_prefix("  ")) {
            if !line.starts_with("weir ") {
                continue;
            }
            // Two spaces or more separate an example from its description.
            let example = line.split_once("  ").map_or(line, |(example, _)| example);
            assert_eq!(refusal(example, false), None, "{name} --help: {example}");
            count += 1;
        }
    }
    assert!(count >= 60, "{count} examples");
}

#[test]
fn the_parser_takes_every_command_of_the_manual() {
    let mut count = 0;
    for (page, text) in pages() {
        for block in blocks(&text).map(joined) {
            for line in block.lines().filter_map(command_of) {
                // A synopsis has brackets; see below.
                if !line.contains("[-") {
                    assert_eq!(refusal(line, false), None, "{page}: {line}");
                    count += 1;
                }
            }
        }
        // In sentences, between backquotes and not broken by the end of a line.
        let prose: String = text.split("```").step_by(2).collect();
        for code in prose.split('`').skip(1).step_by(2).filter(|code| code.starts_with("weir ")) {
            assert_eq!(refusal(code, true), None, "{page}: `{code}`");
            count += 1;
        }
    }
    assert!(count >= 100, "{count} commands");
}

/// A synopsis in the manual has each flag of its command, and no other.
#[test]
fn a_synopsis_has_all_flags() {
    let mut count = 0;
    for (page, text) in pages() {
        for block in
            blocks(&text).filter(|block| command_of(block).is_some() && block.contains("[-"))
        {
            let words: Vec<&str> = block.split_whitespace().collect();
            let known = all_commands().into_iter().filter(|(name, _)| {
                let name: Vec<&str> = name.split(' ').collect();
                words.starts_with(&name)
            });
            let (name, command) = known.max_by_key(|(name, _)| name.len()).expect("a command");
            let is_letter = |letter: char| letter.is_ascii_lowercase() || letter == '-';
            let flags = block
                .split("--")
                .skip(1)
                .map(|rest| rest.split(|letter| !is_letter(letter)).next().expect("a part"));
            let mut shown: Vec<&str> = flags.collect();
            shown.sort_unstable();
            let mut flags: Vec<&str> =
                command.get_arguments().filter_map(clap::Arg::get_long).collect();
            flags.sort_unstable();
            assert_eq!(shown, flags, "{page}: the synopsis of `{name}`");
            count += 1;
        }
    }
    assert!(count >= 1, "{count} synopses");
}

/// A setting of the lab is a flag of each command that runs something, unless it belongs to a whole family.
#[test]
fn every_setting_of_the_lab_is_a_flag_and_in_the_manual() {
    let page = pages().into_iter().find(|(name, _)| name.ends_with("lab.md")).expect("the page").1;
    let (_, table) = page.split_once("\n## Settings\n").expect("the section");
    let rows =
        table.split("\n#").next().expect("a part").lines().filter(|line| line.starts_with("| `"));
    let cells = rows.map(|row| row.split('|').nth(1).expect("a cell"));
    let mut shown: Vec<&str> = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    // In the text of `bfq`.
    shown.push("bfq.KEY");
    shown.sort_unstable();
    let mut known: Vec<&str> = weir_lab::builder::SETTINGS.iter().map(|(name, ..)| *name).collect();
    known.sort_unstable();
    assert_eq!(shown, known, "docs/lab.md, Settings");
    for (name, command) in all_commands() {
        if ["weir lab run", "weir lab compare", "weir lab sweep"].contains(&name.as_str()) {
            let flags: Vec<&str> =
                command.get_arguments().filter_map(clap::Arg::get_long).collect();
            for setting in known.iter().filter(|setting| !setting.contains('.')) {
                assert!(flags.contains(setting), "{name} --{setting}");
            }
        }
    }
}

#[test]
fn what_the_parser_does_not_know_is_refused() {
    for (line, is_cut) in
        [("weir srve x", true), ("weir lab run x --dsk y", true), ("weir lab run", false)]
    {
        assert!(refusal(line, is_cut).is_some(), "{line}");
    }
    assert_eq!(refusal("weir lab run", true), None);
}

#[test]
fn words_are_those_of_a_shell() {
    assert_eq!(
        words("weir set /a io.max \"riops=1 wiops=2\" # so"),
        ["weir", "set", "/a", "io.max", "riops=1 wiops=2"]
    );
    assert_eq!(words("weir x --to 'nbd://a?b=c' | jq ."), ["weir", "x", "--to", "nbd://a?b=c"]);
    assert_eq!(words("weir x \"\" a|b"), ["weir", "x", "", "a|b"]);
}
