//! The files of a server's certificates. Are they all there, do they fit each other, do they hold today?
//!
//! Names and contents are those that nbdkit and the other NBD programs use, so that one folder does for
//! all: `ca-cert.pem`, `server-cert.pem`, `server-key.pem`, and `ca-crl.pem` where certificates were
//! revoked.

use super::TlsServer;
use super::names::{self, Day, Holds};
use rustls::RootCertStore;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// The authority that clients' certificates are of.
const AUTHORITY: &str = "ca-cert.pem";
/// The server's certificate, with those between it and the authority behind it.
const CERTIFICATE: &str = "server-cert.pem";
/// The server's key.
const KEY: &str = "server-key.pem";
/// What the authority has revoked; need not be there.
const REVOKED: &str = "ca-crl.pem";
/// A file larger than this is none of these.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// A certificate that ends within so many days is told of.
const DAYS_WARN: u64 = 30;

/// Why certificates cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The system refuses.
    #[error(
        "{}: {source}; `certificates` in [serve] names the folder of {CERTIFICATE}, {KEY} and {AUTHORITY}",
        path.display()
    )]
    File {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Something else is in it.
    #[error("{}: {what}", path.display())]
    Content {
        /// Which file.
        path: PathBuf,
        /// What is wrong, and what would be right.
        what: String,
    },
    /// It does not hold today.
    #[error("{}: the certificate {when} {day}: make a new one, or set the clock", path.display())]
    Date {
        /// Which file.
        path: PathBuf,
        /// Too early or too late.
        when: &'static str,
        /// The day, UTC.
        day: String,
    },
    /// Each is sound, and they are not of each other.
    #[error(
        "{key} does not belong to {certificate}: `openssl pkey -in {key} -pubout` and `openssl x509 -in \
         {certificate} -noout -pubkey` must print the same", key = key.display(),
        certificate = certificate.display()
    )]
    OtherKey {
        /// The key's file.
        key: PathBuf,
        /// The certificate's.
        certificate: PathBuf,
    },
    /// The library refuses them.
    #[error("the certificates in {} cannot be used: {why}", folder.display())]
    Refused {
        /// Where they are.
        folder: PathBuf,
        /// What it says.
        why: String,
    },
}

impl TlsServer {
    /// Reads and checks the certificates in a folder. With `verify_clients` every client has to show a
    /// certificate of the authority in it.
    ///
    /// # Errors
    /// What is wrong with which file.
    pub fn load(folder: &Path, verify_clients: bool) -> Result<TlsServer, TlsError> {
        let now = SystemTime::now();
        let own = read(folder, CERTIFICATE)?;
        let chain = certificates(&own)?;
        dated(&own.path, &chain[..1], now)?;
        let key_file = read(folder, KEY)?;
        let key = key(&key_file)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let refused = |why: String| TlsError::Refused { folder: folder.into(), why };
        let versions = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|why| refused(why.to_string()))?;
        let verified = match verify_clients {
            false => versions.with_no_client_auth(),
            true => {
                let mut verifier = WebPkiClientVerifier::builder_with_provider(
                    Arc::new(authority(folder, now)?),
                    provider,
                );
                if folder.join(REVOKED).exists() {
                    verifier = verifier.with_crls(revoked(&read(folder, REVOKED)?)?);
                }
                let verifier = verifier.build().map_err(|why| refused(why.to_string()))?;
                versions.with_client_cert_verifier(verifier)
            }
        };
        let mut config = verified.with_single_cert(chain, key).map_err(|why| match why {
            rustls::Error::InconsistentKeys(_) => {
                TlsError::OtherKey { key: key_file.path.clone(), certificate: own.path.clone() }
            }
            why => refused(why.to_string()),
        })?;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(TlsServer { config: Arc::new(config), verifies_clients: verify_clients })
    }
}

struct Read {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Read {
    fn wrong(&self, what: impl Into<String>) -> TlsError {
        TlsError::Content { path: self.path.clone(), what: what.into() }
    }

    fn has(&self, word: &str) -> bool {
        self.bytes.windows(word.len()).any(|part| part == word.as_bytes())
    }
}

fn read(folder: &Path, name: &str) -> Result<Read, TlsError> {
    let path = folder.join(name);
    let failed = |source| TlsError::File { path: path.clone(), source };
    let meta = std::fs::metadata(&path).map_err(failed)?;
    if !meta.is_file() {
        let what = "it is no file".to_owned();
        return Err(TlsError::Content { path, what });
    }
    if meta.len() > FILE_BYTES_MAX {
        let what = format!("it has {} bytes, which no certificate has", meta.len());
        return Err(TlsError::Content { path, what });
    }
    if name == KEY && meta.permissions().mode() & 0o007 != 0 {
        tracing::warn!(
            "{}: other users of this machine may open the server's key; `chmod o= {0}` closes it",
            path.display()
        );
    }
    let bytes = std::fs::read(&path).map_err(failed)?;
    Ok(Read { path, bytes })
}

/// All certificates of a file, at least one.
fn certificates(file: &Read) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let mut found = Vec::new();
    for one in CertificateDer::pem_slice_iter(&file.bytes) {
        let one = one.map_err(|why| file.wrong(damaged(&why)))?;
        names::holds(&one, SystemTime::now()).map_err(|why| {
            file.wrong(format!("certificate {} in it is damaged: {why}", found.len() + 1))
        })?;
        found.push(one);
    }
    match found.is_empty() {
        false => Ok(found),
        true => Err(file.wrong(match file.has("PRIVATE KEY-----") {
            true => "it holds a key and no certificate: were two files exchanged?",
            false => "it holds no certificate; one begins with -----BEGIN CERTIFICATE-----",
        })),
    }
}

fn key(file: &Read) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(&file.bytes).map_err(|why| {
        let path = file.path.display();
        file.wrong(match why {
            pem::Error::NoItemsFound if file.has("ENCRYPTED PRIVATE KEY-----") => format!(
                "the key is encrypted, and nobody is there to type the password: `openssl pkey -in {path} \
                 -out NEW` writes it without one"
            ),
            pem::Error::NoItemsFound if file.has("BEGIN CERTIFICATE-----") => {
                "it holds a certificate and no key: were two files exchanged?".into()
            }
            pem::Error::NoItemsFound => {
                "it holds no key; one begins with -----BEGIN PRIVATE KEY-----".into()
            }
            why => damaged(&why),
        })
    })
}

fn damaged(why: &pem::Error) -> String {
    format!("it is no sound PEM file: {why}")
}

/// Those who vouch for clients.
fn authority(folder: &Path, now: SystemTime) -> Result<RootCertStore, TlsError> {
    let file = read(folder, AUTHORITY)?;
    let mut roots = RootCertStore::empty();
    let found = certificates(&file)?;
    dated(&file.path, &found, now)?;
    for one in found {
        roots.add(one).map_err(|why| file.wrong(format!("it is of no authority: {why}")))?;
    }
    Ok(roots)
}

fn revoked(file: &Read) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    let lists = CertificateRevocationListDer::pem_slice_iter(&file.bytes);
    let lists: Vec<_> = lists.collect::<Result<_, _>>().map_err(|why| file.wrong(damaged(&why)))?;
    match lists.is_empty() {
        false => Ok(lists),
        true => Err(file.wrong(
            "it holds no list of revoked certificates; one begins with -----BEGIN X509 CRL-----",
        )),
    }
}

/// They hold today; what ends soon is told of.
fn dated(path: &Path, found: &[CertificateDer<'_>], now: SystemTime) -> Result<(), TlsError> {
    let wrong =
        |when, day: Day| Err(TlsError::Date { path: path.into(), when, day: day.to_string() });
    for one in found {
        let damaged = |what| TlsError::Content { path: path.into(), what };
        match names::holds(one, now).map_err(damaged)? {
            Holds::NotYet(day) => return wrong("holds only from", day),
            Holds::NoMore(day) => return wrong("expired on", day),
            Holds::For(days) if days < DAYS_WARN => {
                tracing::warn!("{}: the certificate ends in {days} days", path.display());
            }
            Holds::For(_) => {}
        }
    }
    Ok(())
}
