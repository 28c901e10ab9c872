//! Trace files: compressed, of several members, truncated, or of another kind.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use weir_trace::{Format, HEAD_MAX, LINE_MAX, OpenError, Reader};

/// A temporary directory.
struct Place(PathBuf);

impl Place {
    fn new(test: &str) -> Place {
        let path = std::env::temp_dir().join(format!("weir-trace-{test}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Place(path)
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

fn excerpt() -> Vec<u8> {
    fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/cloudphysics.csv")).unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}

fn open(path: &Path, format: Option<Format>) -> OpenError {
    match Reader::open(path, format) {
        Ok(_) => panic!("{} opens", path.display()),
        Err(error) => error,
    }
}

#[test]
fn plain_gzip_and_zstd_are_read_alike() {
    let place = Place::new("alike");
    let text = excerpt();
    let (first, second) = text.split_at(text.len() / 2);
    let files = [
        place.file("plain", &text),
        // The content decides, not the name.
        place.file("plain.gz", &text),
        // As spreadsheets write text.
        place.file("marked", &[b"\xef\xbb\xbf", &text[..]].concat()),
        place.file("marked.gz", &gzip(&[b"\xef\xbb\xbf", &text[..]].concat())),
        place.file("one.gz", &gzip(&text)),
        place.file("members.gz", &[gzip(first), gzip(b""), gzip(second)].concat()),
        // Padded as by tapes and block devices, with more than is read at once.
        place.file("padded.gz", &[&gzip(&text)[..], &[0; 300_000]].concat()),
        place.file("between.gz", &[&gzip(first)[..], &[0; 512], &gzip(second)].concat()),
        place.file("one.zst", &zstd(&text)),
        place.file("frames.zst", &[zstd(first), zstd(second)].concat()),
        // A frame of four bytes to be skipped before the data.
        place.file(
            "skipped.zst",
            &[&[0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4][..], &zstd(&text)].concat(),
        ),
    ];
    let wanted: Vec<_> = Reader::new(&text[..], Format::CloudPhysics).map(Result::unwrap).collect();
    assert_eq!(wanted.len(), 400);
    for file in files {
        let mut reader = Reader::open(&file, None).unwrap();
        assert_eq!(reader.format(), Format::CloudPhysics);
        let records: Vec<_> = reader.by_ref().map(Result::unwrap).collect();
        assert_eq!(records, wanted, "{}", file.display());
        assert_eq!(reader.bad_lines().count, 0, "{}", file.display());
        assert_eq!((reader.lines(), reader.bad_lines().count), (401, 0));
    }
}

#[test]
fn a_format_that_is_told_is_not_detected() {
    let place = Place::new("told");
    let path = place.file("trace", &excerpt());
    let mut reader = Reader::open(&path, Some(Format::Msr)).unwrap();
    assert_eq!(reader.by_ref().count(), 0);
    assert_eq!(reader.bad_lines().count, 401);
}

#[test]
fn a_file_that_ends_early_is_an_error_after_what_there_was() {
    let place = Place::new("early");
    // Different lines, so that compression leaves something to truncate.
    let text: String = (0..200_000_u32)
        .map(|i| format!("1,{i},2a,512,{}\n", i.wrapping_mul(2_654_435_761)))
        .collect();
    // The last one ends within the bytes that detection reads.
    let cases = [
        ("cut.gz", gzip(text.as_bytes()), 1000),
        ("cut.zst", zstd(text.as_bytes()), 1000),
        ("short.gz", gzip(&text.as_bytes()[..HEAD_MAX / 2]), 100),
    ];
    for (name, whole, enough) in &cases {
        let path = place.file(name, &whole[..whole.len() / 2]);
        let mut reader = Reader::open(&path, None).unwrap();
        let results: Vec<_> = reader.by_ref().collect();
        let (last, before) = results.split_last().unwrap();
        let error = last.as_ref().unwrap_err();
        assert_eq!(error.source.kind(), io::ErrorKind::UnexpectedEof, "{name}: {error}");
        assert_eq!(error.line, reader.lines() + 1);
        assert!(before.len() > *enough && before.iter().all(Result::is_ok), "{name}");
        assert!(reader.next().is_none(), "and then it is over");
    }
    // Empty, or too short to detect.
    let strange = gzip(&b"nothing known\n".repeat(1000));
    for (bytes, format) in [
        (&cases[0].1[..12], None),
        (&cases[0].1[..12], Some(Format::CloudPhysics)),
        (&strange[..strange.len() - 9], None),
    ] {
        let error = open(&place.file("cut.gz", bytes), format);
        assert!(matches!(error, OpenError::Io { .. }), "{error}");
    }
}

#[test]
fn what_must_be_unpacked_first_is_named() {
    let place = Place::new("foreign");
    let mut tar = vec![0; 1024];
    tar[..9].copy_from_slice(b"usr_0.csv");
    tar[257..262].copy_from_slice(b"ustar");
    let cases: [(&[u8], &str); 7] = [
        (b"\xfd7zXZ\0\0", "`xz -d`"),
        (b"BZh91AY", "`bunzip2`"),
        (b"\x04\x22\x4d\x18", "`lz4 -d`"),
        (b"PK\x03\x04", "`unzip`"),
        (b"\x07tae\0\0", "`blkparse`"),
        (&tar, "`tar -x`"),
        // The set of Tencent comes as archives that are compressed.
        (&gzip(&tar), "`tar -x`"),
    ];
    for (bytes, command) in cases {
        let path = place.file("packed", bytes);
        // Giving the format does not help.
        for format in [None, Some(Format::Tencent)] {
            let error = open(&path, format);
            assert!(matches!(error, OpenError::Foreign { .. }), "{error:?}");
            assert!(error.to_string().contains(command), "{error}");
        }
    }
}

#[test]
fn an_unknown_format_quotes_its_first_line() {
    let place = Place::new("nothing");
    let path = place.file("trace", b"{\"a\": 1}\n\x1b[2J\n");
    let error = open(&path, None).to_string();
    assert!(error.ends_with("the first is `{\"a\": 1}`"), "{error}");
    assert!(matches!(open(&place.file("empty", b""), None), OpenError::UnknownFormat { .. }));
    assert!(matches!(open(&place.0, None), OpenError::Io { .. }), "a directory");
    assert!(matches!(open(&place.0.join("none"), None), OpenError::Io { .. }));
    let path = place.file("no.gz", b"\x1f\x8bno");
    assert!(matches!(open(&path, None), OpenError::Io { .. }), "no gzip behind its mark");
}

/// Memory does not grow with the file: sixteen mebibytes of one line is one bad line.
#[test]
fn a_line_without_end_is_one_bad_line() {
    let place = Place::new("endless");
    let member = gzip(&vec![b'1'; 1 << 20]);
    let mut file = gzip(b"1,5633898,2a,512,1\n1,5633898,2a,512,1\n");
    for _ in 0..16 {
        file.extend(&member);
    }
    file.extend(gzip(b"\n1,5633898,2a,512,1\n"));
    let path = place.file("endless.gz", &file);
    let mut reader = Reader::open(&path, None).unwrap();
    assert_eq!(reader.by_ref().map(Result::unwrap).count(), 3);
    assert_eq!(reader.bad_lines().count, 1);
    let (number, text, reason) = &reader.bad_lines().first[0];
    assert_eq!((*number, text.len()), (3, 100 + "…".len()));
    assert!(reason.to_string().contains(&LINE_MAX.to_string()), "{reason}");
}
