//! Where do a test's certificates come from? They are made for it, as an administrator would make them.

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams,
    SerialNumber, date_time_ymd,
};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Dates of a certificate: from and until which year.
pub type Years = (i32, i32);

/// Those of one that holds today.
pub const HOLDS: Years = (2020, 2120);
/// Those of one that does no more.
pub const EXPIRED: Years = (2020, 2021);

/// One who signs certificates.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its key, as text.
pub struct Pair {
    pub certificate: String,
    pub key: String,
}

impl Authority {
    pub fn new(name: &str) -> Authority {
        Authority::dated(name, HOLDS)
    }

    pub fn dated(name: &str, years: Years) -> Authority {
        let mut params = params(name, &[], years);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().unwrap();
        Authority { issuer: CertifiedIssuer::self_signed(params, key).unwrap() }
    }

    /// What `ca-cert.pem` holds.
    pub fn certificate(&self) -> String {
        self.issuer.pem()
    }

    /// A server's, for this machine.
    pub fn server(&self, years: Years) -> Pair {
        let mut params = params("tandem", &["localhost", "127.0.0.1"], years);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(&params)
    }

    /// A client's with this common name and number, and further DNS names.
    pub fn client(&self, name: &str, others: &[&str], number: u8, years: Years) -> Pair {
        let mut params = params(name, others, years);
        params.serial_number = Some(SerialNumber::from_slice(&[number]));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(&params)
    }

    fn sign(&self, params: &CertificateParams) -> Pair {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &*self.issuer).unwrap();
        Pair { certificate: certificate.pem(), key: key.serialize_pem() }
    }

    /// A list that revokes the client of this number.
    pub fn revoked(&self, number: u8) -> String {
        let revoked = RevokedCertParams {
            serial_number: SerialNumber::from_slice(&[number]),
            revocation_time: date_time_ymd(2021, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2021, 1, 1),
            next_update: date_time_ymd(2120, 1, 1),
            crl_number: SerialNumber::from_slice(&[1]),
            issuing_distribution_point: None,
            revoked_certs: vec![revoked],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&*self.issuer).unwrap().pem().unwrap()
    }
}

fn params(name: &str, others: &[&str], (from, until): Years) -> CertificateParams {
    let others: Vec<String> = others.iter().map(|&name| name.into()).collect();
    let mut params = CertificateParams::new(others).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = date_time_ymd(from, 1, 1);
    params.not_after = date_time_ymd(until, 1, 1);
    params
}

/// A folder with these files.
pub fn folder(at: &Path, files: &[(&str, &str)]) -> PathBuf {
    fs::create_dir_all(at).unwrap();
    for (name, text) in files {
        fs::write(at.join(name), text).unwrap();
        let mode = if name.ends_with("-key.pem") { 0o600 } else { 0o644 };
        fs::set_permissions(at.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    at.to_owned()
}

/// The folder of a server.
pub fn server_folder(at: &Path, authority: &Authority) -> PathBuf {
    let own = authority.server(HOLDS);
    folder(
        at,
        &[
            ("ca-cert.pem", &authority.certificate()),
            ("server-cert.pem", &own.certificate),
            ("server-key.pem", &own.key),
        ],
    )
}

/// The folder of a client; it believes `server`'s authority.
pub fn client_folder(at: &Path, server: &Authority, own: Option<&Pair>) -> PathBuf {
    folder(at, &[("ca-cert.pem", &server.certificate())]);
    if let Some(own) = own {
        folder(at, &[("client-cert.pem", &own.certificate), ("client-key.pem", &own.key)]);
    }
    at.to_owned()
}
