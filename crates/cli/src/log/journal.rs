//! Entries of systemd's journal, in its native protocol.
//!
//! `MESSAGE` has the whole line, as text would, because that is all that `journalctl` shows; each field of the line is a field
//! of the entry too, so `journalctl WEIR_DEVICE=disk0` finds it. (tracing-journald gives `MESSAGE` the words alone.)

use std::fmt::{Debug, Write};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{DefaultFields, Writer};
use tracing_subscriber::layer::{Context, Layer};

/// Where the journal listens.
pub(super) const SOCKET: &str = "/run/systemd/journal/socket";

/// Longest message where an entry is too long for a datagram, in bytes.
const CUT: usize = 16 << 10;

/// Whether standard error leads to the journal: systemd names the stream's device and inode in `JOURNAL_STREAM`. A redirection
/// of it, or a terminal, is another file.
pub(super) fn is_standard_error() -> bool {
    let Some(stream) = std::env::var_os("JOURNAL_STREAM") else { return false };
    let Ok(found) = std::fs::metadata("/proc/self/fd/2") else { return false };
    stream.to_str() == Some(&format!("{}:{}", found.dev(), found.ino()))
        && Path::new(SOCKET).exists()
}

/// Writer of entries. Never waits: what the journal has no room for is counted, and the next entry tells how many.
#[derive(Debug)]
pub(super) struct Journal {
    socket: UnixDatagram,
    lost: AtomicU64,
}

impl Journal {
    /// # Errors
    /// There is no journal, or it may not be written to.
    pub(super) fn connect() -> io::Result<Journal> {
        Journal::at(Path::new(SOCKET))
    }

    fn at(path: &Path) -> io::Result<Journal> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(path)?;
        socket.set_nonblocking(true)?;
        Ok(Journal { socket, lost: AtomicU64::new(0) })
    }

    /// Sends an entry; a second time, over a new connection, where the journal has been started anew meanwhile.
    fn send(&self, entry: &[u8]) -> io::Result<usize> {
        match self.socket.send(entry) {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::ConnectionRefused | io::ErrorKind::NotConnected
                ) =>
            {
                self.socket.connect(SOCKET)?;
                self.socket.send(entry)
            }
            sent => sent,
        }
    }
}

impl<S: Subscriber> Layer<S> for Journal {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut message = String::new();
        // A field that cannot be formatted is left out.
        let _ = DefaultFields::new().format_fields(Writer::new(&mut message), event);
        let lost = self.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let _ = write!(message, " log_lines_lost={lost}");
        }
        let mut entry = Entry::new(event.metadata().level());
        entry.put("MESSAGE", &message);
        let head = entry.0.len();
        event.record(&mut entry);
        let sent = self.send(&entry.0).or_else(|error| {
            // EMSGSIZE: the message alone, cut.
            if head <= CUT && entry.0.len() == head {
                return Err(error);
            }
            let end =
                (0..=CUT).rev().find(|&end| message.is_char_boundary(end)).unwrap_or_default();
            let mut short = Entry::new(event.metadata().level());
            short.put("MESSAGE", &message[..end]);
            self.send(&short.0)
        });
        if sent.is_err() {
            self.lost.fetch_add(lost + 1, Ordering::Relaxed);
        }
    }
}

/// An entry as the journal reads it: `NAME=VALUE` lines; values of several lines with their length instead.
struct Entry(Vec<u8>);

impl Entry {
    fn new(level: &Level) -> Entry {
        let mut entry = Entry(Vec::with_capacity(256));
        // As syslog(3) numbers them: error, warning, informational, debug.
        let priority = match *level {
            Level::ERROR => "3",
            Level::WARN => "4",
            Level::INFO => "6",
            Level::DEBUG | Level::TRACE => "7",
        };
        entry.put("PRIORITY", priority);
        entry.put("SYSLOG_IDENTIFIER", "weir");
        entry
    }

    fn put(&mut self, name: &str, value: &str) {
        self.0.extend_from_slice(name.as_bytes());
        if value.contains('\n') {
            self.0.push(b'\n');
            self.0.extend_from_slice(&(value.len() as u64).to_le_bytes());
        } else {
            self.0.push(b'=');
        }
        self.0.extend_from_slice(value.as_bytes());
        self.0.push(b'\n');
    }

    fn put_field(&mut self, field: &Field, value: &str) {
        // That is in MESSAGE.
        if field.name() == "message" {
            return;
        }
        // The journal takes capital letters, digits and underscores, 64 at most.
        let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        let name: String =
            "WEIR_".chars().chain(field.name().chars().map(letter)).take(64).collect();
        self.put(&name, value);
    }
}

impl Visit for Entry {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put_field(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put_field(field, &format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    /// Fields of an entry, read as the journal's protocol says.
    fn fields(mut entry: &[u8]) -> Vec<(String, String)> {
        let mut fields = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        while !entry.is_empty() {
            let end = entry.iter().position(|byte| *byte == b'\n').unwrap();
            let line = text(&entry[..end]);
            entry = &entry[end + 1..];
            match line.split_once('=') {
                Some((name, value)) => fields.push((name.to_owned(), value.to_owned())),
                None => {
                    let (length, rest) = entry.split_at(8);
                    let length = u64::from_le_bytes(length.try_into().unwrap()) as usize;
                    fields.push((line, text(&rest[..length])));
                    assert_eq!(rest[length], b'\n');
                    entry = &rest[length + 1..];
                }
            }
        }
        fields
    }

    /// A journal of this test, and its entries of what `log` writes.
    fn entries(name: &str, log: impl FnOnce(&UnixDatagram)) -> Vec<Vec<(String, String)>> {
        let path = std::env::temp_dir().join(format!("weir-journal-{name}-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let journal = UnixDatagram::bind(&path).unwrap();
        let subscriber = tracing_subscriber::registry().with(Journal::at(&path).unwrap());
        tracing::subscriber::with_default(subscriber, || log(&journal));
        std::fs::remove_file(&path).unwrap();
        journal.set_nonblocking(true).unwrap();
        let mut buffer = vec![0; 1 << 20];
        let mut entries = Vec::new();
        while let Ok(length) = journal.recv(&mut buffer) {
            entries.push(fields(&buffer[..length]));
        }
        entries
    }

    fn value<'e>(entry: &'e [(String, String)], name: &str) -> &'e str {
        &entry
            .iter()
            .find(|(other, _)| other == name)
            .unwrap_or_else(|| panic!("{name}: {entry:?}"))
            .1
    }

    #[test]
    fn an_entry_has_the_line_its_fields_and_the_priority_of_syslog() {
        let entries = entries("fields", |_| {
            tracing::error!(device = "disk0", error = %"no\nspace", "cannot write");
            tracing::warn!("w");
            tracing::info!("i");
            tracing::debug!("d");
            tracing::trace!("t");
        });
        let priorities: Vec<_> = entries.iter().map(|entry| value(entry, "PRIORITY")).collect();
        assert_eq!(priorities, ["3", "4", "6", "7", "7"]);
        let first = &entries[0];
        assert_eq!(value(first, "MESSAGE"), "cannot write device=\"disk0\" error=no\nspace");
        assert_eq!(value(first, "WEIR_DEVICE"), "disk0");
        assert_eq!(value(first, "WEIR_ERROR"), "no\nspace");
        assert_eq!(value(first, "SYSLOG_IDENTIFIER"), "weir");
    }

    #[test]
    fn a_journal_without_room_loses_lines_and_hears_how_many() {
        let mut written = 0;
        let entries = entries("full", |journal| {
            // Nothing is read, so the queue of the socket is full in the end.
            for _ in 0..5000 {
                tracing::info!("line");
                written += 1;
            }
            let mut buffer = [0; 1024];
            for _ in 0..2 {
                journal.recv(&mut buffer).unwrap();
            }
            tracing::info!("after");
            written += 1;
        });
        let last = value(entries.last().unwrap(), "MESSAGE");
        let lost: usize = last.strip_prefix("after log_lines_lost=").expect(last).parse().unwrap();
        assert_eq!(entries.len() + 2 + lost, written);
    }

    #[test]
    fn an_entry_too_long_for_a_datagram_is_cut() {
        let entries = entries("long", |_| tracing::info!(more = "x".repeat(4 << 20), "long"));
        let [entry] = &entries[..] else { panic!("{} entries", entries.len()) };
        let message = value(entry, "MESSAGE");
        assert!(message.starts_with("long more=\"xxx") && message.len() == CUT);
    }
}
