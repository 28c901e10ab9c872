//! Block sizes of an export: `"min=512 preferred=4096 max=32M"`.

use weir_units::nearest;

use crate::model::BlockSize;
use crate::report::Report;
use crate::source::Text;
use crate::value::{cut, size};

/// Largest minimum that NBD allows.
const MIN_MAX: u32 = 65_536;
/// Least preferred size that NBD allows.
const PREFERRED_MIN: u32 = 512;
/// Longest payload that the server takes.
const MAX_MAX: u32 = 32 << 20;
const KEYS: [&str; 3] = ["min", "preferred", "max"];

impl BlockSize {
    /// Reads the words of `text`; what is left out is left to the device.
    pub(crate) fn read(text: &Text, report: &mut Report) -> BlockSize {
        let mut sizes = BlockSize::default();
        for word in text.value.split_whitespace() {
            let word = Text { value: word.into(), span: text.place_of(word), ..text.clone() };
            sizes.read_word(&word, report);
        }
        if let Some((message, hint)) = sizes.contradiction() {
            report.refuse(text, message, Some(hint));
        }
        sizes
    }

    fn read_word(&mut self, word: &Text, report: &mut Report) {
        let Some((key, value)) = word.value.split_once('=') else {
            let hint = "write \"min=512 preferred=4096 max=32M\"; each may be left out";
            report.refuse(word, format!("{:?} is no size", cut(&word.value)), Some(hint.into()));
            return;
        };
        let (place, least, most) = match key {
            "min" => (&mut self.min, 1, MIN_MAX),
            "preferred" => (&mut self.preferred, PREFERRED_MIN, MAX_MAX),
            "max" => (&mut self.max, PREFERRED_MIN, MAX_MAX),
            _ => {
                let hint = match nearest(key, KEYS) {
                    Some(near) => format!("did you mean {near:?}?"),
                    None => "known: min, preferred, max".into(),
                };
                report.refuse(word, format!("there is no block size {:?}", cut(key)), Some(hint));
                return;
            }
        };
        if place.is_some() {
            report.refuse(word, format!("{key} is there twice"), Some("say it once".into()));
            return;
        }
        let value = Text { value: value.into(), span: word.place_of(value), ..word.clone() };
        let Some(bytes) = size(&value, least.into(), most.into(), report) else { return };
        // At most 32 MiB, as looked at just now.
        let bytes = bytes as u32;
        if key != "max" && !bytes.is_power_of_two() {
            let below = bytes.next_power_of_two() / 2;
            let hint = format!("write {below} or {}", bytes.next_power_of_two().min(most));
            report.refuse(&value, format!("{bytes} is no power of two"), Some(hint));
            return;
        }
        *place = Some(bytes);
    }

    /// What does not go together, and what would.
    fn contradiction(&self) -> Option<(String, String)> {
        let least = self.min.unwrap_or(1);
        let preferred = self.preferred.unwrap_or(least.max(PREFERRED_MIN));
        if preferred < least {
            let message = format!("the preferred size {preferred} is below the least, {least}");
            return Some((message, format!("write preferred={least}, or more")));
        }
        let max = self.max.filter(|&max| max < preferred)?;
        let message = format!("the largest payload {max} is below a preferred block, {preferred}");
        Some((message, format!("write max={preferred}, or more")))
    }
}
