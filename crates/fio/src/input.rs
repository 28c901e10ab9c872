//! Input of jobs: a command line of fio, job files, and the files that they include.

use std::collections::BTreeMap;

use super::command::CommandLine;
use super::lines::included_paths;
use super::{FILE_BYTES_MAX, INCLUDED_DEPTH_MAX, INCLUDES_MAX};

/// Everything that jobs are read from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Input {
    /// Options and jobs of a command line; they come before those of the files, as in fio.
    pub command: CommandLine,
    /// Job files. As in fio, jobs of one start when those of the file before have ended.
    pub files: Vec<JobText>,
    /// Values of `${VARIABLE}`s in files.
    pub env: BTreeMap<String, String>,
}

impl Input {
    /// One file.
    pub fn of_file(text: JobText, env: BTreeMap<String, String>) -> Input {
        Input { files: vec![text], env, ..Input::default() }
    }

    /// Name of the whole, for messages.
    pub fn name(&self) -> &str {
        self.files.first().map_or("command line", |file| &file.name)
    }
}

/// Text of a job file and of the files that it includes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobText {
    /// The file's name, for messages.
    pub name: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// By path as written after `include`: the file, or why it could not be read.
    pub(super) included: BTreeMap<String, Result<JobText, String>>,
}

/// Reads an included file. Gets the path as written, and the name of the file that includes it; returns its name and
/// bytes, or why it cannot be read.
pub type ReadIncluded<'r> = dyn FnMut(&str, &str) -> Result<(String, Vec<u8>), String> + 'r;

impl JobText {
    /// A text that cannot include others.
    pub fn alone(name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> JobText {
        JobText { name: name.into(), bytes: bytes.into(), included: BTreeMap::new() }
    }

    /// A text with the files that it includes, and those that they include.
    ///
    /// At most [`INCLUDES_MAX`] files are read, [`INCLUDED_DEPTH_MAX`] deep and [`FILE_BYTES_MAX`] long together; a
    /// file that includes itself is not read again. Beyond these bounds the line that includes a file is an error.
    pub fn load(
        name: impl Into<String>,
        bytes: impl Into<Vec<u8>>,
        read: &mut ReadIncluded<'_>,
    ) -> JobText {
        let mut text = JobText::alone(name, bytes);
        let mut left = Left { files: INCLUDES_MAX, bytes: FILE_BYTES_MAX };
        text.load_included(&mut vec![text.name.clone()], &mut left, read);
        text
    }

    fn load_included(
        &mut self,
        chain: &mut Vec<String>,
        left: &mut Left,
        read: &mut ReadIncluded<'_>,
    ) {
        for path in included_paths(&self.bytes) {
            if !self.included.contains_key(path) {
                let found = load_one(path, chain, left, read);
                self.included.insert(path.to_owned(), found);
            }
        }
    }
}

struct Left {
    files: usize,
    bytes: usize,
}

fn load_one(
    path: &str,
    chain: &mut Vec<String>,
    left: &mut Left,
    read: &mut ReadIncluded<'_>,
) -> Result<JobText, String> {
    if chain.len() > INCLUDED_DEPTH_MAX {
        return Err(format!("more than {INCLUDED_DEPTH_MAX} files deep"));
    }
    if left.files == 0 {
        return Err(format!("more than {INCLUDES_MAX} files"));
    }
    left.files -= 1;
    let including = chain.last().expect("the file that is being read");
    let (name, bytes) = read(path, including)?;
    if chain.contains(&name) {
        return Err(format!("{name} includes itself"));
    }
    let too_long = || format!("with it the included files have more than {FILE_BYTES_MAX} bytes");
    left.bytes = left.bytes.checked_sub(bytes.len()).ok_or_else(too_long)?;
    let mut text = JobText::alone(name.clone(), bytes);
    chain.push(name);
    text.load_included(chain, left, read);
    chain.pop();
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loaded(files: &[(&str, &str)]) -> JobText {
        let read = &mut |path: &str, including: &str| {
            let found = files.iter().find(|(name, _)| *name == path);
            let (name, text) =
                found.ok_or_else(|| format!("{path} is not there for {including}"))?;
            Ok(((*name).to_owned(), text.as_bytes().to_vec()))
        };
        JobText::load("top", files[0].1, read)
    }

    #[test]
    fn included_files_are_read_once_for_each_that_includes_them() {
        let text = loaded(&[
            ("", "[a]\ninclude one\ninclude one # again\n include=two\ninclude none\n"),
            ("one", "bs=8k\ninclude two\n"),
            ("two", "rw=read\n"),
        ]);
        let paths: Vec<_> = text.included.keys().map(String::as_str).collect();
        assert_eq!(paths, ["none", "one", "two"]);
        assert_eq!(text.included["none"], Err("none is not there for top".into()));
        let one = text.included["one"].as_ref().unwrap();
        assert_eq!(one.included["two"], Ok(JobText::alone("two", "rw=read\n")));
    }

    #[test]
    fn cycles_depth_and_size_of_includes_are_bounded() {
        let text = loaded(&[
            ("", "[a]\ninclude one\n"),
            ("one", "include two\n"),
            ("two", "include one\n"),
        ]);
        let two = text.included["one"].as_ref().unwrap().included["two"].as_ref().unwrap();
        assert_eq!(two.included["one"], Err("one includes itself".into()));

        let read = &mut |path: &str, _: &str| {
            let deeper = path.parse::<u32>().unwrap() + 1;
            Ok((path.to_owned(), format!("include {deeper}\n").into_bytes()))
        };
        let mut text = &JobText::load("top", "include 1\n", read);
        let mut depth = 0;
        let error = loop {
            match text.included.values().next().unwrap() {
                Ok(deeper) => text = deeper,
                Err(error) => break error,
            }
            depth += 1;
        };
        assert_eq!((depth, error.as_str()), (INCLUDED_DEPTH_MAX, "more than 16 files deep"));

        let long = "#".repeat(FILE_BYTES_MAX / 2 + 1);
        let text = loaded(&[("", "include one\ninclude two\n"), ("one", &long), ("two", &long)]);
        assert!(text.included["one"].is_ok() && text.included["two"].is_err());
        let lines: String =
            (0..=INCLUDES_MAX).map(|number| format!("include {number:04}\n")).collect();
        let read = &mut |path: &str, _: &str| Ok((path.to_owned(), Vec::new()));
        let text = JobText::load("top", lines, read);
        assert_eq!(text.included.values().filter(|found| found.is_err()).count(), 1);
    }
}
