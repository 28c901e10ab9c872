//! Lines of `io.max`, `io.weight` and `io.bfq.weight` of cgroup v2, also with their file before each, as `grep` prints them.

use weir_engine::Dimension;
use weir_units::clip;

use crate::error::{At, ImportError};
use crate::plan::Plan;
use crate::{Source, amounts, default_cgroup, split_path};

/// Where cgroup v2 is mounted, and where beside v1.
const MOUNTS: [&str; 2] = ["/sys/fs/cgroup/unified/", "/sys/fs/cgroup/"];

/// What io.max says of a device that is limited in nothing.
const MAX: &str = "max";

pub(crate) fn read(text: &str, source: Source<'_>, plan: &mut Plan) -> Result<(), ImportError> {
    let lines = text.lines().enumerate().map(|(index, line)| (At::line(index + 1), line.trim()));
    for (at, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
        let (names, file, line) = with_file(line, source);
        let cgroup = plan.cgroup(&names, at)?;
        match file {
            Some("io.weight" | "io.bfq.weight") => weight(at, line, cgroup, plan)?,
            None if !line.contains('=') => weight(at, line, cgroup, plan)?,
            None | Some("io.max") => limits(at, line, cgroup, plan)?,
            Some(file) => {
                let text = format!("{}: {} is left out: not known here", clip(file), clip(line));
                plan.note_on(cgroup, at, text)?;
            }
        }
    }
    Ok(())
}

/// Names of the cgroup, the file and the line of `…/backup.service/io.max:8:16 rbps=1`.
fn with_file<'l>(line: &'l str, source: Source<'l>) -> (Vec<&'l str>, Option<&'l str>, &'l str) {
    let named = line.split_once(':').and_then(|(path, rest)| {
        let (directory, file) = path.rsplit_once('/').unwrap_or(("", path));
        file.starts_with("io.").then_some((directory, file, rest))
    });
    let Some((directory, file, rest)) = named else {
        return (default_cgroup(source, "tenant"), None, line);
    };
    let below = MOUNTS.iter().find_map(|mount| directory.strip_prefix(mount));
    let names = split_path(below.unwrap_or(directory).trim_start_matches("./"));
    let names = if names.is_empty() { default_cgroup(source, "tenant") } else { names };
    (names, Some(file), rest.trim())
}

/// `MAJ:MIN KEY=VALUE...`.
fn limits(at: At, line: &str, cgroup: usize, plan: &mut Plan) -> Result<(), ImportError> {
    let mut words = line.split_ascii_whitespace();
    let device = device(at, words.next().unwrap_or_default(), plan)?;
    // A device that is named has its export, whatever it is limited in.
    plan.on(cgroup, device, at)?;
    for word in words {
        let known = word.split_once('=').and_then(|(key, value)| {
            let mut own = Dimension::ALL.into_iter().filter(|dimension| !dimension.is_rw());
            Some((own.find(|dimension| dimension.key() == key)?, value))
        });
        let Some((dimension, value)) = known else {
            return Err(at.wrong("io.max", word, "rbps=, wbps=, riops= or wiops= with a value"));
        };
        let value = match value {
            MAX => None,
            // The kernel ignores letters behind a number, and takes more than 64 bits for `max`.
            text => Some(
                amounts::plain(text)
                    .ok_or_else(|| at.wrong(dimension.key(), text, amounts::PLAIN))?,
            ),
        };
        plan.limit(cgroup, device, dimension, value, at)?;
    }
    Ok(())
}

/// `default 100`, `100` or `MAJ:MIN 200`.
fn weight(at: At, line: &str, cgroup: usize, plan: &mut Plan) -> Result<(), ImportError> {
    let words: Vec<&str> = line.split_ascii_whitespace().take(3).collect();
    let (of, weight) = match words.as_slice() {
        [weight] | ["default", weight] => (None, *weight),
        [device, weight] => (Some(*device), *weight),
        _ => return Err(at.wrong("io.weight", line, "`default` or a device, and a weight")),
    };
    let weight =
        amounts::plain(weight).ok_or_else(|| at.wrong("io.weight", weight, amounts::PLAIN))?;
    let device = of.map(|text| device(at, text, plan)).transpose()?;
    plan.weigh(cgroup, device, weight, at)
}

/// The device with the number `MAJ:MIN`, at the path that udev gives each.
fn device(at: At, text: &str, plan: &mut Plan) -> Result<usize, ImportError> {
    let number = |text: &str| amounts::plain(text).and_then(|number| u32::try_from(number).ok());
    let numbers = text.split_once(':').and_then(|(a, b)| Some((number(a)?, number(b)?)));
    let Some((major, minor)) = numbers else {
        return Err(at.wrong("io.max", text, "the number of a device, such as 8:16"));
    };
    plan.device(&format!("/dev/block/{major}:{minor}"), &format!("disk-{major}-{minor}"), at)
}
