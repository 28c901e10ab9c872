//! Command lines of `docker run` and `docker create`, and of Podman.

use weir_engine::Dimension;
use weir_units::clip;

use crate::error::{At, ImportError, ImportErrorKind};
use crate::plan::Plan;
use crate::{Source, amounts, default_cgroup};

/// Flags that limit a device: bytes or operations.
pub(crate) const RATES: [(&str, Dimension); 4] = [
    ("device-read-bps", Dimension::Rbps),
    ("device-write-bps", Dimension::Wbps),
    ("device-read-iops", Dimension::Riops),
    ("device-write-iops", Dimension::Wiops),
];

/// Note on weights: what a container without one has differs.
pub(crate) const WEIGHT: &str =
    "only the ratio to other weights counts: a container without one has 100 in Weir";

pub(crate) fn read(text: &str, source: Source<'_>, plan: &mut Plan) -> Result<(), ImportError> {
    for (at, line) in commands(text) {
        let words = shlex::split(line).ok_or_else(|| at.error(ImportErrorKind::Quotation))?;
        command(at, &words, source, plan)?;
    }
    Ok(())
}

/// Commands with the lines that they begin in. One ends with its line, but for backslashes and quotations.
fn commands(text: &str) -> Vec<(At, &str)> {
    let (mut commands, mut start, mut start_line, mut line) = (Vec::new(), 0, 1, 1);
    let (mut quote, mut is_word, mut is_comment) = (None, false, false);
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        match (quote, c) {
            (_, '\n') if quote.is_none() || is_comment => {
                commands.push((At::line(start_line), &text[start..at]));
                line += 1;
                (start, start_line, is_word, is_comment) = (at + 1, line, false, false);
                continue;
            }
            _ if is_comment => {}
            (None | Some('"'), '\\') => {
                let is_end = characters.next().is_some_and(|(_, c)| c == '\n');
                line += usize::from(is_end);
            }
            (None, '"' | '\'') => quote = Some(c),
            (None, '#') if !is_word => is_comment = true,
            (Some(open), _) if open == c => quote = None,
            (_, '\n') => line += 1,
            _ => {}
        }
        is_word = quote.is_some() || !c.is_whitespace();
    }
    commands.push((At::line(start_line), &text[start..]));
    commands
}

fn command(
    at: At,
    words: &[String],
    source: Source<'_>,
    plan: &mut Plan,
) -> Result<(), ImportError> {
    let mut words = words.iter().map(String::as_str);
    let (mut name, mut settings) = (None, Vec::new());
    while let Some(word) = words.next() {
        // What follows is the container's own.
        if word == "--" {
            break;
        }
        let Some(flag) = word.strip_prefix("--") else { continue };
        let (flag, value) = flag.split_once('=').map_or((flag, None), |(a, b)| (a, Some(b)));
        let is_rate = RATES.iter().any(|(rate, _)| *rate == flag);
        if flag != "name" && !is_rate && !flag.starts_with("blkio-") {
            continue;
        }
        let value = value
            .or_else(|| words.next())
            .ok_or_else(|| at.wrong(&format!("--{flag}"), "", "a flag with a value"))?;
        match flag {
            // The first: a program in the container may have a flag of that name.
            "name" => name = name.or(Some(value)),
            _ => settings.push((flag, value)),
        }
    }
    if settings.is_empty() {
        return Ok(());
    }
    let cgroup = match name {
        Some(name) => plan.cgroup(&[name], at)?,
        None => plan.cgroup(&default_cgroup(source, "container"), at)?,
    };
    settings.into_iter().try_for_each(|(flag, value)| set(at, flag, value, cgroup, plan))
}

fn set(at: At, flag: &str, value: &str, cgroup: usize, plan: &mut Plan) -> Result<(), ImportError> {
    let setting = format!("--{flag}");
    let expected = "the path of a device, a colon and an amount";
    let with_device = || {
        value
            .rsplit_once(':')
            .filter(|(path, _)| path.starts_with('/'))
            .ok_or_else(|| at.wrong(&setting, value, expected))
    };
    if let Some((_, dimension)) = RATES.iter().find(|(name, _)| *name == flag) {
        let (path, amount) = with_device()?;
        let device = plan.device_at(path, at)?;
        let amount = rate(at, &setting, amount, *dimension)?;
        return plan.limit(cgroup, device, *dimension, Some(amount), at);
    }
    match flag {
        "blkio-weight" => {
            let weight = number(at, &setting, value)?;
            // As without the flag.
            if weight == 0 {
                return Ok(());
            }
            plan.note_on(cgroup, at, format!("{setting}: {WEIGHT}"))?;
            plan.weigh(cgroup, None, weight, at)
        }
        "blkio-weight-device" => {
            let (path, weight) = with_device()?;
            let device = plan.device_at(path, at)?;
            let weight = number(at, &setting, weight)?;
            plan.note_on(cgroup, at, format!("{setting}: {WEIGHT}"))?;
            plan.weigh(cgroup, Some(device), weight, at)
        }
        _ => plan.note_on(
            cgroup,
            at,
            format!("{} {} is not known here", clip(&setting), clip(value)),
        ),
    }
}

/// An amount of `dimension`: bytes with Docker's units, operations without.
pub(crate) fn rate(
    at: At,
    setting: &str,
    text: &str,
    dimension: Dimension,
) -> Result<u64, ImportError> {
    match dimension {
        Dimension::Rbps | Dimension::Wbps => {
            amounts::docker(text).ok_or_else(|| at.wrong(setting, text, amounts::DOCKER))
        }
        _ => number(at, setting, text),
    }
}

pub(crate) fn number(at: At, setting: &str, text: &str) -> Result<u64, ImportError> {
    amounts::plain(text).ok_or_else(|| at.wrong(setting, text, amounts::PLAIN))
}
