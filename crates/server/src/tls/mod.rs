//! TLS of connections, ended on threads beside those of the devices.

mod certificates;

pub use self::certificates::{
    CertificateError, CertificateFiles, Certificates, CurrentCertificates, Item,
};
