//! Instructions a request, counted by running this very program under valgrind's callgrind.

use std::env;
use std::process::{Command, Stdio};

use crate::cases::Case;
use crate::world::World;

/// The option with which this program runs one case and says how many requests that were.
pub(crate) const CASE_OPTION: &str = "--callgrind-case";

/// Few, because each instruction takes fifty times as long; the count does not waver.
const REQUESTS: u64 = 20_000;

/// Whether valgrind is installed.
pub(crate) fn has_valgrind() -> bool {
    let mut command = Command::new("valgrind");
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Instructions a request of `case`, the few of the loop around it included.
///
/// # Errors
/// Whatever valgrind said, where the count cannot be found in it.
pub(crate) fn count(case: &Case) -> Result<f64, String> {
    let program = env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new("valgrind")
        // Building the tree is run through as well but not counted.
        .args(["--tool=callgrind", "--toggle-collect=*measured_turns*"])
        .arg("--callgrind-out-file=/dev/null")
        .arg(program)
        .args([CASE_OPTION, case.name])
        .output()
        .map_err(|error| error.to_string())?;
    let (told, heard) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let requests = told.trim().parse::<u64>();
    let collected = heard.lines().find_map(|line| line.split_once("Collected :"));
    let instructions = collected.map(|(_, number)| number.trim().parse::<u64>());
    match (requests, instructions) {
        (Ok(requests), Some(Ok(instructions))) if instructions > 0 => {
            Ok(instructions as f64 / requests as f64)
        }
        _ => Err(format!("{} under callgrind: {heard}", case.name)),
    }
}

/// The other side: runs `case` and tells how many requests were in the counted part.
pub(crate) fn run_counted(case: &Case) {
    // What a flow needs to be made is a case of its own.
    let flows = if case.makes_flows { 0 } else { u64::from(case.tree.flows()) };
    let mut world = World::new(case, REQUESTS.max(flows));
    println!("{}", world.measured_turns(REQUESTS));
}
