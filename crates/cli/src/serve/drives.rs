//! How does a server keep its configuration true while drives are replaced?
//!
//! The file is edited in its text, so that comments stay: `successor = "…"` stands below the path of a
//! device while it is replaced, so that a server that is started after a crash goes on; at the end the
//! path is the new drive's, and the line is gone. What was edited is read back before it counts.

use crate::config::{Edit, PoolConfig, PoolDevice, bay, edited};
use crate::pool::devices::{self, Manner};
use crate::pool::{place, signature};
use anyhow::{Context as _, anyhow, bail};
use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use tandem_block::DeviceId;
use tandem_live::control::{Looked, Prepared, Registrar};
use tandem_live::{Backing, Change, status};

/// The drives of a pool that is served, as its configuration lists them.
pub struct Registry {
    path: PathBuf,
    pool: PoolConfig,
    manner: Manner,
    /// What `status` tells of the pool.
    about: status::ServedPool,
}

impl Registry {
    /// The configuration at `path`, as it was read.
    pub fn new(
        path: &Path,
        pool: &PoolConfig,
        manner: Manner,
        about: status::ServedPool,
    ) -> Registry {
        Registry { path: path.to_owned(), pool: pool.clone(), manner, about }
    }

    /// What `status` tells of the pool.
    pub fn about(&self) -> status::ServedPool {
        self.about.clone()
    }

    fn find(&self, old: &str) -> anyhow::Result<usize> {
        let wanted = Backing::Path(PathBuf::from(old));
        let same = |backing: &Backing| crate::config::same_place(backing, &wanted);
        let drives: Vec<_> = self.pool.drives().collect();
        let is = |drive: &&PoolDevice| drive.label() == old || same(&drive.backing);
        // one that was removed may have come back in another place
        let found = drives.iter().position(|drive| !drive.gone && is(drive));
        if drives.iter().any(|drive| drive.bay_bytes.is_some() && drive.label() == old) {
            bail!("{old} is an empty bay: no drive is there yet, and `tandem add` puts one there");
        }
        match found.or_else(|| drives.iter().position(is)) {
            Some(index) if index < self.pool.devices.len() => {
                if self.pool.legs.iter().any(|leg| leg.device == index) {
                    bail!(
                        "{old} is one of a mirrored pair: start the server with --new-leg to \
                         put a new drive in the place of a leg; a pair is not drained"
                    );
                }
                Ok(index)
            }
            Some(_) => bail!(
                "{old} is a leg of a mirrored pair, its journal, or a drive that just takes \
                 another one's place: it neither leaves nor is replaced in this way"
            ),
            None => {
                let known: Vec<String> =
                    self.pool.devices.iter().map(|device| device.label()).collect();
                bail!("the pool has no drive {old:?}; it has {}", known.join(", "))
            }
        }
    }

    /// The bays that are empty.
    fn empty(&self, role: Option<&str>, named: Option<&str>) -> anyhow::Result<Vec<usize>> {
        let devices = self.pool.devices.iter().enumerate();
        let empty: Vec<usize> =
            devices.filter(|(_, device)| device.gone).map(|(index, _)| index).collect();
        if empty.is_empty() {
            bail!(
                "the pool has no empty bay for another drive: list one at the end of the \
                 configuration (role, and path = \"bay:SIZE\"), start the pool again, and call this \
                 once more"
            );
        }
        let role_of = |index: &usize| crate::format::role(self.pool.devices[*index].role);
        let label = |index: &usize| self.pool.devices[*index].label();
        let is_named = |index: &usize| {
            let same = |named| {
                let named = Backing::Path(PathBuf::from(named));
                crate::config::same_place(&self.pool.devices[*index].backing, &named)
            };
            named.is_none_or(|named| label(index) == named || same(named))
        };
        let is_wanted =
            |index: &usize| is_named(index) && role.is_none_or(|role| role_of(index) == role);
        let found: Vec<usize> = empty.iter().copied().filter(is_wanted).collect();
        let all: Vec<String> =
            empty.iter().map(|i| format!("{} ({})", label(i), role_of(i))).collect();
        let all = all.join(", ");
        let Some(first) = found.first().map(role_of) else {
            bail!("the pool has no such empty bay; it has those of {all}");
        };
        if found.iter().any(|index| role_of(index) != first) {
            bail!("bays for SSDs and for hard drives are empty, those of {all}: say --role");
        }
        Ok(found)
    }

    fn look(new: &str) -> anyhow::Result<Looked> {
        let path = PathBuf::from(new);
        if path.is_relative() {
            bail!("the path of the new drive must begin with a slash: {new:?}");
        }
        let mut file =
            File::open(&path).map_err(|why| crate::pool::explain::not_opened(&path, &why))?;
        let bytes = file.seek(SeekFrom::End(0)).with_context(|| format!("{new} has no size"))?;
        let holds = signature::find(&file, bytes).with_context(|| format!("reading {new}"))?;
        Ok(Looked { bytes, holds: holds.into_iter().map(str::to_owned).collect() })
    }

    fn prepared(&self, device: usize, new: &str, force: bool) -> anyhow::Result<Prepared> {
        let holds = Registry::look(new)?.holds;
        let mut trial = self.pool.clone();
        let mut successor = self.pool.devices[device].clone();
        (successor.backing, successor.gone) = (Backing::Path(PathBuf::from(new)), false);
        successor.bay_bytes = None;
        trial.successor = Some((device, successor));
        place::check(&trial)?;
        if !holds.is_empty() && !force {
            bail!("{new} holds {}; use --force to lose it", holds.join(", "));
        }
        let (_, successor) = trial.successor.as_ref().expect("set above");
        let config = devices::configure(successor, trial.drives().count() - 1, self.manner)?;
        Ok(Prepared {
            device: DeviceId(device as u8),
            config,
            uuid: uuid::Uuid::new_v4().as_u128(),
        })
    }

    /// The path as it is written into the configuration: short where it lies beside it.
    fn written(&self, path: &str) -> String {
        let folder = self.path.parent().and_then(|folder| std::path::absolute(folder).ok());
        let short =
            folder.and_then(|folder| Path::new(path).strip_prefix(folder).ok().map(Path::to_owned));
        short.map_or_else(|| path.to_owned(), |short| short.display().to_string())
    }

    fn edit(&mut self, device: usize, edit: &Edit) -> anyhow::Result<()> {
        let shown = self.path.display().to_string();
        let text =
            std::fs::read_to_string(&self.path).with_context(|| format!("reading {shown}"))?;
        let (text, pool) = edited(&text, &self.path, device, edit)
            .map_err(|why| anyhow!("{shown}: {why}: change it by hand"))?;
        store(&self.path, &text).with_context(|| format!("writing {shown}"))?;
        self.pool.devices.clone_from(&pool.devices);
        self.pool.successor = pool.successor;
        Ok(())
    }

    /// A drive's place has changed.
    pub fn changed(&mut self, device: DeviceId, change: Change) {
        match change {
            Change::Succeeded => self.ended(device, true),
            Change::Stayed => self.ended(device, false),
            Change::Removed => self.removed(device),
        }
    }

    fn removed(&mut self, device: DeviceId) {
        let index = usize::from(device.0);
        let label = self.pool.devices[index].label();
        self.about.devices[index].gone = true;
        tracing::info!("{label} was removed, and may be unplugged");
        if let Err(why) = self.edit(index, &Edit::Remove) {
            tracing::error!("{why:#} (gone = true to the entry of {label})");
        }
    }

    /// A replacement is over.
    fn ended(&mut self, device: DeviceId, is_finished: bool) {
        let index = usize::from(device.0);
        let Some((_, successor)) = self.pool.successor.clone() else { return };
        let (old, new) = (self.pool.devices[index].label(), successor.label());
        let edit = if is_finished { Edit::Finish } else { Edit::Forget };
        let outcome = if is_finished {
            let about = &mut self.about.devices[index];
            let was_gone = std::mem::take(&mut about.gone);
            (about.empty, about.path) = (false, new.clone());
            if let Ok(bytes) = devices::backing_bytes(&successor.backing) {
                about.bytes = bytes;
            }
            match was_gone {
                true => format!("{new} has been added, in {}", bay::told(&old)),
                false => format!("{new} has taken the place of {old}, which may be removed"),
            }
        } else if self.about.devices[index].gone {
            format!("{new} has not been added: {} stays empty", bay::told(&old))
        } else {
            format!("{old} stays: {new} does not take its place")
        };
        tracing::info!("{outcome}");
        if let Err(why) = self.edit(index, &edit) {
            tracing::error!("{why:#} (path = {new:?} in the place of {old:?} if it has taken it)");
        }
    }
}

impl Registrar for Registry {
    fn prepare(&self, old: &str, new: &str, force: bool) -> Result<Prepared, String> {
        let prepared = self.find(old).and_then(|device| self.prepared(device, new, force));
        prepared.map_err(|why| format!("{why:#}"))
    }

    fn prepare_for(&self, device: DeviceId, new: &str, force: bool) -> Result<Prepared, String> {
        let prepared = self.prepared(usize::from(device.0), new, force);
        prepared.map_err(|why| format!("{why:#}"))
    }

    fn places(
        &self,
        role: Option<&str>,
        named: Option<&str>,
    ) -> Result<Vec<(DeviceId, String)>, String> {
        let found = self.empty(role, named).map_err(|why| format!("{why:#}"))?;
        let told = |index: usize| (DeviceId(index as u8), self.pool.devices[index].label());
        Ok(found.into_iter().map(told).collect())
    }

    fn look_at(&self, new: &str) -> Result<Looked, String> {
        Registry::look(new).map_err(|why| format!("{why:#}"))
    }

    fn device(&self, drive: &str) -> Result<DeviceId, String> {
        let index = self.find(drive).map_err(|why| format!("{why:#}"))?;
        Ok(DeviceId(index as u8))
    }

    fn begun(&mut self, device: DeviceId, new: &str) -> Result<(), String> {
        let written = self.written(new);
        self.edit(usize::from(device.0), &Edit::Begin(written)).map_err(|why| format!("{why:#}"))
    }
}

/// Writes a file so that a crash leaves the old text or the new one.
fn store(path: &Path, text: &str) -> anyhow::Result<()> {
    let path = std::fs::canonicalize(path)?;
    let folder = path.parent().context("it has no folder")?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.as_file().set_permissions(std::fs::metadata(&path)?.permissions())?;
    file.as_file().sync_all()?;
    file.persist(&path)?;
    File::open(folder)?.sync_all()?;
    Ok(())
}
