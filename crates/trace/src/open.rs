//! Opening of trace files: decompression and detection of the format.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::GzDecoder;

use crate::bad::shown;
use crate::format::Format;
use crate::reader::Reader;

/// Uncompressed bytes that detection reads.
pub const HEAD_MAX: usize = 64 * 1024;

/// Bytes of a read, and of a piece of decompressed text.
const BUFFER: usize = 128 * 1024;

/// Enough to recognise any file, including the mark of a tar archive at byte 257.
const MAGIC: usize = 512;

impl Reader<Box<dyn BufRead + Send>> {
    /// Opens a trace: plain, gzip (also of several members) or zstd, by its first bytes and not by its name.
    ///
    /// Without `format`, it is detected from the first [`HEAD_MAX`] bytes ([`Format::detect`]). `path` may be a pipe: nothing
    /// is read twice.
    ///
    /// # Errors
    ///
    /// The file cannot be opened, or fails before its format is known; is an archive, or compressed in another way; or fits no
    /// format or two, and none was given. Later failures are those of the reader.
    pub fn open(path: &Path, format: Option<Format>) -> Result<Self, OpenError> {
        let io = |source| OpenError::Io { path: path.to_owned(), source };
        let file = File::open(path).map_err(io)?;
        // A directory can be opened and fails at the first read; the message is better here.
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
        // A file that breaks off here is read up to there, as one that breaks off later.
        let mut broken = read_up_to(&mut input, HEAD_MAX, &mut head_of_text).err();
        // The byte order mark of spreadsheets is no part of the first line.
        if head_of_text.starts_with(b"\xef\xbb\xbf") {
            head_of_text.drain(..3);
        }
        // Published sets are archives of many files; each header would be a bad line.
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

/// Decompressed text of all members of a gzip file, without the zeroes with which tapes and block devices pad a member.
struct Members<R: BufRead> {
    /// `None` only within a call.
    member: Option<GzDecoder<R>>,
}

impl<R: BufRead> Members<R> {
    fn new(input: R) -> Members<R> {
        Members { member: Some(GzDecoder::new(input)) }
    }

    /// Starts the next member, if there is one.
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

/// The beginning of `input`, and all of `input` again.
fn head<R: Read>(mut input: R, len: usize) -> io::Result<(Vec<u8>, impl Read)> {
    let mut head = Vec::new();
    read_up_to(&mut input, len, &mut head)?;
    Ok((head.clone(), Cursor::new(head).chain(input)))
}

/// Reads the first `len` bytes of `input` into `head`, or all before it ends or fails.
fn read_up_to(input: &mut impl Read, len: usize, head: &mut Vec<u8>) -> io::Result<()> {
    input.take(len as u64).read_to_end(head).map(drop)
}

/// An empty input, after at most one error.
struct Broken(Option<io::Error>);

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

/// Compression of a trace.
enum Wrapping {
    None,
    Gzip,
    Zstd,
    /// Must be unpacked first, by the command in the text.
    Foreign(&'static str),
}

impl Wrapping {
    fn of(head: &[u8]) -> Wrapping {
        match head {
            [0x1f, 0x8b, ..] => Wrapping::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Wrapping::Zstd,
            // A skippable frame, which parallel compressors write first.
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

/// Reason why a trace cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// An error of the operating system or the decompressor.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The trace.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A compression or archive that is not supported.
    #[error("{} is {what}", path.display())]
    Foreign {
        /// The trace.
        path: PathBuf,
        /// Its name, and the command that unpacks it.
        what: &'static str,
    },
    /// No format was detected, or two were, and none was given.
    #[error("the format of {} cannot be told from its first lines; the first is `{first_line}`", path.display())]
    UnknownFormat {
        /// The trace.
        path: PathBuf,
        /// Its first line, shortened and escaped for a terminal.
        first_line: String,
    },
}
