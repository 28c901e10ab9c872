//! Markdown pages of the manual: their blocks of code, and the commands in them.

use std::path::{Path, PathBuf};

/// A page: where it is, and its text.
pub(super) struct Page {
    pub(super) path: PathBuf,
    /// Relative to the repository, for messages.
    pub(super) name: String,
    pub(super) text: String,
}

/// A fenced block of code.
pub(super) struct Block<'t> {
    /// Language of the fence: `console`, `toml`.
    pub(super) language: &'t str,
    /// Text after the language: the name of a file.
    pub(super) file: &'t str,
    pub(super) text: &'t str,
    /// Where `text` begins on the page.
    pub(super) start: usize,
    /// The line that stands before the fence.
    pub(super) line_before: &'t str,
}

/// A command of a block, with its shown output.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shown<'t> {
    pub(super) command: String,
    /// The lines of the command itself, as they stand.
    pub(super) source: Vec<&'t str>,
    pub(super) output: Vec<&'t str>,
}

/// The README and every page of the manual, without the decisions: those are of their time.
pub(super) fn all() -> Vec<Page> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs = std::fs::read_dir(root.join("docs"))
        .expect("the manual")
        .map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> =
        docs.filter(|path| path.extension().is_some_and(|end| end == "md")).collect();
    paths.push(root.join("README.md"));
    paths.sort();
    let page = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        Page { name: path.strip_prefix(&root).unwrap().display().to_string(), text, path }
    };
    paths.into_iter().map(page).collect()
}

impl Page {
    /// Its blocks of code, in order.
    pub(super) fn blocks(&self) -> Vec<Block<'_>> {
        let mut blocks = Vec::new();
        let (mut at, mut before) = (0, "");
        let mut lines = self.text.split_inclusive('\n');
        while let Some(line) = lines.next() {
            at += line.len();
            let Some(named) = line.trim_end().strip_prefix("```") else {
                before = line.trim_end();
                continue;
            };
            let start = at;
            loop {
                let line =
                    lines.next().unwrap_or_else(|| panic!("{}: a block is not closed", self.name));
                let end = at;
                at += line.len();
                if line.trim_end() == "```" {
                    let (language, file) = named.split_once(' ').unwrap_or((named, ""));
                    let text = &self.text[start..end];
                    blocks.push(Block { language, file, text, start, line_before: before });
                    break;
                }
            }
            before = "";
        }
        blocks
    }

    /// The blocks in one language.
    pub(super) fn blocks_in<'t>(&'t self, language: &str) -> impl Iterator<Item = Block<'t>> {
        self.blocks().into_iter().filter(move |block| block.language == language)
    }
}

impl<'t> Block<'t> {
    /// Commands, which begin with `$ `, each with the output below it.
    pub(super) fn commands(&self) -> Vec<Shown<'t>> {
        let mut commands: Vec<Shown<'t>> = Vec::new();
        let mut is_continued = false;
        for line in self.text.lines() {
            let (text, goes_on) = match line.strip_suffix('\\') {
                Some(text) => (text, true),
                None => (line, false),
            };
            match (line.strip_prefix("$ "), commands.last_mut()) {
                (Some(_), _) => {
                    let command = text[2..].to_owned();
                    commands.push(Shown { command, source: vec![line], output: Vec::new() });
                }
                (None, Some(shown)) if is_continued => {
                    shown.command.push_str(text);
                    shown.source.push(line);
                }
                (None, Some(shown)) => shown.output.push(line),
                (None, None) => {}
            }
            is_continued = goes_on && (is_continued || line.starts_with("$ "));
        }
        commands
    }
}

/// Words of a command, between blanks and with double quotes.
pub(super) fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (index, part) in command.split('"').enumerate() {
        match index % 2 {
            0 => words.extend(part.split_whitespace().map(str::to_owned)),
            _ => words.push(part.to_owned()),
        }
    }
    words
}

#[test]
fn blocks_and_their_commands_are_found() {
    let text = "a\nmark\n```console x\n$ weir a \\\n   b\nout\n\n$ weir c\n```\nb\n```sh\nc\n```\n";
    let page = Page { path: PathBuf::new(), name: "page".into(), text: text.into() };
    let blocks = page.blocks();
    let found: Vec<_> =
        blocks.iter().map(|block| (block.language, block.file, block.line_before)).collect();
    assert_eq!(found, [("console", "x", "mark"), ("sh", "", "b")]);
    assert_eq!(&text[blocks[1].start..][..2], "c\n");
    let commands = blocks[0].commands();
    assert_eq!(commands[0].command, "weir a    b");
    assert_eq!(
        (&commands[0].source[..], &commands[0].output[..]),
        (&["$ weir a \\", "   b"][..], &["out", ""][..])
    );
    assert_eq!((commands.len(), commands[1].command.as_str()), (2, "weir c"));
    assert_eq!(
        words("weir lab --max \"/a riops=1\" x"),
        ["weir", "lab", "--max", "/a riops=1", "x"]
    );
}
