//! A terminal of a test's own, in tmux.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::binary::weir;
use crate::run::run;
use crate::{PATIENCE, Place, eventually, peer};

/// A terminal in which `weir` runs; it is ended when dropped.
#[derive(Debug)]
pub struct Screen {
    tmux: PathBuf,
    socket: PathBuf,
}

impl Screen {
    /// Runs `weir ARGUMENTS` in a terminal of this size, with more variables in its environment. When it has ended, the screen
    /// says `ended STATUS`. `None` without tmux, as [`peer`].
    ///
    /// # Panics
    /// When it does not start.
    #[track_caller]
    pub fn new(
        place: &Place,
        (columns, rows): (u16, u16),
        environment: &[(&str, &str)],
        arguments: &[&str],
    ) -> Option<Screen> {
        let tmux = peer("tmux")?.program().to_owned();
        let screen = Screen { tmux, socket: place.socket("tmux.sock") };
        let mut command = quoted(&weir().display().to_string());
        for argument in arguments {
            let _ = write!(command, " {}", quoted(argument));
        }
        // NO_COLOR of the tests' environment would count.
        let mut variables = String::from("env -u NO_COLOR LC_ALL=C.UTF-8");
        for (name, value) in environment {
            let _ = write!(variables, " {name}={}", quoted(value));
        }
        let (columns, rows) = (columns.to_string(), rows.to_string());
        let script = format!("{variables} {command}; echo ended $?; exec cat");
        screen.tmux(&["new-session", "-d", "-x", &columns, "-y", &rows, "sh", "-c", &script]);
        Some(screen)
    }

    /// What is in the picture, with trailing blanks removed.
    ///
    /// # Panics
    /// When tmux fails.
    #[track_caller]
    pub fn text(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// The same with its escape sequences.
    ///
    /// # Panics
    /// When tmux fails.
    #[track_caller]
    pub fn coloured(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-e"])
    }

    /// Waits until `holds` of the picture, and returns that.
    ///
    /// # Panics
    /// When it does not.
    #[track_caller]
    pub fn eventually(&self, what: &str, holds: impl Fn(&str) -> bool) -> String {
        let mut last = String::new();
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            eventually(what, || {
                last = self.text();
                holds(&last)
            });
        }));
        assert!(found.is_ok(), "waited {PATIENCE:?} for {what}:\n{last}");
        last
    }

    /// Waits until the picture has `text`, and returns it.
    ///
    /// # Panics
    /// When it does not.
    #[track_caller]
    pub fn shows(&self, text: &str) -> String {
        self.eventually(&format!("{text:?}"), |picture| picture.contains(text))
    }

    /// Presses keys, as tmux names them: `Down`, `Enter`, `C-w`, `q`.
    ///
    /// # Panics
    /// When tmux fails.
    #[track_caller]
    pub fn press(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// Types a text.
    ///
    /// # Panics
    /// When tmux fails.
    #[track_caller]
    pub fn write(&self, text: &str) {
        self.tmux(&["send-keys", "-l", text]);
    }

    /// Gives the terminal another size.
    ///
    /// # Panics
    /// When tmux fails.
    #[track_caller]
    pub fn resize(&self, columns: u16, rows: u16) {
        let (columns, rows) = (columns.to_string(), rows.to_string());
        self.tmux(&["resize-window", "-x", &columns, "-y", &rows]);
    }

    /// Whether it shows the alternate screen, and whether the cursor is hidden.
    ///
    /// # Panics
    /// When tmux fails.
    #[track_caller]
    pub fn is_taken(&self) -> bool {
        let state = self.tmux(&["display-message", "-p", "#{alternate_on}#{cursor_flag}"]);
        state.trim() != "01"
    }

    /// The process of `weir`.
    ///
    /// # Panics
    /// When it has ended.
    #[track_caller]
    pub fn pid(&self) -> u32 {
        let shell = self.tmux(&["display-message", "-p", "#{pane_pid}"]);
        let shell = shell.trim();
        let children = Path::new("/proc").join(shell).join("task").join(shell).join("children");
        let children = std::fs::read_to_string(children).expect("the shell is there");
        children.trim().parse().expect("it has one child")
    }

    #[track_caller]
    fn tmux(&self, arguments: &[&str]) -> String {
        let ran = run(self.command().args(arguments));
        assert!(ran.status.success(), "tmux {arguments:?}: {ran:?}");
        ran.stdout
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.tmux);
        command.arg("-u").arg("-S").arg(&self.socket).args(["-f", "/dev/null"]);
        command
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // It may have ended with what ran in it.
        let _ = self.command().arg("kill-server").output();
    }
}

/// A word for the shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}
