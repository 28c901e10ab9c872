//! Pass-through file system: answers FUSE requests from a source directory.
//!
//! ```text
//!  Request ──► PassThrough::answer(request, &mut Worker) ──► bytes of the reply
//!                 │                        │
//!                 ▼                        ▼
//!       nodes: (device, inode,      caller: ids, umask and capabilities
//!       generation) ↔ node id       of the thread, for new files
//!                 │
//!                 ▼
//!       location: file handle, or parent and name
//! ```
//!
//! - **Inodes.** A node is an inode of the source, however many names it has and whatever it is called. It is found again by
//!   file handle where file system and privileges allow it, else by parent and name, with a check that it is still the same inode. No
//!   descriptor is kept but those of open files and of mounts, so that a walk over a million files needs no more of them
//!   than one over ten.
//! - **Permissions** are the kernel's to judge: the mount has `default_permissions`. What is new belongs to the caller, because the
//!   thread takes its ids, its umask and the group of the directory for the call.
//! - **Entries of directories** are never left out: one whose attributes cannot be had comes without them.
//!
//! Calls block; a [`Worker`] belongs to one thread. Nothing here knows limits: the caller decides when a request is answered.
#![forbid(unsafe_code)]

mod attributes;
mod buffer;
mod caller;
mod create;
mod data;
mod directory;
mod names;
mod node;
mod nodes;
mod open_files;
mod pass_through;
mod set_attributes;
mod xattr;

pub use buffer::Worker;
pub use pass_through::{Options, PassThrough, needs, wishes};
