//! Which profile is meant: a shipped one by its name, or a file?

use std::io::Read as _;
use std::path::Path;
use tandem_sim::profiles::{self, DriveProfile, ProfileKind};
use tandem_traces::spell;

/// Longest profile that is read, in bytes: a measured one with all its tables is a few pages of text.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The profile of this name, for a drive of this role. A name that ends in `.toml` is a file, looked for from `folder`.
///
/// # Errors
/// If there is none, the file cannot be read or is no profile, or it is of the other role. The text says what to do.
pub fn named(name: &str, folder: &Path, of_hdd: bool) -> Result<DriveProfile, String> {
    let profile = if name.ends_with(".toml") {
        let path = folder.join(name);
        let origin = path.display().to_string();
        let text =
            text_of(&path).map_err(|why| format!("cannot read the profile {origin}: {why}"))?;
        profiles::parse(&text, &origin).map_err(|why| why.to_string())?
    } else {
        profiles::shipped(name).ok_or_else(|| {
            let known = profiles::SHIPPED.iter().map(|(known, _)| *known);
            let nearest = spell::nearest(name, known);
            format!(
                "there is no profile called {name:?}; did you mean {nearest:?}? (a file must end in .toml)"
            )
        })?
    };
    let is_of_hdd = match profile.kind {
        ProfileKind::Hdd(_) | ProfileKind::NoStaircase(_) => true,
        ProfileKind::Ssd { .. } => false,
    };
    if is_of_hdd == of_hdd {
        Ok(profile)
    } else {
        Err(format!("the profile {name:?} is of the other role than this device"))
    }
}

fn text_of(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    let read = std::fs::File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if read as u64 > FILE_BYTES_MAX {
        return Err(std::io::Error::other("it is larger than 1 MiB, so it is no profile"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_a_name_or_a_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("mine.toml");
        let shipped = profiles::SHIPPED.iter().find(|(name, _)| *name == "wd100efax");
        let (_, text) = shipped.expect("a shipped profile");
        std::fs::write(&file, text.replace("\"wd100efax\"", "\"mine\"")).expect("room");
        std::fs::write(folder.path().join("bad.toml"), "name = 3").expect("room");
        let huge = "#".repeat(FILE_BYTES_MAX as usize + 1);
        std::fs::write(folder.path().join("huge.toml"), huge).expect("room");
        let named = |name, of_hdd| named(name, folder.path(), of_hdd);
        assert_eq!(named("mine.toml", true).map(|profile| profile.name), Ok("mine".into()));
        assert_eq!(named("x25e", false).map(|profile| profile.name), Ok("x25e".into()));
        for (name, of_hdd, want) in [
            ("wd100efx", true, "did you mean \"wd100efax\""),
            ("gone.toml", true, "cannot read the profile"),
            ("bad.toml", true, "is not a drive profile"),
            ("huge.toml", true, "larger than 1 MiB"),
            ("x25e", true, "of the other role"),
            ("mine.toml", false, "of the other role"),
        ] {
            let why = named(name, of_hdd).expect_err(name);
            assert!(why.contains(want), "{name}: {why}");
        }
    }
}
