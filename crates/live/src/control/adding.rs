//! How does a drive come to a pool that is served?
//!
//! It takes a place that is empty since a drive was removed. Of several the largest that it fits is taken.

use super::{Asked, Control, Prepared};
use crate::front::FrontContext;
use serde_json::{Value, json};
use std::io;
use std::path::Path;

/// A drive that shall come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addition {
    /// Its path.
    pub drive: String,
    /// What it shall be for, if that has to be said: `ssd` or `hdd`.
    pub role: Option<String>,
    /// Whose place it shall take: what the configuration calls the drive that was removed.
    pub bay: Option<String>,
    /// Whatever it holds.
    pub force: bool,
    /// Only say what would be done.
    pub dry_run: bool,
}

impl Addition {
    pub(super) fn parse(request: &Value) -> Result<Asked, String> {
        let word = |name| match request.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(_) => super::text(request, name).map(Some),
        };
        let role = word("role")?;
        if !matches!(role.as_deref(), None | Some("ssd" | "hdd")) {
            return Err("\"role\" must be ssd or hdd".into());
        }
        Ok(Asked::Add(Addition {
            drive: super::text(request, "drive")?,
            role,
            bay: word("bay")?,
            force: super::flag(request, "force")?,
            dry_run: super::flag(request, "dry_run")?,
        }))
    }
}

impl Control {
    /// Begins it, or says what would be done.
    pub(super) fn add(
        &self,
        it: &Addition,
        context: &mut FrontContext<'_>,
    ) -> Result<Value, String> {
        let registrar = self.registrar.as_ref().ok_or("no drives come to this pool")?;
        let places = registrar.borrow().places(it.role.as_deref(), it.bay.as_deref())?;
        if let Some(&(first, _)) = places.first() {
            // for what is wrong with the pool, whatever the drive is
            context.can_replace(first, u64::MAX)?;
        }
        let looked = registrar.borrow().look_at(&it.drive)?;
        let wanted = |device| context.empty_place(device).map_or(0, |(wanted, _)| wanted);
        let mut places: Vec<_> =
            places.into_iter().map(|(device, label)| (wanted(device), device, label)).collect();
        places.sort_by_key(|&(wanted, device, _)| (std::cmp::Reverse(wanted), device));
        let fits = places.iter().find(|(wanted, ..)| *wanted <= looked.bytes);
        let Some((wanted, device, label)) = fits.or(places.last()).cloned() else {
            return Err("the pool has no empty bay".into());
        };
        context.can_replace(device, looked.bytes)?;
        let told = json!({
            "adding": it.drive,
            "device": device.0,
            "bay": label,
            "wanted_bytes": wanted,
            "found_bytes": looked.bytes,
            "holds": looked.holds,
            "bytes": context.empty_place(device).map_or(0, |(_, bytes)| bytes),
        });
        if it.dry_run {
            return Ok(told);
        }
        let prepared = registrar.borrow().prepare_for(device, &it.drive, it.force)?;
        self.begin_replace(prepared, &it.drive, context)?;
        Ok(told)
    }

    /// A drive takes a place, and that is noted.
    pub(super) fn begin_replace(
        &self,
        Prepared { device, config, uuid }: Prepared,
        new: &str,
        context: &mut FrontContext<'_>,
    ) -> Result<(), String> {
        let registrar = self.registrar.as_ref().ok_or("this pool's drives cannot be replaced")?;
        context.replace(device, config, uuid)?;
        let noted = registrar.borrow_mut().begun(device, new);
        if noted.is_err() {
            // a crash would leave nobody who knows of it
            context.cancel_replace()?;
        }
        noted
    }
}

/// Asks the server behind this socket to add a drive, or what that would do.
///
/// # Errors
/// If nobody listens or answers; what the server refuses is in its answer, under `error`.
pub fn ask_to_add(socket: &Path, it: &Addition) -> io::Result<Value> {
    let asked = json!({
        "verb": "add", "drive": it.drive, "role": it.role, "bay": it.bay, "force": it.force,
        "dry_run": it.dry_run,
    });
    super::send(socket, &asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_read() {
        let parse = |text: &str| Asked::parse(text.as_bytes());
        let asked = parse(r#"{"verb":"add","drive":"/dev/sdx","role":null,"bay":"a.img"}"#);
        let (role, bay) = (None, Some("a.img".into()));
        let drive = "/dev/sdx".into();
        let wanted = Addition { drive, role, bay, force: false, dry_run: false };
        assert_eq!(asked, Ok(Asked::Add(wanted)));
        for bad in [r#"{"verb":"add"}"#, r#"{"verb":"add","drive":"/x","role":"tape"}"#] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    /// Seen: a client of before named the bay `place`, and the server took the first empty one instead.
    #[test]
    fn a_key_that_nobody_knows_is_refused() {
        let error = |text: &str| Asked::parse(text.as_bytes()).unwrap_err();
        let old = error(r#"{"verb":"add","drive":"/dev/sdx","place":"a.img"}"#);
        assert!(old.contains(r#""place" of the verb "add" is now called "bay""#), "{old}");
        let unknown = error(r#"{"verb":"drain","drive":"/dev/sdx","dryrun":true}"#);
        assert!(unknown.contains(r#""dryrun": its keys are drive, dry_run"#), "{unknown}");
        let none = error(r#"{"verb":"stop","now":true}"#);
        assert!(none.contains(r#""now": it has no other keys"#), "{none}");
    }
}
