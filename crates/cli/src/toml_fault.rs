//! What is wrong with a file that a person wrote, and in which line?

use crate::failure::ConfigFault;
use serde::de::DeserializeOwned;
use std::path::Path;
use tandem_traces::spell;
use toml::Spanned;

/// Longest file that is read, in bytes: one is a few pages of text.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// What is wrong, and at which byte.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The byte, where there is one.
    pub at: Option<usize>,
    /// What is wrong and what would do.
    pub text: String,
}

impl Fault {
    /// About this value.
    pub fn at<T>(value: &Spanned<T>, text: impl Into<String>) -> Fault {
        Fault { at: Some(value.span().start), text: text.into() }
    }

    /// About the whole.
    pub fn whole(text: impl Into<String>) -> Fault {
        Fault { at: None, text: text.into() }
    }

    /// With the line of `text`, which is what `path` holds.
    pub fn in_file(self, path: &Path, text: &str) -> ConfigFault {
        ConfigFault {
            file: path.display().to_string(),
            line: self.at.map(|at| line_of(text, at)),
            text: self.text,
        }
    }
}

/// The line of a byte, counted from 1.
pub fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at.min(text.len())].iter().filter(|&&byte| byte == b'\n').count() + 1
}

/// The text of a file that is `what` ("a configuration").
///
/// # Errors
/// If it cannot be read, or is too long to be one.
pub fn read_file(path: &Path, what: &str) -> Result<String, ConfigFault> {
    let fault = |text: String| Fault::whole(text).in_file(path, "");
    let length = std::fs::metadata(path).map_err(|why| fault(why.to_string()))?.len();
    if length > FILE_BYTES_MAX {
        return Err(fault(format!("it is larger than 1 MiB, so it is no {what}")));
    }
    std::fs::read_to_string(path).map_err(|why| fault(why.to_string()))
}

/// Reads the text.
///
/// # Errors
/// Names the line, and for an unknown key the known one that is spelled most like it.
pub fn parse<T: DeserializeOwned>(text: &str) -> Result<T, Fault> {
    toml::from_str(text).map_err(|error| Fault {
        at: error.span().map(|span| span.start),
        text: explain(error.message()),
    })
}

/// Keys that were called otherwise before, and what they are called now.
const RENAMED: [(&str, &str); 2] = [("second_home_lag", "metadata_replica_lag"), ("twin", "leg")];

/// An unknown key is told with what it is called now, or with the known one that is spelled most like it.
fn explain(message: &str) -> String {
    let names: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    match names.as_slice() {
        [unknown, known @ ..] if message.starts_with("unknown field") && !known.is_empty() => {
            let now = RENAMED.iter().find(|(old, now)| old == unknown && known.contains(now));
            if let Some((_, now)) = now {
                return format!("{unknown:?} is now called {now:?}");
            }
            let nearest = spell::nearest(unknown, known.iter().copied());
            let known = known.join(", ");
            format!("unknown key {unknown:?}; did you mean {nearest:?}? (known here: {known})")
        }
        _ => message.replace("missing field", "missing key"),
    }
}
