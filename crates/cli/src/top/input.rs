//! Line of text that is being typed.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Most characters of a line: longer than any setting.
const LENGTH_MAX: usize = 400;

/// The text, and the place in it, in characters.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Input {
    text: Vec<char>,
    cursor: usize,
}

impl Input {
    /// With the cursor at its end.
    pub(super) fn new(text: &str) -> Input {
        let text: Vec<char> = text.chars().collect();
        let cursor = text.len();
        Input { text, cursor }
    }

    pub(super) fn text(&self) -> String {
        self.text.iter().collect()
    }

    /// Characters before the cursor.
    pub(super) fn cursor(&self) -> usize {
        self.cursor
    }

    /// Takes a key; false if it means nothing to a line.
    pub(super) fn key(&mut self, key: KeyEvent) -> bool {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return self.control(key.code);
        }
        match key.code {
            KeyCode::Char(letter) if !letter.is_control() => {
                if self.text.len() < LENGTH_MAX {
                    self.text.insert(self.cursor, letter);
                    self.cursor += 1;
                }
            }
            KeyCode::Backspace if self.cursor > 0 => {
                self.cursor -= 1;
                self.text.remove(self.cursor);
            }
            KeyCode::Delete if self.cursor < self.text.len() => {
                self.text.remove(self.cursor);
            }
            KeyCode::Backspace | KeyCode::Delete => {}
            KeyCode::Left => self.cursor = self.cursor.saturating_sub(1),
            KeyCode::Right => self.cursor = (self.cursor + 1).min(self.text.len()),
            KeyCode::Home => self.cursor = 0,
            KeyCode::End => self.cursor = self.text.len(),
            _ => return false,
        }
        true
    }

    /// As in a shell: to the ends, and the word or all before the cursor away.
    fn control(&mut self, code: KeyCode) -> bool {
        let from = match code {
            KeyCode::Char('a') => {
                self.cursor = 0;
                return true;
            }
            KeyCode::Char('e') => {
                self.cursor = self.text.len();
                return true;
            }
            KeyCode::Char('u') => 0,
            KeyCode::Char('w') => {
                let before = &self.text[..self.cursor];
                let end = before.iter().rposition(|&letter| letter != ' ').map_or(0, |at| at + 1);
                before[..end].iter().rposition(|&letter| letter == ' ').map_or(0, |at| at + 1)
            }
            _ => return false,
        };
        self.text.drain(from..self.cursor);
        self.cursor = from;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_edited_as_in_a_shell() {
        let mut input = Input::new("io.max riops=500");
        let mut press = |code, control: bool| {
            let modifiers = if control { KeyModifiers::CONTROL } else { KeyModifiers::NONE };
            assert!(input.key(KeyEvent::new(code, modifiers)));
            let (before, after) = input.text.split_at(input.cursor);
            format!("{}|{}", before.iter().collect::<String>(), after.iter().collect::<String>())
        };
        for (code, control, shown) in [
            (KeyCode::Backspace, false, "io.max riops=50|"),
            (KeyCode::Char('é'), false, "io.max riops=50é|"),
            (KeyCode::Left, false, "io.max riops=50|é"),
            (KeyCode::Delete, false, "io.max riops=50|"),
            (KeyCode::Char('w'), true, "io.max |"),
            (KeyCode::Char('w'), true, "|"),
            (KeyCode::Backspace, false, "|"),
            (KeyCode::Char('x'), false, "x|"),
            (KeyCode::Char('a'), true, "|x"),
            (KeyCode::Right, false, "x|"),
            (KeyCode::Right, false, "x|"),
            (KeyCode::Char('u'), true, "|"),
        ] {
            assert_eq!(press(code, control), shown);
        }
        assert!(!input.key(KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE)));
    }

    #[test]
    fn a_line_has_an_end() {
        let mut input = Input::default();
        for _ in 0..2 * LENGTH_MAX {
            input.key(KeyEvent::new(KeyCode::Char('x'), KeyModifiers::NONE));
        }
        assert_eq!(input.text().len(), LENGTH_MAX);
    }
}
