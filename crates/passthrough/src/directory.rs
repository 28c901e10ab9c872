//! Contents of directories.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use rustix::fs::{RawDir, SeekFrom, seek};
use rustix::io::{Errno, Result};
use weir_fuse_proto::wire::OUT_HEADER_LEN;
use weir_fuse_proto::{Directory, Entry, FileKind, Forget, Request, reply};

use crate::buffer::Worker;
use crate::node::lock;
use crate::open_files::OpenFile;
use crate::pass_through::PassThrough;

/// Bytes of entries that are read from the source at once. As much again may be read once more for the next reply.
const ENTRIES_LEN: usize = 32 << 10;

/// Where an open directory stands: the offset after which the next entry comes.
#[derive(Debug, Default)]
pub(crate) struct Position(u64);

impl PassThrough {
    /// Entries after an offset: handle, offset, size, and whether with attributes.
    pub(crate) fn read_directory(
        &self,
        request: &Request<'_>,
        (handle, offset, size, plus): (u64, u64, u32, bool),
        worker: &mut Worker,
    ) -> Result<()> {
        let file = self.files.get(handle)?;
        let mut position = lock(&file.position);
        if position.0 != offset {
            seek(&file.fd, SeekFrom::Start(offset))?;
            position.0 = offset;
        }
        worker.entries.clear();
        worker.entries.resize(OUT_HEADER_LEN, 0);
        let mut directory = Directory::new(&mut worker.entries, size, plus);
        let result = self.fill(&file, &mut position, &mut directory, plus);
        // Entries that were read and found no room are read again.
        seek(&file.fd, SeekFrom::Start(position.0))?;
        let len = worker.entries.len() - OUT_HEADER_LEN;
        if len == 0 {
            result?;
        }
        worker.entries[..OUT_HEADER_LEN].copy_from_slice(&reply::data_head(request.unique, len));
        worker.reply.set(&worker.entries);
        Ok(())
    }

    /// Adds entries until the reply is full or there are no more.
    fn fill(
        &self,
        file: &Arc<OpenFile>,
        position: &mut Position,
        directory: &mut Directory<'_>,
        plus: bool,
    ) -> Result<()> {
        let mut buffer = Vec::with_capacity(ENTRIES_LEN);
        let mut entries = RawDir::new(&file.fd, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            let found = self.with_attributes(file, name, plus);
            let kind = match found {
                Some(Entry { attr, .. }) => FileKind::of_mode(attr.mode),
                None => kind(entry.file_type()),
            };
            let next = entry.next_entry_cookie();
            if directory.push(entry.ino(), next, kind, name, found.as_ref()).is_err() {
                if let Some(Entry { node, .. }) = found {
                    self.nodes.forget(Forget { node, lookups: 1 });
                }
                return Ok(());
            }
            position.0 = next;
        }
        Ok(())
    }

    /// An entry's attributes. Where they cannot be had, for want of descriptors or because it is gone, the kernel asks for them
    /// when it needs them.
    fn with_attributes(&self, file: &Arc<OpenFile>, name: &OsStr, plus: bool) -> Option<Entry> {
        if !plus || name == "." || name == ".." {
            return None;
        }
        match self.find_entry(&file.node, &file.fd, name) {
            Ok((_, entry)) => Some(entry),
            Err(error) => {
                if !matches!(error, Errno::NOENT) {
                    tracing::debug!("entry {name:?} without its attributes: {error}");
                }
                None
            }
        }
    }
}

fn kind(kind: rustix::fs::FileType) -> FileKind {
    match kind {
        rustix::fs::FileType::Unknown => FileKind::Unknown,
        kind => FileKind::of_mode(kind.as_raw_mode()),
    }
}
