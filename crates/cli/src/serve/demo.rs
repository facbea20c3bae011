//! `tandem serve --demo`: how can somebody without drives have a look?

use super::serve;
use crate::config::PoolConfig;
use crate::failure::Failure;
use crate::format;
use crate::pool::devices::Manner;
use crate::stderr;
use anyhow::Context as _;
use tandem_live::uring::Signals;

/// The example for people to copy, which is also what the demo serves.
const POOL: &str = include_str!("../../../../examples/emulated.toml");

/// Serves emulated drives in a folder that is gone afterwards.
pub fn run(manner: Manner, signals: Signals) -> Result<(), Failure> {
    let folder = tempfile::Builder::new().prefix("tandem-serve-").tempdir();
    let folder = folder.context("making a temporary folder")?;
    let path = folder.path().join("emulated.toml");
    std::fs::write(&path, POOL).context("writing the demo's configuration")?;
    let pool = PoolConfig::read(&path)?;
    format::fresh(&pool)?;
    let socket = folder.path().join("tandem.sock");
    let uri = format!("nbd+unix:///{}?socket={}", pool.volumes[0].name, socket.display());
    stderr::note(format_args!(
        "emulated drives in {}, removed at the end (Ctrl-C). Once the pool is served, try\n  \
         nbdinfo '{uri}'\n  \
         nbdcopy FILE '{uri}'\n  \
         fio --name=try --ioengine=nbd --uri='{uri}' --rw=randwrite --bs=4k --iodepth=32 \
         --time_based --runtime=10\n  \
         tandem status {}",
        folder.path().display(),
        path.display()
    ));
    let served = serve(&path, &pool, manner, (signals, None), None);
    folder.close().context("removing the temporary folder")?;
    served
}
