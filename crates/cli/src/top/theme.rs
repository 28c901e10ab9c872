//! Styles: colours, or none.

use ratatui::style::{Color, Modifier, Style};

/// Part of the whole from which on something is full, in percent.
const FULL: f64 = 95.0;
/// Part of the whole from which on it is nearly so.
const NEARLY: f64 = 75.0;

/// Styles of a picture. Without colours what matters is bold, and the chosen row reversed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Theme {
    pub(super) coloured: bool,
}

impl Theme {
    pub(super) fn plain(self) -> Style {
        Style::new()
    }

    pub(super) fn bold(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub(super) fn dim(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    pub(super) fn heading(self) -> Style {
        self.coloured(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    pub(super) fn chosen(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    pub(super) fn warning(self) -> Style {
        self.coloured(Color::Yellow)
    }

    pub(super) fn error(self) -> Style {
        self.coloured(Color::Red).add_modifier(Modifier::BOLD)
    }

    /// Of a bar that is so full.
    pub(super) fn bar(self, percent: f64) -> Style {
        match percent {
            percent if percent >= FULL => self.coloured(Color::Red),
            percent if percent >= NEARLY => self.coloured(Color::Yellow),
            _ => self.coloured(Color::Green),
        }
    }

    fn coloured(self, colour: Color) -> Style {
        if self.coloured { Style::new().fg(colour) } else { Style::new() }
    }
}
