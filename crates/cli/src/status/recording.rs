//! The recording of the server, in one line.

use weir_server::status::RecordingStatus;
use weir_units::Bytes;

/// Where it is, how large, and what is missing in it; `None` while nothing is recorded and nothing is wrong.
pub(super) fn line(recording: &RecordingStatus) -> Option<String> {
    let RecordingStatus { on, directory, files, bytes, bytes_max, dropped, lost, error, .. } =
        recording;
    if !on && error.is_none() {
        return None;
    }
    let (bytes, bytes_max) = (Bytes(*bytes).rounded(), Bytes(*bytes_max).rounded());
    let mut line = format!("recording: {directory}, {files} closed files, {bytes} of {bytes_max}");
    for (count, what) in [(dropped, "entries dropped"), (lost, "entries lost")] {
        if *count > 0 {
            line += &format!(", {count} {what}");
        }
    }
    if !on {
        line += ", off now";
    }
    if let Some(error) = error {
        line += &format!("; a file could not be written: {error}");
    }
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_has_its_place_its_size_and_what_is_missing() {
        let mut status = RecordingStatus {
            on: true,
            directory: "/var/lib/weir/rec".into(),
            files: 12,
            bytes: 3 << 20,
            bytes_max: 10 << 30,
            ..RecordingStatus::default()
        };
        let whole = "recording: /var/lib/weir/rec, 12 closed files, 3.00 MiB of 10.0 GiB";
        assert_eq!(line(&status).as_deref(), Some(whole));
        (status.dropped, status.error) = (7, Some("no space left on device".into()));
        let missing = ", 7 entries dropped; a file could not be written: no space left on device";
        assert_eq!(line(&status), Some(format!("{whole}{missing}")));
        assert_eq!(line(&RecordingStatus::default()), None);
    }
}
