//! `weir man`: manual pages of the commands, from what `--help` prints, and of the configuration, from its chapter.

mod chapter;
mod command;

use std::fs;
use std::path::{Path, PathBuf};

use clap::CommandFactory;
use clap_mangen::roff::{Roff, bold, roman};

use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  weir man /usr/local/share/man          then: man weir-serve, man weir.toml";

/// The chapter of the manual that weir.toml(5) is.
const CONFIGURATION: &str = include_str!("../../../../docs/configuration.md");

/// Write the manual pages of all commands and of weir.toml to DIR/man1 and DIR/man5
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, hide = true)]
pub(crate) struct Args {
    /// A directory of manual pages
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    for (name, text) in pages() {
        let section = name.rsplit_once('.').map_or("1", |(_, section)| section);
        let path = args.directory.join(format!("man{section}")).join(&name);
        write(&path, &text).map_err(|error| {
            Failure::failed(format!("cannot write {}: {error}", path.display()))
        })?;
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
    fs::write(path, text)
}

/// All pages, by the names of their files.
fn pages() -> Vec<(String, String)> {
    let mut command = crate::Cli::command().disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    command::pages(&command, &mut pages);
    pages.push(("weir.toml.5".to_owned(), configuration()));
    pages
}

/// weir.toml(5).
fn configuration() -> String {
    let mut page = Roff::new();
    let source = format!("weir {}", env!("CARGO_PKG_VERSION"));
    page.control("TH", ["weir.toml", "5", "", &source, ""]);
    page.control("SH", ["NAME"]);
    page.text([roman("weir.toml - configuration of a server that shares disks among tenants")]);
    page.control("SH", ["DESCRIPTION"]);
    chapter::render(CONFIGURATION, &mut page);
    page.control("SH", ["SEE ALSO"]);
    page.text([
        bold("weir"),
        roman("(1), "),
        bold("weir-serve"),
        roman("(1), "),
        bold("weir-config-check"),
        roman("(1)"),
    ]);
    page.render()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_a_page_with_all_its_flags() {
        fn count(command: &clap::Command) -> usize {
            1 + command
                .get_subcommands()
                .filter(|below| !below.is_hide_set())
                .map(count)
                .sum::<usize>()
        }
        let pages = pages();
        assert_eq!(pages.len(), count(&crate::Cli::command()) + 1);
        let page = |name: &str| &pages.iter().find(|(page, _)| page == name).expect(name).1;
        let serve = page("weir-serve.1");
        for word in [
            "\\-\\-socket\\-mode",
            "\\-\\-log\\-level",
            ".SH EXAMPLES",
            ".SH \"EXIT STATUS\"",
            "weir.toml",
        ] {
            assert!(serve.contains(word), "{word}\n{serve}");
        }
        assert!(page("weir.1").contains("weir\\-lab"));
        assert!(page("weir-lab-run.1").contains("weir lab run"));
    }

    #[test]
    fn the_configuration_has_a_page_with_every_key() {
        let page = configuration();
        let example = include_str!("../../../config/examples/weir.toml");
        let keys =
            example.lines().filter_map(|line| line.trim_start_matches("# ").split_once(" = "));
        let mut count = 0;
        // Settings of bfq have a chapter of their own.
        let of_bfq =
            example.split("[device.disk0.bfq]").nth(1).and_then(|rest| rest.split("\n[").next());
        for (key, _) in keys.filter(|(key, _)| !key.contains(' ')) {
            let is_elsewhere =
                of_bfq.is_some_and(|text| text.contains(key)) || page.contains("device.NAME.price");
            let roff = key.trim_matches('"').replace('-', "\\-");
            assert!(page.contains(&roff) || is_elsewhere, "{key}");
            count += 1;
        }
        assert!(count > 30, "{count} keys");
        for mark in ["](", "| ---", "```", "|---"] {
            assert!(!page.contains(mark), "{mark} is left\n{page}");
        }
    }
}
