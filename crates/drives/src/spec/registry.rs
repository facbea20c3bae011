//! Which drives are known by name? One line per file of `specs/`.

use super::{DriveSpec, SpecError};

/// What sort of drive is it?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DriveKind {
    /// A hard drive.
    Hdd,
    /// An SSD.
    Ssd,
    /// Answers at once.
    Null,
}

impl std::fmt::Display for DriveKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            DriveKind::Hdd => "hdd",
            DriveKind::Ssd => "ssd",
            DriveKind::Null => "null",
        })
    }
}

/// One built-in spec.
#[derive(Clone, Copy, Debug)]
pub struct KnownSpec {
    /// The name it is asked for by.
    pub name: &'static str,
    /// One line about it.
    pub about: &'static str,
    /// What sort of drive.
    pub kind: DriveKind,
    text: &'static str,
}

impl KnownSpec {
    /// The parsed spec.
    pub fn spec(&self) -> DriveSpec {
        DriveSpec::parse(self.text, self.name).expect("a test parses every built-in spec")
    }

    /// The spec's text, with the source of every number.
    pub fn text(&self) -> &'static str {
        self.text
    }
}

macro_rules! known {
    ($name:literal, $kind:ident, $about:literal) => {
        KnownSpec {
            name: $name,
            about: $about,
            kind: DriveKind::$kind,
            text: include_str!(concat!("../../specs/", $name, ".toml")),
        }
    };
}

/// Every built-in drive: SSDs, then hard drives, then null.
pub const SPECS: &[KnownSpec] = &[
    known!(
        "960evo",
        Ssd,
        "Samsung 960 EVO 250 GB, NVMe TLC with a 13 GB SLC cache: the SSD of BCW and the default"
    ),
    known!(
        "960evo-bcw",
        Ssd,
        "Samsung 960 EVO 250 GB as BCW used it: a write of 4 KiB occupies it for 22 us"
    ),
    known!(
        "960evo-bcw-85us",
        Ssd,
        "Samsung 960 EVO 250 GB as Pangu's load implies: a write of 4 KiB occupies it for 85 us"
    ),
    known!(
        "660p",
        Ssd,
        "Intel 660p 512 GB, NVMe QLC that folds its SLC cache: the slow SSD of BCW"
    ),
    known!("sm961", Ssd, "Samsung SM961 256 GB, NVMe MLC: the SSD of SeRW"),
    known!("x25e", Ssd, "Intel X25-E 64 GB, SATA SLC of 2008: drive A of Ianus"),
    known!("510", Ssd, "Intel 510 250 GB, SATA MLC of 2011: drive B of Ianus"),
    known!("vertex3", Ssd, "OCZ Vertex 3 Max IOPS 240 GB, SATA MLC: the SSD of Loris"),
    known!(
        "wd100efax",
        Hdd,
        "WD Red 10 TB, 16 MiB write buffer: the staircase of the BCW figures and the default HDD"
    ),
    known!("wd8004fryz", Hdd, "WD Gold 8 TB, 7200 rpm, 4 MiB write buffer"),
    known!(
        "wd40ezrz",
        Hdd,
        "WD Blue 4 TB, 5400 rpm, 2 MiB write buffer: the small drive of BCW and SeRW"
    ),
    known!("st8000dm0004", Hdd, "Seagate 8 TB, 7200 rpm, 16 MiB write buffer"),
    known!(
        "st4000dm004",
        Hdd,
        "Seagate 4 TB, shingled (SMR) with a media cache, 4 MiB write buffer"
    ),
    known!("wd5000aaks", Hdd, "WD Blue 500 GB, 7200 rpm: the hard drive of Loris"),
    known!("null", Null, "answers every command at once"),
];

/// Longest spec file that is read, in bytes: a spec is a page of text.
const SPEC_FILE_BYTES_MAX: u64 = 1 << 20;

/// The spec of this name, or in this file (a path ends in `.toml`).
///
/// # Errors
/// If nothing has that name (the nearest known one is told), or the file cannot be read or used.
pub fn load(name_or_path: &str) -> Result<DriveSpec, SpecError> {
    if let Some(known) = SPECS.iter().find(|known| known.name.eq_ignore_ascii_case(name_or_path)) {
        return Ok(known.spec());
    }
    if !name_or_path.ends_with(".toml") {
        return Err(SpecError::Unknown {
            name: name_or_path.to_owned(),
            nearest: nearest(name_or_path),
        });
    }
    let unreadable = |why| SpecError::Read { path: name_or_path.to_owned(), why };
    let length = std::fs::metadata(name_or_path).map_err(unreadable)?.len();
    if length > SPEC_FILE_BYTES_MAX {
        let why = std::io::Error::other("it is larger than 1 MiB, so it is no spec");
        return Err(unreadable(why));
    }
    let text = std::fs::read_to_string(name_or_path).map_err(unreadable)?;
    DriveSpec::parse(&text, name_or_path)
}

/// The known name with the smallest edit distance; the first of equals.
fn nearest(name: &str) -> &'static str {
    let name: String = name.chars().take(64).collect::<String>().to_ascii_lowercase();
    let best = SPECS.iter().min_by_key(|known| strsim::damerau_levenshtein(known.name, &name));
    best.expect("the registry is not empty").name
}
