//! A file that is written at the end of a long run: can it be written at all?

use crate::failure::Failure;
use anyhow::{Context as _, anyhow};
use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};

/// Its old content stays until the new one is there.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
}

impl Output {
    /// The file that an option names. It is tried now, and left as it was.
    ///
    /// # Errors
    /// It cannot be written to.
    pub fn check(option: &str, path: &Path) -> Result<Output, Failure> {
        let tried = match OpenOptions::new().write(true).create_new(true).open(path) {
            Ok(_) => std::fs::remove_file(path),
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {
                OpenOptions::new().write(true).open(path).map(drop)
            }
            Err(why) => Err(why),
        };
        tried.map_err(|why| {
            let path = path.display();
            anyhow!(
                "{option} {path}: {why}; name a file that you may write, in a folder that is there"
            )
        })?;
        Ok(Output { path: path.to_owned() })
    }

    /// Writes all of it, and nothing of what was there stays.
    ///
    /// # Errors
    /// What the file answers.
    pub fn write(self, text: &str) -> Result<(), Failure> {
        std::fs::write(&self.path, text).with_context(|| self.path.display().to_string())?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_left_as_it_was_until_it_is_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("page.html");
        let output = Output::check("--report", &path).expect("it may be written");
        assert!(!path.exists(), "nothing came yet");
        output.write("a long text").expect("written");
        let output = Output::check("--report", &path).expect("it may be written again");
        let read = || std::fs::read_to_string(&path).expect("it is there");
        assert_eq!(read(), "a long text");
        output.write("short").expect("written");
        assert_eq!(read(), "short");
        for place in [folder.path().to_owned(), folder.path().join("none/page.html")] {
            let Err(Failure::Failed(error)) = Output::check("--report", &place) else {
                panic!("{} is no file to write to", place.display());
            };
            let text = error.to_string();
            assert!(text.contains("--report") && text.contains("that you may write"), "{text}");
        }
    }
}
