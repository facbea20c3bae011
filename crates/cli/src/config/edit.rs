//! How is one device of a configuration changed without touching the rest of its text?

use super::{PoolConfig, file};
use crate::toml_fault;
use std::ops::Range;
use std::path::Path;

/// A change to one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// It has a successor of this path.
    Begin(String),
    /// The successor's path is its own.
    Finish,
    /// It has none any more.
    Forget,
    /// It was removed.
    Remove,
}

/// The text after a change, and what it says.
///
/// # Errors
/// If the text is written in a way that cannot be changed so, in words.
pub fn edited(
    text: &str,
    path: &Path,
    device: usize,
    edit: &Edit,
) -> Result<(String, PoolConfig), String> {
    let parsed: file::File = toml_fault::parse(text).map_err(|fault| fault.text)?;
    let entry = parsed.device.get(device).ok_or("the device is not listed any more")?.get_ref();
    let (own, successor) = (&entry.path, entry.successor.as_ref());
    let mut text = text.to_owned();
    let quoted = |path: &str| toml::Value::String(path.to_owned()).to_string();
    match (edit, successor) {
        (Edit::Begin(new), None) => {
            add_below(&mut text, &own.span(), &format!("successor = {}", quoted(new)));
        }
        (Edit::Remove, None) if entry.gone.is_none() => {
            add_below(&mut text, &own.span(), "gone = true # removed: the entry keeps its number");
        }
        (Edit::Remove, _) => return Err("the device is gone, or being replaced".into()),
        (Edit::Finish | Edit::Forget, Some(successor)) => {
            let line = line_around(&text, &successor.span());
            if !text[line.clone()].trim_start().starts_with("successor") {
                return Err("the successor does not stand on a line of its own".into());
            }
            let mut changes = vec![(line, String::new())];
            if *edit == Edit::Finish {
                changes.push((own.span(), quoted(successor.get_ref())));
            }
            // whose place was empty
            if let (Edit::Finish, Some(gone)) = (edit, &entry.gone) {
                let line = line_around(&text, &gone.span());
                if !text[line.clone()].trim_start().starts_with("gone") {
                    return Err("`gone` does not stand on a line of its own".into());
                }
                changes.push((line, String::new()));
            }
            // what stands behind is changed before what stands before
            changes.sort_by_key(|(range, _)| std::cmp::Reverse(range.start));
            for (range, new) in changes {
                text.replace_range(range, &new);
            }
        }
        (Edit::Begin(_), Some(_)) => return Err("the device has a successor already".into()),
        (_, None) => return Err("the device has no successor any more".into()),
    }
    let pool = PoolConfig::parse(&text, path).map_err(|fault| fault.to_string())?;
    Ok((text, pool))
}

/// Adds a line below the one that a value stands on.
fn add_below(text: &mut String, value: &Range<usize>, added: &str) {
    let line = line_around(text, value);
    let rest = &text[line.start..];
    let indent = &rest[..rest.len() - rest.trim_start_matches([' ', '\t']).len()];
    let gap = if text[..line.end].ends_with('\n') { "" } else { "\n" };
    let added = format!("{gap}{indent}{added}\n");
    text.insert_str(line.end, &added);
}

/// The line that a value stands on, with its end.
fn line_around(text: &str, value: &Range<usize>) -> Range<usize> {
    let start = text[..value.start].rfind('\n').map_or(0, |at| at + 1);
    let end = text[value.end..].find('\n').map_or(text.len(), |at| value.end + at + 1);
    start..end
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# mine\n[pool]\nname = \"p\"\n\n[[device]]\nrole = \"ssd\"  # fast\n  path = \"a.img\" # the old one\nsize = \"1GiB\"\n\n[[device]]\npath = \"h.img\"\nrole = \"hdd\"\n\n[[volume]]\nname = \"v\"\nsize = \"1GiB\"\n";

    fn change(text: &str, edit: &Edit) -> String {
        edited(text, Path::new("/x/pool.toml"), 0, edit).expect("it can be changed").0
    }

    #[test]
    fn comments_and_the_rest_stay() {
        let begun = change(TEXT, &Edit::Begin("b \"2\".img".into()));
        let line = "  path = \"a.img\" # the old one\n  successor = ";
        assert!(begun.contains(line), "{begun}");
        let (_, pool) = edited(&begun, Path::new("/x/pool.toml"), 0, &Edit::Finish).unwrap();
        assert_eq!(pool.devices[0].label(), "/x/b \"2\".img");
        assert!(pool.successor.is_none());
        assert_eq!(change(&begun, &Edit::Forget), TEXT);
        let (removed, pool) = edited(TEXT, Path::new("/x/pool.toml"), 0, &Edit::Remove).unwrap();
        assert!(removed.contains("# the old one\n  gone = true"), "{removed}");
        assert!(pool.devices[0].gone && !pool.devices[1].gone);
        assert!(edited(&removed, Path::new("/x/pool.toml"), 0, &Edit::Remove).is_err());
        let filled = change(&change(&removed, &Edit::Begin("c.img".into())), &Edit::Finish);
        assert_eq!(filled, TEXT.replace("a.img", "c.img"), "a drive took the empty place");
        let (begun_again, pool) =
            edited(&removed, Path::new("/x/pool.toml"), 0, &Edit::Begin("a.img".into())).unwrap();
        let (_, comes) = pool.successor.expect("the same drive comes back");
        assert!(pool.devices[0].gone && !comes.gone);
        assert_eq!(change(&begun_again, &Edit::Finish), TEXT);
        assert_eq!(change(&begun_again, &Edit::Forget), removed);
        let finished = change(&begun, &Edit::Finish);
        assert!(
            finished.contains("# the old one\nsize") && finished.contains("# mine"),
            "{finished}"
        );
        assert!(!finished.contains("a.img") && !finished.contains("successor"), "{finished}");
    }

    #[test]
    fn what_does_not_fit_is_said() {
        let path = Path::new("/x/pool.toml");
        let begun = change(TEXT, &Edit::Begin("b.img".into()));
        for (text, device, edit) in [
            (TEXT, 0, Edit::Finish),
            (TEXT, 7, Edit::Finish),
            (&*begun, 0, Edit::Begin("c.img".into())),
            (TEXT, 0, Edit::Begin("h.img".into())),
        ] {
            assert!(edited(text, path, device, &edit).is_err(), "{edit:?}");
        }
    }
}
