//! Terminal output: each frame over the last one, or one after another without a terminal.

use std::io::stdout;
use std::time::Duration;

use crate::failure::Failure;
use crate::output;

/// Where pictures go.
#[derive(Debug)]
pub(super) struct Screen {
    live: bool,
    coloured: bool,
    /// Says nothing at all: the figures alone are wanted, at the end.
    silent: bool,
    /// Lines of the picture that the next one replaces.
    lines: usize,
}

impl Screen {
    pub(super) fn new(silent: bool) -> Screen {
        let live = output::is_screen(&stdout()) && !silent;
        Screen { live, coloured: output::colours_on(&stdout()), silent, lines: 0 }
    }

    /// Time between two pictures: often enough to look alive, or seldom enough to be read in a log.
    pub(super) fn every(&self) -> Duration {
        if self.live { Duration::from_millis(250) } else { Duration::from_secs(5) }
    }

    /// `text` in grey.
    pub(super) fn dim(&self, text: &str) -> String {
        self.styled("2", text)
    }

    /// `text` in bold green.
    pub(super) fn green(&self, text: &str) -> String {
        self.styled("1;32", text)
    }

    fn styled(&self, style: &str, text: &str) -> String {
        if self.coloured { format!("\x1b[{style}m{text}\x1b[0m") } else { text.into() }
    }

    /// Shows a picture in the place of the last one.
    pub(super) fn draw(&mut self, picture: &[String]) -> Result<(), Failure> {
        let mut text = String::new();
        if self.live {
            // No cursor, and no wrapping: a line that is too long would move all below it.
            text.push_str("\x1b[?25l\x1b[?7l");
            if self.lines > 0 {
                text.push_str(&format!("\x1b[{}A\r", self.lines));
            }
            picture.iter().for_each(|line| text.push_str(&format!("{line}\x1b[K\n")));
            text.push_str("\x1b[J\x1b[?7h");
            self.lines = picture.len();
        } else {
            picture.iter().for_each(|line| text.push_str(&format!("{line}\n")));
            text.push('\n');
        }
        self.print(&text)
    }

    /// Keeps the last frame; later output is below it.
    pub(super) fn keep(&mut self) {
        self.lines = 0;
    }

    /// Writes `text` below the last picture.
    pub(super) fn say(&mut self, text: &str) -> Result<(), Failure> {
        self.keep();
        self.print(text)
    }

    fn print(&self, text: &str) -> Result<(), Failure> {
        if self.silent { Ok(()) } else { output::print(text) }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if self.live {
            // There is nothing to tell if the terminal is gone.
            let _ = output::print("\x1b[?25h\x1b[?7h");
        }
    }
}
