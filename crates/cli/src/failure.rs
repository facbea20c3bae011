//! How does a verb fail?

use std::io;

/// Why a verb did not do what it was asked.
#[derive(Debug)]
pub enum Failure {
    /// The words of the command line make no sense: exit 2.
    Usage(String),
    /// The configuration makes no sense: exit 2.
    Configuration(ConfigFault),
    /// It was tried and went wrong: exit 1.
    Failed(anyhow::Error),
}

/// A configuration that cannot be used: where, what, and what would do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}: {text}", .line.map(|line| format!(", line {line}")).unwrap_or_default())]
pub struct ConfigFault {
    /// The file.
    pub file: String,
    /// The line, counted from 1, where there is one.
    pub line: Option<usize>,
    /// What is wrong with it.
    pub text: String,
}

impl Failure {
    /// A usage error from anything that can be said.
    pub fn usage(text: impl ToString) -> Failure {
        Failure::Usage(text.to_string())
    }

    /// Did the reader of our output go away?
    pub fn is_broken_pipe(&self) -> bool {
        let Failure::Failed(error) = self else { return false };
        error.chain().any(|cause| {
            let io = cause.downcast_ref::<io::Error>().map(io::Error::kind);
            let json = cause.downcast_ref::<serde_json::Error>().and_then(|e| e.io_error_kind());
            io.or(json) == Some(io::ErrorKind::BrokenPipe)
        })
    }
}

/// A failure in words, for a text that it is a part of.
pub fn said(failure: Failure) -> String {
    match failure {
        Failure::Usage(text) => text,
        Failure::Configuration(fault) => fault.to_string(),
        Failure::Failed(error) => format!("{error:#}"),
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Failure {
        match error.into().downcast::<ConfigFault>() {
            Ok(fault) => Failure::Configuration(fault),
            Err(error) => Failure::Failed(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context as _;

    #[test]
    fn a_broken_pipe_is_recognised_under_its_context() {
        let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
        let json = serde_json::Error::io(broken());
        let wrapped = Err::<(), _>(broken()).context("writing").expect_err("broken");
        for (failure, want) in [
            (Failure::from(broken()), true),
            (Failure::Failed(wrapped), true),
            (Failure::from(json), true),
            (Failure::from(io::Error::from(io::ErrorKind::NotFound)), false),
            (Failure::usage("no"), false),
        ] {
            assert_eq!(failure.is_broken_pipe(), want, "{failure:?}");
        }
    }
}
