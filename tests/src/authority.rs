//! A CA of a test's own, and the certificates that it makes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertificateRevocationListParams,
    CertifiedIssuer, DnType, IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams,
    SerialNumber, date_time_ymd,
};

use rustls::pki_types::CertificateDer;

use crate::Place;

/// A CA.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its key.
pub struct Certified {
    certificate: Certificate,
    key: KeyPair,
    serial: SerialNumber,
}

impl Authority {
    /// A CA with this name.
    ///
    /// # Panics
    /// When the system has no random numbers.
    pub fn new(name: &str) -> Authority {
        let mut params = named(name, &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("a key can be made");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("a CA can be made");
        Authority { issuer }
    }

    /// A certificate of this common name, and for these names and addresses.
    ///
    /// # Panics
    /// As [`Authority::new`].
    pub fn certify(&self, name: &str, others: &[&str]) -> Certified {
        let mut params = named(name, others);
        let key = KeyPair::generate().expect("a key can be made");
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let serial = SerialNumber::from(NEXT.fetch_add(1, Ordering::Relaxed));
        params.serial_number = Some(serial.clone());
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate can be made");
        Certified { certificate, key, serial }
    }

    /// A server's certificate, for this machine.
    pub fn certify_server(&self) -> Certified {
        self.certify("the server", &["localhost", "127.0.0.1"])
    }

    /// The list of revoked certificates, in PEM.
    ///
    /// # Panics
    /// As [`Authority::new`].
    pub fn revoke(&self, certified: &Certified) -> String {
        let revoked = RevokedCertParams {
            serial_number: certified.serial.clone(),
            revocation_time: date_time_ymd(2020, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 1),
            next_update: date_time_ymd(2120, 1, 1),
            crl_number: SerialNumber::from(1_u64),
            issuing_distribution_point: None,
            revoked_certs: vec![revoked],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = params.signed_by(&self.issuer).expect("a list can be made");
        list.pem().expect("it has a form in PEM")
    }

    /// Its own certificate, in DER.
    pub(crate) fn der(&self) -> CertificateDer<'static> {
        self.issuer.der().clone()
    }

    /// Its own certificate, in PEM.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// The directory `name` in `place` as GnuTLS's clients want it: this CA, and a certificate of theirs if they have one.
    ///
    /// # Panics
    /// When files cannot be written.
    pub fn client_directory(&self, place: &Place, name: &str, own: Option<&Certified>) -> PathBuf {
        let directory = place.file(name);
        fs::create_dir_all(&directory).expect("a directory can be made");
        fs::write(directory.join("ca-cert.pem"), self.pem()).expect("a file can be written");
        if let Some(own) = own {
            own.write(&directory.join("client-cert.pem"), &directory.join("client-key.pem"));
        }
        directory
    }
}

impl Certified {
    /// Writes both, the key for its owner only.
    ///
    /// # Panics
    /// When files cannot be written.
    pub fn write(&self, certificate: &Path, key: &Path) {
        fs::write(certificate, self.certificate.pem()).expect("a file can be written");
        fs::write(key, self.key.serialize_pem()).expect("a file can be written");
        let private = fs::Permissions::from_mode(0o600);
        fs::set_permissions(key, private).expect("it is ours");
    }

    /// The certificate and the key, in DER.
    pub fn der(&self) -> (Vec<u8>, Vec<u8>) {
        (self.certificate.der().to_vec(), self.key.serialize_der())
    }
}

fn named(name: &str, others: &[&str]) -> CertificateParams {
    let others: Vec<String> = others.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(others).expect("names are good");
    params.distinguished_name.push(DnType::CommonName, name);
    params
}
