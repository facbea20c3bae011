//! What does the user say of a pair that is not whole?

use crate::config::PoolConfig;
use crate::failure::Failure;
use crate::pool::{modes, signature};
use anyhow::{Context as _, anyhow, bail};
use std::fs::File;
use std::io::{ErrorKind, Seek as _, SeekFrom};
use std::path::Path;
use tandem_engine::mirror::JournalConfig;
use tandem_live::Backing;
use uuid::Uuid;

/// Tells the pool which leg or journal is new, and whether a pair may go on without what it lost.
///
/// # Errors
/// If no pair has this drive, or the drive holds something.
pub(super) fn apply(
    pool: &mut PoolConfig,
    new: Option<&Path>,
    accept_older: bool,
) -> Result<(), Failure> {
    if (new.is_some() || accept_older) && pool.legs.is_empty() {
        let text = "no device of this pool is a pair";
        return Err(Failure::Usage(text.into()));
    }
    for leg in &mut pool.legs {
        leg.config.accept_loss = accept_older;
    }
    let Some(path) = new else { return Ok(()) };
    let wanted = Backing::Path(path.to_path_buf());
    let same = |backing: &Backing| match (backing, &wanted) {
        (Backing::Path(known), Backing::Path(wanted)) => {
            known == wanted || known.file_name().is_some() && known.ends_with(wanted)
        }
        _ => false,
    };
    let mut found = None;
    for (index, leg) in pool.legs.iter().enumerate() {
        let first = &pool.devices[leg.device];
        for (half, drive) in [first, &leg.drive].into_iter().enumerate() {
            if same(&drive.backing) {
                found = Some((index, half as u8, drive.clone()));
            }
        }
    }
    for leg in &mut pool.legs {
        let Some(drive) = leg.journal.clone().filter(|drive| same(&drive.backing)) else {
            continue;
        };
        let Backing::Path(path) = &drive.backing else { unreachable!("journals are no memory") };
        make(path, drive.size_bytes)?;
        let uuid = Uuid::new_v4().as_u128();
        leg.config.journal = Some(JournalConfig { uuid, replaced: true, ..Default::default() });
        return Ok(());
    }
    let Some((index, half, drive)) = found else {
        let text =
            format!("no pair has a drive {}: write it as in the configuration", path.display());
        return Err(Failure::Usage(text));
    };
    let Backing::Path(path) = &drive.backing else { unreachable!("legs are no memory") };
    make(path, drive.size_bytes)?;
    pool.legs[index].config.replaced = Some(half);
    Ok(())
}

/// Makes the file of a new leg, or sees that the drive holds nothing.
fn make(path: &Path, size_bytes: Option<u64>) -> anyhow::Result<()> {
    let told = path.display();
    match File::open(path) {
        Ok(mut file) => {
            let bytes = file.seek(SeekFrom::End(0))?;
            let holds = signature::find(&file, bytes)?;
            if !holds.is_empty() || !signature::is_blank(&file, bytes)? {
                let holds = if holds.is_empty() { "something".into() } else { holds.join(", ") };
                bail!(
                    "{told} holds {holds}, which would be lost: clear it first (wipefs --all, or \
                     remove the file)"
                );
            }
            Ok(())
        }
        Err(why) if why.kind() == ErrorKind::NotFound => {
            let bytes = size_bytes.ok_or_else(|| anyhow!("{told} is not there"))?;
            let file = modes::to_make()
                .create_new(true)
                .open(path)
                .with_context(|| format!("making {told}"))?;
            file.set_len(bytes).with_context(|| format!("making {told}"))?;
            Ok(())
        }
        Err(why) => Err(crate::pool::explain::not_opened(path, &why)),
    }
}
