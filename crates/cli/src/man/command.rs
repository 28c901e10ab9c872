//! Page of a command: clap's sections, and those of the text below its `--help`.

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, roman};

/// Pages of `command` and of all below it, by the names of their files.
pub(super) fn pages(command: &Command, pages: &mut Vec<(String, String)>) {
    let man = Man::new(command.clone()).source(format!("weir {}", env!("CARGO_PKG_VERSION")));
    pages.push((man.get_filename(), page(&man, command)));
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        self::pages(below, pages);
    }
}

fn page(man: &Man, command: &Command) -> String {
    let mut page = Vec::new();
    let visible = command.get_subcommands().any(|below| !below.is_hide_set());
    let written = man
        .render_title(&mut page)
        .and_then(|()| man.render_name_section(&mut page))
        .and_then(|()| man.render_synopsis_section(&mut page))
        .and_then(|()| man.render_description_section(&mut page))
        .and_then(|()| man.render_options_section(&mut page))
        .and_then(|()| if visible { man.render_subcommands_section(&mut page) } else { Ok(()) });
    written.expect("memory takes all bytes");
    let mut rest = Roff::new();
    if let Some(text) = command.get_after_help() {
        notes(&text.to_string(), &mut rest);
    }
    rest.control("SH", ["SEE ALSO"]);
    rest.text(see_also(command.get_bin_name().unwrap_or("weir")));
    String::from_utf8_lossy(&page).into_owned() + &rest.render()
}

/// Examples, exit status, and everything else.
fn notes(text: &str, page: &mut Roff) {
    let (mut examples, mut status, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    for block in text.split("\n\n") {
        if let Some(block) = block.strip_prefix("Examples:\n") {
            examples.push(block);
        } else if let Some(block) = block.strip_prefix("Exit status:") {
            status.push(block.trim_start());
        } else {
            notes.push(block);
        }
    }
    for (title, blocks) in [("NOTES", notes), ("EXAMPLES", examples), ("EXIT STATUS", status)] {
        if !blocks.is_empty() {
            page.control("SH", [title]);
        }
        for (number, block) in blocks.into_iter().enumerate() {
            if number > 0 {
                page.control("PP", []);
            }
            // Lines that are indented are laid out.
            if block.lines().any(|line| line.starts_with("  ")) {
                super::chapter::as_it_is(block, page);
            } else {
                page.text([roman(block.lines().collect::<Vec<_>>().join(" "))]);
            }
        }
    }
}

fn see_also(name: &str) -> Vec<Inline> {
    let mut pages = vec![("weir.toml", "(5)")];
    if name != "weir" {
        pages.insert(0, ("weir", "(1)"));
    }
    let mut line = Vec::new();
    for (name, section) in pages {
        if !line.is_empty() {
            line.push(roman(", "));
        }
        line.extend([bold(name), roman(section)]);
    }
    line
}
