//! Which drive was measured, and when? A profile of another drive is not used for this one.

use serde::Deserialize;
use tandem_drives::spec::Bytes;

/// The drive that a profile was measured on.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// What it calls itself, or the name of a spec.
    pub model: String,
    /// Its serial number; empty where it tells none.
    pub serial: String,
    /// Its size.
    pub size: Bytes,
    /// The day, as in 2026-01-31.
    pub measured: String,
}

/// Why a profile is not of this drive, or not of these days.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Misfit {
    /// Another serial number.
    #[error("it was measured on the drive with serial number {profile}, and this one has {drive}")]
    Serial {
        /// The profile's.
        profile: String,
        /// The drive's.
        drive: String,
    },
    /// Another size.
    #[error("it was measured on a drive of {profile} bytes, and this one has {drive}")]
    Size {
        /// The profile's.
        profile: u64,
        /// The drive's.
        drive: u64,
    },
    /// Too long ago.
    #[error(
        "it was measured on {measured}, {days} days ago: run `tandem profile` again, or allow a \
         greater age with profile_age_days"
    )]
    Stale {
        /// When.
        measured: String,
        /// Days since.
        days: u64,
    },
}

impl Identity {
    /// What makes no sense about it.
    pub(super) fn fault(&self) -> Option<&'static str> {
        (self.day().is_none()).then_some("has no day `measured` of the form 2026-01-31")
    }

    /// Days from 1970-01-01 to the measurement.
    pub fn day(&self) -> Option<u64> {
        let mut parts = self.measured.split('-').map(|part| part.parse::<u64>().ok());
        let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
        let sound = parts.next().is_none()
            && (1970..=9999).contains(&year)
            && (1..=12).contains(&month)
            && (1..=31).contains(&day);
        sound.then(|| days_from_civil(year, month, day))
    }

    /// Is it the profile of this drive, measured within `age_days` before `today`?
    ///
    /// # Errors
    /// In what they differ. A serial number that either does not tell is no difference.
    pub fn check(
        &self,
        serial: Option<&str>,
        size_bytes: u64,
        (today, age_days): (u64, u64),
    ) -> Result<(), Misfit> {
        if let Some(drive) = serial
            && !drive.is_empty()
            && !self.serial.is_empty()
            && drive != self.serial
        {
            let (profile, drive) = (self.serial.clone(), drive.to_owned());
            return Err(Misfit::Serial { profile, drive });
        }
        if self.size.0 != size_bytes {
            return Err(Misfit::Size { profile: self.size.0, drive: size_bytes });
        }
        let days = today.saturating_sub(self.day().unwrap_or(0));
        if days > age_days {
            return Err(Misfit::Stale { measured: self.measured.clone(), days });
        }
        Ok(())
    }

    /// The day that many days after 1970-01-01, as it is written.
    pub fn written_day(days: u64) -> String {
        let (year, month, day) = civil_from_days(days);
        format!("{year:04}-{month:02}-{day:02}")
    }
}

/// Days before a month of a year that begins in March.
fn days_before(month_from_march: u64) -> u64 {
    (153 * month_from_march + 2) / 5
}

/// Source: the proleptic Gregorian calendar, counted in eras of 400 years from March on.
fn days_from_civil(year: u64, month: u64, day: u64) -> u64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let of_era = year % 400;
    let of_year = days_before(month) + day - 1;
    year / 400 * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn civil_from_days(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let of_era = days % 146_097;
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - days_before(month) + 1;
    let year = year_of_era + days / 146_097 * 400;
    if month < 10 { (year, month + 3, day) } else { (year + 1, month - 9, day) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> Identity {
        Identity {
            model: "a drive".to_owned(),
            serial: "S1".to_owned(),
            size: Bytes(1_000_000),
            measured: "2026-03-01".to_owned(),
        }
    }

    #[test]
    fn days_are_counted_both_ways() {
        for (days, text) in [(0, "1970-01-01"), (11_016, "2000-02-29"), (20_513, "2026-03-01")] {
            assert_eq!(Identity::written_day(days), text);
            let identity = Identity { measured: text.to_owned(), ..identity() };
            assert_eq!(identity.day(), Some(days), "{text}");
        }
        for bad in ["", "2026", "2026-13-01", "yesterday", "2026-01-01-01"] {
            assert_eq!(Identity { measured: bad.to_owned(), ..identity() }.day(), None, "{bad}");
        }
    }

    #[test]
    fn another_drive_or_an_old_day_is_told() {
        let (day, year) = (20_513, 365);
        let check = |serial, size, today| identity().check(serial, size, (today, year));
        assert_eq!(check(Some("S1"), 1_000_000, day + 365), Ok(()));
        assert_eq!(check(None, 1_000_000, day), Ok(()));
        assert!(matches!(check(Some("S2"), 1_000_000, day), Err(Misfit::Serial { .. })));
        assert!(matches!(check(Some("S1"), 1_000_001, day), Err(Misfit::Size { .. })));
        let stale = check(Some("S1"), 1_000_000, day + 366).expect_err("too old");
        assert!(stale.to_string().contains("2026-03-01, 366 days ago"), "{stale}");
    }
}
