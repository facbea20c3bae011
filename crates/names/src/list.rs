//! Which names does a directory have, and how does a listing go on while they change?
//!
//! By position: what was there all the time is listed once, whatever is made and removed meanwhile.

use crate::entry;
use crate::error::NameError;
use crate::inode::Kind;
use crate::objects::Objects;
use crate::tree::Tree;
use tandem_block::ObjectId;

/// The cookie with which a listing begins.
pub const FIRST_COOKIE: u64 = 0;
/// The cookies behind `.` and `..`.
const DOT: u64 = 1;
const DOT_DOT: u64 = 2;

/// One line of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed<'a> {
    /// The listing goes on behind this line with it; never above 2^63.
    pub cookie: u64,
    /// Whose name it is.
    pub object: ObjectId,
    /// What that is.
    pub kind: Kind,
    /// The name.
    pub name: &'a [u8],
}

impl Tree {
    /// The names of a directory behind a cookie, `.` and `..` first.
    ///
    /// # Errors
    /// `NotDirectory`, `NotFound`, `OtherVolume`, `Damaged`; the last one for single lines, too.
    pub fn list<'a>(
        &self,
        on: &'a impl Objects,
        directory: ObjectId,
        after: u64,
    ) -> Result<impl Iterator<Item = Result<Listed<'a>, NameError>>, NameError> {
        let parent = self.directory(on, directory)?.parent;
        let mut at = after;
        let dots = |cookie, object, name| Listed { cookie, object, kind: Kind::Directory, name };
        Ok(std::iter::from_fn(move || {
            let listed = match at {
                FIRST_COOKIE => dots(DOT, directory, b".".as_slice()),
                DOT => dots(DOT_DOT, parent, b"..".as_slice()),
                _ => match entry::next(on, directory, at) {
                    Ok(None) => return None,
                    Err(error) => return Some(Err(error)),
                    Ok(Some((cookie, found))) => {
                        Listed { cookie, object: found.object, kind: found.kind, name: found.name }
                    }
                },
            };
            at = listed.cookie;
            Some(Ok(listed))
        }))
    }
}
