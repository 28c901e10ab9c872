//! One file under a temporary name until it is whole.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::PathBuf;

use parquet::file::metadata::KeyValue;
use parquet::file::writer::SerializedFileWriter;

use crate::columns::{Columns, properties, schema};
use crate::header::{HEADER_KEY, Header};

/// What a file is called until it is whole.
pub(crate) const PARTIAL: &str = "partial";

/// A file that is written.
pub(crate) struct OpenFile {
    writer: SerializedFileWriter<BufWriter<File>>,
    partial: PathBuf,
    path: PathBuf,
}

impl OpenFile {
    /// Creates the file that will be at `path`.
    pub(crate) fn create(path: PathBuf) -> io::Result<OpenFile> {
        let partial = path.with_extension(PARTIAL);
        let file = BufWriter::with_capacity(256 << 10, File::create(&partial)?);
        let properties = properties();
        let writer = SerializedFileWriter::new(file, schema(), properties.into()).map_err(other)?;
        Ok(OpenFile { writer, partial, path })
    }

    /// Writes the rows as one row group; nothing where there are none.
    pub(crate) fn write(&mut self, columns: &mut Columns) -> io::Result<()> {
        match columns.len() {
            0 => Ok(()),
            _ => columns.write(&mut self.writer).map_err(other),
        }
    }

    /// Bytes written so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.writer.bytes_written() as u64
    }

    /// Completes the file and gives it its name.
    pub(crate) fn finish(mut self, header: &Header) -> io::Result<()> {
        let text = serde_json::to_string(header).expect("a header is plain data");
        self.writer.append_key_value_metadata(KeyValue::new(HEADER_KEY.to_owned(), text));
        let file = self.writer.into_inner().map_err(other)?;
        let file = file.into_inner().map_err(|error| error.into_error())?;
        // Else the name could outlive the content when the machine stops.
        file.sync_all()?;
        std::fs::rename(&self.partial, &self.path)
    }

    /// Removes what there is of it.
    pub(crate) fn abandon(self) {
        // What is left is removed when the next recording begins.
        let _ = std::fs::remove_file(&self.partial);
    }
}

impl std::fmt::Debug for OpenFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenFile").field("path", &self.path).finish_non_exhaustive()
    }
}

fn other(error: parquet::errors::ParquetError) -> io::Error {
    match error {
        parquet::errors::ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other),
        },
        error => io::Error::other(error),
    }
}
