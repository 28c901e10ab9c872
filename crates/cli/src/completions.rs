//! `weir completions`.

use clap::CommandFactory;

use crate::failure::Failure;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  weir completions bash > ~/.local/share/bash-completion/completions/weir
  weir completions zsh > \"${fpath[1]}/_weir\"
  weir completions fish > ~/.config/fish/completions/weir.fish";

/// Print a completion script for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The shell
    shell: clap_complete::Shell,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::Cli::command(), "weir", &mut script);
    output::print(&String::from_utf8_lossy(&script))
}
