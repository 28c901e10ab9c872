//! Files as they are found: compressed or not, of a format or another.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::GzDecoder;

use crate::bad::shown;
use crate::format::Format;
use crate::reader::Reader;

/// So much of a trace, uncompressed, is looked at to tell its format; in bytes.
pub const HEAD_MAX: usize = 64 * 1024;

/// A file is read, and handed on uncompressed, in pieces of this size.
const BUFFER: usize = 128 * 1024;

/// Enough to know any file by, the mark of a tar archive at byte 257 included.
const MAGIC: usize = 512;

impl Reader<Box<dyn BufRead + Send>> {
    /// Opens a trace: plain, gzip (of several members too) or zstd, known by its first bytes and not by its name.
    ///
    /// Without `format`, the first [`HEAD_MAX`] bytes tell it ([`Format::detect`]). `path` may be a pipe: nothing is
    /// read twice.
    ///
    /// # Errors
    ///
    /// The file cannot be opened, or so little of it read that it tells no format; is an archive, or compressed in
    /// another way; or looks like no format or like two, and none was told. What cannot be read to its end fails there.
    pub fn open(path: &Path, format: Option<Format>) -> Result<Self, OpenError> {
        let io = |source| OpenError::Io { path: path.to_owned(), source };
        let file = File::open(path).map_err(io)?;
        // A directory opens, and only fails to be read; the message is better here.
        if file.metadata().map_err(io)?.is_dir() {
            return Err(io(io::ErrorKind::IsADirectory.into()));
        }
        let (magic, file) = head(file, MAGIC).map_err(io)?;
        let foreign = |what| OpenError::Foreign { path: path.to_owned(), what };
        let mut input: Box<dyn Read + Send> = match Wrapping::of(&magic) {
            Wrapping::None => Box::new(file),
            Wrapping::Gzip => Box::new(Members::new(BufReader::with_capacity(BUFFER, file))),
            Wrapping::Zstd => Box::new(zstd::Decoder::new(file).map_err(io)?),
            Wrapping::Foreign(what) => return Err(foreign(what)),
        };
        let mut head_of_text = Vec::new();
        // What breaks off in here can be read up to there, like what breaks off behind it.
        let mut broken = read_up_to(&mut input, HEAD_MAX, &mut head_of_text).err();
        // What spreadsheets write in front of UTF-8. It is no part of the first line.
        if head_of_text.starts_with(b"\xef\xbb\xbf") {
            head_of_text.drain(..3);
        }
        // Published sets come as archives of many files; their headers would be a bad line each.
        if let Wrapping::Foreign(what) = Wrapping::of(&head_of_text) {
            return Err(foreign(what));
        }
        let format = format.or_else(|| Format::detect(&head_of_text));
        if let Some(error) = broken.take_if(|_| head_of_text.is_empty() || format.is_none()) {
            return Err(io(error));
        }
        let Some(format) = format else {
            let first = head_of_text.split(|&byte| byte == b'\n').next().unwrap_or_default();
            return Err(OpenError::UnknownFormat {
                path: path.to_owned(),
                first_line: shown(first),
            });
        };
        let rest = BufReader::with_capacity(BUFFER, Broken(broken).chain(input));
        Ok(Reader::new(Box::new(Cursor::new(head_of_text).chain(rest)), format))
    }
}

/// The text of a gzip file: of all its members, one after the other, and of none of the zeroes with which tapes and block
/// devices fill up behind a member, which are no part of it.
struct Members<R: BufRead> {
    /// `None` only within a call.
    member: Option<GzDecoder<R>>,
}

impl<R: BufRead> Members<R> {
    fn new(input: R) -> Members<R> {
        Members { member: Some(GzDecoder::new(input)) }
    }

    /// Goes on to the next member, if there is one.
    fn advance(&mut self) -> io::Result<bool> {
        let member = self.member.as_mut().expect("there is always a member");
        let input = member.get_mut();
        loop {
            let ahead = input.fill_buf()?;
            let zeroes = ahead.iter().take_while(|&&byte| byte == 0).count();
            match (ahead.len(), zeroes) {
                (0, _) => return Ok(false),
                (len, zeroes) if zeroes < len => {
                    input.consume(zeroes);
                    break;
                }
                (len, _) => input.consume(len),
            }
        }
        self.member = self.member.take().map(|over| GzDecoder::new(over.into_inner()));
        Ok(true)
    }
}

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            let member = self.member.as_mut().expect("there is always a member");
            let count = member.read(bytes)?;
            if count > 0 || bytes.is_empty() || !self.advance()? {
                return Ok(count);
            }
        }
    }
}

/// The beginning of `input`, and `input` with it still there.
fn head<R: Read>(mut input: R, len: usize) -> io::Result<(Vec<u8>, impl Read)> {
    let mut head = Vec::new();
    read_up_to(&mut input, len, &mut head)?;
    Ok((head.clone(), Cursor::new(head).chain(input)))
}

/// Puts the first `len` bytes of `input` into `head`, or as many as there are before it ends or fails.
fn read_up_to(input: &mut impl Read, len: usize, head: &mut Vec<u8>) -> io::Result<()> {
    input.take(len as u64).read_to_end(head).map(drop)
}

/// Nothing to read, after an error perhaps, once.
struct Broken(Option<io::Error>);

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

/// What lies around a trace.
enum Wrapping {
    None,
    Gzip,
    Zstd,
    /// Something to be unpacked first, by a command that the text names.
    Foreign(&'static str),
}

impl Wrapping {
    fn of(head: &[u8]) -> Wrapping {
        match head {
            [0x1f, 0x8b, ..] => Wrapping::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Wrapping::Zstd,
            // A frame to be skipped, with which parallel compressors begin.
            [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Wrapping::Zstd,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => {
                Wrapping::Foreign("compressed with xz; unpack it with `xz -d`")
            }
            [b'B', b'Z', b'h', b'1'..=b'9', ..] => {
                Wrapping::Foreign("compressed with bzip2; unpack it with `bunzip2`")
            }
            [0x04, 0x22, 0x4d, 0x18, ..] => {
                Wrapping::Foreign("compressed with lz4; unpack it with `lz4 -d`")
            }
            [b'P', b'K', 3, 4, ..] => Wrapping::Foreign("a zip archive; unpack it with `unzip`"),
            // blktrace's magic with its version, in either order of bytes.
            [1..=9, b't', b'a', b'e', ..] | [b'e', b'a', b't', 1..=9, ..] => {
                Wrapping::Foreign("blktrace's binary form; make text of it with `blkparse`")
            }
            _ if head.get(257..262) == Some(b"ustar") => {
                Wrapping::Foreign("a tar archive; unpack it with `tar -x`, or pipe `tar -xO` in")
            }
            _ => Wrapping::None,
        }
    }
}

/// A trace that cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The operating system, or the decompressor, says no.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The trace.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is packed in a way that is not read directly.
    #[error("{} is {what}", path.display())]
    Foreign {
        /// The trace.
        path: PathBuf,
        /// What it is, and the command that unpacks it.
        what: &'static str,
    },
    /// It looks like no format, or like two, and none was told.
    #[error("the format of {} cannot be told from its first lines; the first is `{first_line}`", path.display())]
    UnknownFormat {
        /// The trace.
        path: PathBuf,
        /// Its first line, shortened and made harmless to a terminal.
        first_line: String,
    },
}
