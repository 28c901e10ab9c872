//! Notes on how a trace was read, for reports.

use crate::reader::Reader;

/// Most names of devices in a note.
const NAMED_MAX: usize = 5;

impl<R> Reader<R> {
    /// A sentence for each way in which times and offsets were changed, or devices joined.
    ///
    /// Without bad lines and times that run back; see [`bad_lines`](Reader::bad_lines) and [`reordered`](Reader::reordered).
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.spread() > 0 {
            let requests = counted(self.spread(), "request was", "requests were");
            notes.push(format!(
                "its times are whole seconds; {requests} moved, so that those of each second come evenly over it"
            ));
        }
        if self.completions() > 0 {
            let requests = counted(self.completions(), "request is", "requests are");
            notes.push(format!(
                "{requests} there only as completed, and made at that time: bursts are as the traced disk let them through"
            ));
        }
        let (devices, more) = self.devices();
        if devices.len() > 1 && self.wanted_device().is_none() {
            let more = if more { "more than " } else { "" };
            notes.push(format!(
                "requests of {more}{} devices, volumes or files ({}) are all on the one disk",
                devices.len(),
                named(&devices)
            ));
        }
        if self.passed_over() > 0 {
            let requests = counted(self.passed_over(), "request", "requests");
            notes.push(format!("{requests} of other devices left out"));
        }
        notes
    }

    /// The reason why a trace had no request.
    pub fn without_requests(&self) -> String {
        let lines = counted(self.lines(), "line", "lines");
        let mut reason = format!("no request in {lines} read as {}", self.format());
        let bad = self.bad_lines();
        if let Some((line, _, why)) = bad.first.first() {
            reason += &format!("; {} bad, the first is line {line}: {why}", bad.count);
        }
        if let Some(wanted) = self.wanted_device() {
            let (devices, _) = self.devices();
            reason += &match devices.is_empty() {
                true => format!("; none of device {wanted}"),
                false => format!("; none of device {wanted}, but of {}", named(&devices)),
            };
        }
        reason
    }
}

fn counted(count: u64, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

/// The first few of many names.
fn named(names: &[String]) -> String {
    let first = names.iter().take(NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join("; ");
    if names.len() > NAMED_MAX { first + "; …" } else { first }
}
