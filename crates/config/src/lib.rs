//! The file a person writes, made into a valid configuration; errors with their line.
//!
//! ```
//! let config = weir_config::Config::from_str("weir.toml", r#"
//!     [device.disk0]
//!     path = "/srv/disk0.img"
//!
//!     [cgroup."/vm1"]
//!     "io.max" = "disk0 rbps=4M wbps=2M riops=100"
//!     "io.weight" = 200
//!
//!     [export.vm1]
//!     device = "disk0"
//!     cgroup = "/vm1"
//! "#).unwrap();
//! assert_eq!(config.exports[0].cgroup, config.cgroups[0].path);
//!
//! let errors = weir_config::Config::from_str("weir.toml", "[device.disk0]\npaht = \"x\"").unwrap_err();
//! assert_eq!(errors.errors()[0].hint.as_deref(), Some("for example `path = \"/srv/disk0.img\"`"));
//! assert_eq!(errors.errors()[1].hint.as_deref(), Some("did you mean `path`?"));
//! ```
//!
//! [`Config::from_file`] reads a file, and over it those of the directory beside it: `weir.d/` for `weir.toml`.
//! It and [`Config::from_str`] read TOML, [`Config::single`] reads the flags of a server with one
//! export; all three go through the same checks. What is wrong is collected and told at once, as pictures for people
//! ([`ConfigErrors::render`]) and as records for programs ([`ConfigError`]). Nothing here opens a device or a socket.
//!
//! `examples/weir.toml` beside this crate shows every key with its default.

#![forbid(unsafe_code)]

mod advice;
mod backend;
mod bfq;
mod block_size;
mod cache;
mod cgroup;
mod device;
mod difference;
mod drop_in;
mod error;
mod export;
mod govern;
mod kept;
mod limiter;
mod limits;
mod listen;
mod load;
mod model;
mod model_file;
mod network;
mod peer;
mod print;
mod record;
mod render;
mod report;
mod schema;
mod server;
mod single;
mod size_guard;
mod source;
mod statement;
mod table;
mod tls;
mod token;
mod validate;
mod value;

pub use cgroup::{CLIENT_PREFIX, DEPTH_MAX as CGROUP_DEPTH_MAX, is_of_client};
pub use difference::{Change, Difference, KeyValue, SectionKind, difference};
pub use error::{ConfigError, ConfigErrors};
pub use govern::{GovernConfig, GovernDevice, GovernRule, govern_settings};
pub use kept::{Kept, KeptError, KeptErrorKind};
pub use limiter::parse_limiter;
pub use listen::ListenAddress;
pub use model::{
    Access, Backend, BlockSize, CgroupConfig, Config, DeviceConfig, DeviceLimits, DeviceRange,
    Direct, ExportConfig, LogFormat, LogLevel, PeerConfig, RecordConfig, Sandbox, ServerConfig,
    TlsConfig, TlsMode, TokenConfig,
};
pub use model_file::DeviceModel;
pub use network::{Network, NetworkError};
pub use schema::schema;
pub use single::SingleExport;
pub use token::{hex, is_token_name};
