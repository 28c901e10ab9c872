//! Harnesses of the fuzz targets, which are those of the crates' own tests, so that both check the same.

#[path = "../../crates/config/tests/harness/mod.rs"]
pub mod config;
#[path = "../../crates/fuse-proto/tests/harness/mod.rs"]
pub mod fuse_proto;
#[path = "../../crates/import/tests/harness/mod.rs"]
pub mod import;
#[path = "../../crates/nbd/tests/harness/mod.rs"]
pub mod nbd;
#[path = "../../crates/pool/tests/harness/mod.rs"]
pub mod pool;
#[path = "../../crates/trace/tests/harness/mod.rs"]
pub mod trace;
