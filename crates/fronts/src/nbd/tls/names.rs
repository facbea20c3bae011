//! Names in a certificate. Who does it say that its owner is, and until when does it hold?

use rustls::pki_types::CertificateDer;
use std::time::{SystemTime, UNIX_EPOCH};
use x509_cert::Certificate;
use x509_cert::der::Decode as _;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

/// The common name, and the DNS names of the alternative ones, of a certificate that was verified.
pub(super) fn of(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Ok(certificate) = Certificate::from_der(certificate) else { return Vec::new() };
    let body = certificate.tbs_certificate();
    let mut names = Vec::new();
    if let Ok(Some(common)) = body.subject().common_name() {
        names.push(common.value().into_owned());
    }
    if let Ok(Some((_, others))) = body.get_extension::<SubjectAltName>() {
        names.extend(others.0.into_iter().filter_map(|name| match name {
            GeneralName::DnsName(name) => Some(name.to_string()),
            _ => None,
        }));
    }
    names
}

/// When a certificate holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holds {
    /// Not before this date, a day as people write it.
    NotYet(Day),
    /// No more since then.
    NoMore(Day),
    /// For so many days.
    For(u64),
}

/// A day of the calendar, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Day(u16, u8, u8);

impl std::fmt::Display for Day {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.0, self.1, self.2)
    }
}

/// Does it hold now? An error if it is no certificate.
pub(super) fn holds(certificate: &CertificateDer<'_>, now: SystemTime) -> Result<Holds, String> {
    let certificate = Certificate::from_der(certificate).map_err(|why| why.to_string())?;
    let validity = certificate.tbs_certificate().validity();
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let day = |time: &x509_cert::time::Time| {
        let date = time.to_date_time();
        Day(date.year(), date.month(), date.day())
    };
    if now < validity.not_before.to_unix_duration() {
        return Ok(Holds::NotYet(day(&validity.not_before)));
    }
    match validity.not_after.to_unix_duration().checked_sub(now) {
        None => Ok(Holds::NoMore(day(&validity.not_after))),
        Some(left) => Ok(Holds::For(left.as_secs() / 86_400)),
    }
}
