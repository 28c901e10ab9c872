//! Certificates and keys from files, made into one configuration of rustls.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};

/// Most bytes of one file: thousands of certificates.
const FILE_MAX: u64 = 4 << 20;

/// Files that a server proves itself with, and those by which it knows its clients. All are PEM.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CertificateFiles {
    /// The server's certificate, followed by those between it and its CA.
    pub certificate: PathBuf,
    /// Its private key: PKCS #8, PKCS #1 or SEC 1, not encrypted.
    pub key: PathBuf,
    /// Certificates of the CAs whose clients are known; `None`: clients are not asked for a certificate.
    pub client_ca: Option<PathBuf>,
    /// Whether a client without a certificate is refused.
    pub require_client_certificate: bool,
    /// Revoked certificates of clients: a list of each CA.
    pub crl: Option<PathBuf>,
}

/// What the files say.
#[derive(Clone, Debug)]
pub struct Certificates {
    /// For new connections.
    pub configs: Configs,
    /// What an operator should put right, a line each.
    pub warnings: Vec<String>,
}

/// Settings of TLS for new connections.
#[derive(Clone, Debug)]
pub struct Configs {
    /// Of NBD.
    pub nbd: Arc<ServerConfig>,
    /// Of the control API, whose clients show a token instead of a certificate.
    pub control: Arc<ServerConfig>,
}

/// Why files are not used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The system does not give the file.
    #[error("{file}: cannot be read: {source}")]
    Read {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is no list of certificates.
    #[error("{file}: has more than {max} bytes, which is no certificate or key")]
    TooLarge {
        /// The file.
        file: PathBuf,
        /// Most that it may have.
        max: u64,
    },
    /// The file is not PEM.
    #[error("{file}: is not valid PEM: {problem}")]
    Pem {
        /// The file.
        file: PathBuf,
        /// Why.
        problem: String,
    },
    /// Nothing of the kind is in the file.
    #[error("{file}: has no {what} in PEM")]
    Nothing {
        /// The file.
        file: PathBuf,
        /// What was looked for.
        what: Item,
    },
    /// The key has a pass phrase.
    #[error("{file}: the private key is encrypted, and the server cannot ask for its pass phrase")]
    EncryptedKey {
        /// The file.
        file: PathBuf,
    },
    /// The key is of a kind that is not known.
    #[error("{file}: the private key cannot be used: {problem}")]
    Key {
        /// The file.
        file: PathBuf,
        /// Why.
        problem: String,
    },
    /// The key is another certificate's.
    #[error("{key}: is not the key of the first certificate in {certificate}")]
    OtherKey {
        /// The key's file.
        key: PathBuf,
        /// The certificate's.
        certificate: PathBuf,
    },
    /// What is in PEM is no certificate or list of revoked ones.
    #[error("{file}: {what} number {number} is not valid: {problem}")]
    Invalid {
        /// The file.
        file: PathBuf,
        /// What it should be.
        what: Item,
        /// Which of them, from 1.
        number: usize,
        /// Why.
        problem: String,
    },
}

/// What a PEM file has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Item {
    /// A certificate.
    Certificate,
    /// A private key.
    Key,
    /// A list of revoked certificates.
    Crl,
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Item::Certificate => "certificate",
            Item::Key => "private key",
            Item::Crl => "certificate revocation list",
        })
    }
}

impl CertificateError {
    /// The file that is at fault.
    pub fn file(&self) -> &Path {
        match self {
            CertificateError::Read { file, .. }
            | CertificateError::TooLarge { file, .. }
            | CertificateError::Pem { file, .. }
            | CertificateError::Nothing { file, .. }
            | CertificateError::EncryptedKey { file }
            | CertificateError::Key { file, .. }
            | CertificateError::OtherKey { key: file, .. }
            | CertificateError::Invalid { file, .. } => file,
        }
    }

    /// What an operator can do about it.
    pub fn hint(&self) -> String {
        match self {
            CertificateError::Read { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                "relative paths begin in the directory of the configuration".into()
            }
            CertificateError::Read { .. } => {
                "it must be a file that the server's user may read".into()
            }
            CertificateError::TooLarge { .. } => "is it the right file?".into(),
            CertificateError::Pem { .. } => {
                "copy it again, with its lines -----BEGIN ...----- and -----END ...-----".into()
            }
            CertificateError::Nothing { file, what: Item::Key } => {
                format!("it must have -----BEGIN PRIVATE KEY-----; `openssl pkey -in {}` shows what it is", file.display())
            }
            CertificateError::Nothing { file, what: Item::Certificate } => format!(
                "it must have -----BEGIN CERTIFICATE-----; of DER: `openssl x509 -inform der -in {}`",
                file.display()
            ),
            CertificateError::Nothing { file, what: Item::Crl } => format!(
                "it must have -----BEGIN X509 CRL-----; of DER: `openssl crl -inform der -in {}`",
                file.display()
            ),
            CertificateError::EncryptedKey { file } => format!(
                "write it without one: `openssl pkey -in {} -out NEW`, and let only the server read it",
                file.display()
            ),
            CertificateError::Key { .. } => {
                "RSA of 2048 bits or more, ECDSA with P-256, P-384 or P-521, and Ed25519 can be used".into()
            }
            CertificateError::OtherKey { certificate, .. } => format!(
                "the server's own certificate comes first; `openssl x509 -noout -pubkey -in {}` and \
                 `openssl pkey -pubout` of the key print the same where they fit",
                certificate.display()
            ),
            CertificateError::Invalid { .. } => "make it anew, or take it out".into(),
        }
    }
}

impl CertificateFiles {
    /// Reads all of them.
    ///
    /// # Errors
    /// The first thing that is wrong, with its file.
    pub fn read(&self) -> Result<Certificates, CertificateError> {
        let provider = Arc::new(ring::default_provider());
        let clients =
            self.client_ca.as_deref().map(|ca| self.clients(ca, &provider)).transpose()?;
        let own = Arc::new(own(&self.certificate, &self.key, &provider)?);
        let config = |clients| Arc::new(config(clients, Arc::clone(&own), Arc::clone(&provider)));
        let configs = Configs { nbd: config(clients), control: config(None) };
        Ok(Certificates { configs, warnings: warnings(&self.key) })
    }

    /// What tells whether a client's certificate is of one of the CAs in `ca`.
    fn clients(
        &self,
        ca: &Path,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ClientCertVerifier>, CertificateError> {
        let roots = Arc::new(roots(ca)?);
        let mut verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(provider))
            .only_check_end_entity_revocation();
        if let Some(crl) = &self.crl {
            verifier = verifier.with_crls(crls(crl)?);
        }
        if !self.require_client_certificate {
            verifier = verifier.allow_unauthenticated();
        }
        let file = self.crl.as_deref().unwrap_or(ca);
        verifier.build().map_err(|problem| invalid(file, Item::Crl, 1, problem))
    }
}

fn config(
    clients: Option<Arc<dyn ClientCertVerifier>>,
    own: Arc<CertifiedKey>,
    provider: Arc<CryptoProvider>,
) -> ServerConfig {
    let builder = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has suites of TLS 1.2 and 1.3");
    let builder = match clients {
        Some(clients) => builder.with_client_cert_verifier(clients),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(Arc::new(Own(own)));
    // A session that is resumed shows no certificate: one that was revoked since would go on.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config
}

/// The configuration that new connections use; a reload puts another in its place.
#[derive(Debug)]
pub struct CurrentCertificates(RwLock<Configs>);

impl CurrentCertificates {
    /// Begins with these.
    pub fn new(configs: Configs) -> CurrentCertificates {
        CurrentCertificates(RwLock::new(configs))
    }

    /// For a new connection.
    pub fn get(&self) -> Configs {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// New connections use `configs`; the others go on as they began.
    pub fn replace(&self, configs: Configs) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = configs;
    }
}

/// One certificate for all clients, whatever name they ask for.
#[derive(Debug)]
struct Own(Arc<CertifiedKey>);

impl rustls::server::ResolvesServerCert for Own {
    fn resolve(&self, _hello: rustls::server::ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}

/// The server's own certificate and key, which fit.
fn own(
    certificate: &Path,
    key: &Path,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, CertificateError> {
    let chain: Vec<CertificateDer<'static>> = items(certificate, Item::Certificate)?;
    let first = webpki::EndEntityCert::try_from(&chain[0]);
    first.map_err(|problem| invalid(certificate, Item::Certificate, 1, problem))?;
    let text = read(key)?;
    let der = match PrivateKeyDer::from_pem_slice(&text) {
        Ok(der) if !is_encrypted(&text) => der,
        _ if is_encrypted(&text) => {
            return Err(CertificateError::EncryptedKey { file: key.into() });
        }
        Ok(_) => unreachable!("told above"),
        Err(error) => return Err(not_pem(key, Item::Key, &error)),
    };
    let problem = |error: rustls::Error| match error {
        rustls::Error::InconsistentKeys(_) => {
            CertificateError::OtherKey { key: key.into(), certificate: certificate.into() }
        }
        error => CertificateError::Key { file: key.into(), problem: error.to_string() },
    };
    CertifiedKey::from_der(chain, der, provider).map_err(problem)
}

/// CAs whose clients are known.
fn roots(file: &Path) -> Result<RootCertStore, CertificateError> {
    let mut roots = RootCertStore::empty();
    for (index, certificate) in items(file, Item::Certificate)?.into_iter().enumerate() {
        let added = roots.add(certificate);
        added.map_err(|problem| invalid(file, Item::Certificate, index + 1, problem))?;
    }
    Ok(roots)
}

fn crls(file: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, CertificateError> {
    let crls: Vec<CertificateRevocationListDer<'static>> = items(file, Item::Crl)?;
    for (index, crl) in crls.iter().enumerate() {
        let parsed = webpki::BorrowedCertRevocationList::from_der(crl);
        parsed.map_err(|problem| invalid(file, Item::Crl, index + 1, problem))?;
    }
    Ok(crls)
}

/// All sections of the kind, at least one.
fn items<T: PemObject>(file: &Path, what: Item) -> Result<Vec<T>, CertificateError> {
    let text = read(file)?;
    let items: Result<Vec<T>, pem::Error> = T::pem_slice_iter(&text).collect();
    match items {
        Ok(items) if items.is_empty() => Err(CertificateError::Nothing { file: file.into(), what }),
        Ok(items) => Ok(items),
        Err(error) => Err(not_pem(file, what, &error)),
    }
}

fn read(file: &Path) -> Result<Vec<u8>, CertificateError> {
    let fail = |source| CertificateError::Read { file: file.into(), source };
    let mut text = Vec::new();
    let opened = File::open(file).map_err(fail)?;
    opened.take(FILE_MAX + 1).read_to_end(&mut text).map_err(fail)?;
    if text.len() as u64 > FILE_MAX {
        return Err(CertificateError::TooLarge { file: file.into(), max: FILE_MAX });
    }
    Ok(text)
}

fn not_pem(file: &Path, what: Item, error: &pem::Error) -> CertificateError {
    match error {
        pem::Error::NoItemsFound => CertificateError::Nothing { file: file.into(), what },
        error => CertificateError::Pem { file: file.into(), problem: error.to_string() },
    }
}

fn invalid(file: &Path, what: Item, number: usize, problem: impl fmt::Display) -> CertificateError {
    CertificateError::Invalid { file: file.into(), what, number, problem: problem.to_string() }
}

/// PKCS #8 says so in its label, the older forms in a header.
fn is_encrypted(text: &[u8]) -> bool {
    let has = |word: &[u8]| text.windows(word.len()).any(|part| part == word);
    has(b"BEGIN ENCRYPTED PRIVATE KEY") || has(b"Proc-Type: 4,ENCRYPTED")
}

fn warnings(key: &Path) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Ok(found) = key.metadata()
        && found.mode() & 0o007 != 0
    {
        warnings.push(format!(
            "{}: every user of this machine may read or change the private key: `chmod o= {}`",
            key.display(),
            key.display()
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    /// A directory of this test with a CA, a certificate, and their keys; removed at its end.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Place {
            let path = std::env::temp_dir()
                .join(format!("weir-certificates-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            let place = Place(path);
            for name in ["server", "other"] {
                let key = KeyPair::generate().unwrap();
                let names = vec!["localhost".to_owned()];
                let certificate = CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
                place.write(&format!("{name}.crt"), &certificate.pem());
                place.write(&format!("{name}.key"), &key.serialize_pem());
            }
            place
        }

        fn write(&self, name: &str, text: &str) {
            std::fs::write(self.0.join(name), text).unwrap();
            let private = std::fs::Permissions::from_mode(0o600);
            std::fs::set_permissions(self.0.join(name), private).unwrap();
        }

        fn files(&self) -> CertificateFiles {
            CertificateFiles {
                certificate: self.0.join("server.crt"),
                key: self.0.join("server.key"),
                client_ca: Some(self.0.join("other.crt")),
                require_client_certificate: true,
                crl: None,
            }
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn good_files_make_a_configuration_that_another_replaces() {
        let place = Place::new("good");
        let read = place.files().read().unwrap();
        assert_eq!(read.warnings, [""; 0]);
        let current = CurrentCertificates::new(read.configs.clone());
        let next = place.files().read().unwrap().configs;
        current.replace(next.clone());
        let is = |configs: &Configs| Arc::ptr_eq(&current.get().nbd, &configs.nbd);
        assert!(is(&next) && !is(&read.configs));
        let open = std::fs::Permissions::from_mode(0o644);
        std::fs::set_permissions(place.0.join("server.key"), open).unwrap();
        assert!(place.files().read().unwrap().warnings[0].contains("chmod o="));
    }

    #[test]
    fn each_error_names_its_file_and_a_remedy() {
        let place = Place::new("errors");
        let path = |name: &str| place.0.join(name);
        place.write("empty", "");
        place.write("cut", "-----BEGIN CERTIFICATE-----\nAAAA\n");
        place.write("junk", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
        place.write(
            "locked",
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
        );
        place.write("odd", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n");
        place.write("crl", "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n");
        let large = File::create(path("large")).unwrap();
        large.set_len(FILE_MAX + 1).unwrap();
        type Wrong = fn(&mut CertificateFiles, PathBuf);
        let certificate: Wrong = |files, path| files.certificate = path;
        let key: Wrong = |files, path| files.key = path;
        let client_ca: Wrong = |files, path| files.client_ca = Some(path);
        let crl: Wrong = |files, path| files.crl = Some(path);
        for (wrong, name, said) in [
            (certificate, "missing", "cannot be read"),
            (certificate, "empty", "has no certificate"),
            (certificate, "server.key", "has no certificate"),
            (certificate, "cut", "is not valid PEM"),
            (certificate, "junk", "certificate number 1 is not valid"),
            (certificate, "large", "has more than"),
            (key, "empty", "has no private key"),
            (key, "locked", "is encrypted"),
            (key, "odd", "cannot be used"),
            (key, "other.key", "is not the key of"),
            (client_ca, "junk", "certificate number 1 is not valid"),
            (client_ca, "empty", "has no certificate"),
            (crl, "crl", "certificate revocation list number 1"),
            (crl, "server.crt", "has no certificate revocation list"),
        ] {
            let mut files = place.files();
            wrong(&mut files, path(name));
            let error = files.read().expect_err(name);
            let words = error.to_string();
            assert!(words.contains(said) && words.contains(name), "{name}: {words}");
            assert!(!error.hint().is_empty() && error.file().ends_with(name));
        }
    }
}
