//! Programs that run beside a test.

use std::process::{Child, Command};

/// A program that is killed when dropped.
#[derive(Debug)]
pub struct Background(Child);

impl Background {
    /// Starts `command`.
    ///
    /// # Panics
    /// When it cannot be started.
    #[track_caller]
    pub fn start(command: &mut Command) -> Background {
        Background(command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}")))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
