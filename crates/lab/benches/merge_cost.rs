//! Instructions that merging costs per request while no flows merge: `cargo bench -p weir-lab --bench merge_cost`.
//!
//! Counted by running this very program under valgrind's callgrind; the load is [`weir_lab::reproduce::merge_cost`]'s.

use std::env;
use std::process::{Command, ExitCode};

use weir_lab::reproduce::merge_cost::{Load, WINDOWS};

/// The option with which this program runs one setting and says how many requests were counted.
const COUNTED_OPTION: &str = "--callgrind-setting";

/// Each instruction takes fifty times as long; the count hardly wavers.
const REQUESTS: u64 = 50_000;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [option, setting] = arguments.as_slice()
        && option == COUNTED_OPTION
    {
        let window =
            WINDOWS.iter().find(|(name, _)| name == setting).expect("one of the settings").1;
        println!("{}", Load::new(window).measured_requests(REQUESTS));
        return ExitCode::SUCCESS;
    }
    // `cargo test` runs this too, to see whether it works; only `cargo bench` passes `--bench`.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return ExitCode::SUCCESS;
    }
    println!("{:<16} {:>12} {:>10}", "merge_window", "instructions", "of closed");
    let mut closed = None;
    for (setting, _) in WINDOWS {
        match count(setting) {
            Ok(instructions) => {
                let closed = *closed.get_or_insert(instructions);
                println!(
                    "{setting:<16} {instructions:>12.1} {:>8.1} %",
                    instructions / closed * 100.0
                );
            }
            Err(reason) => {
                eprintln!("error: {setting}: {reason}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

/// Instructions a request, the few of the loop around it included.
fn count(setting: &str) -> Result<f64, String> {
    let program = env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new("valgrind")
        // Building and running in are run through as well but not counted.
        .args([
            "--tool=callgrind",
            "--collect-atstart=no",
            "--toggle-collect=*Load*measured_requests*",
        ])
        .arg("--callgrind-out-file=/dev/null")
        .arg(program)
        .args([COUNTED_OPTION, setting])
        .output()
        .map_err(|error| format!("valgrind: {error}"))?;
    let (told, heard) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let collected = heard.lines().find_map(|line| line.split_once("Collected :"));
    let instructions = collected.and_then(|(_, number)| number.trim().parse::<u64>().ok());
    match (told.trim().parse::<u64>(), instructions) {
        (Ok(requests), Some(instructions)) if requests > 0 && instructions > 0 => {
            Ok(instructions as f64 / requests as f64)
        }
        _ => Err(format!("under callgrind: {heard}")),
    }
}
