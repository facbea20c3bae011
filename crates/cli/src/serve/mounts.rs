//! Which volumes of files are mounted where, and did they come and go well?

use crate::config::PoolConfig;
use crate::failure::Failure;
use anyhow::{Context as _, anyhow};
use tandem_block::StreamId;
use tandem_engine::Engine;
use tandem_fronts::fuse::{AtUnmount, FileIds, FilesServer, Trouble};
use tandem_live::EventLoop;

/// All users of one volume of files are one stream; they are numbered down from here.
const LAST_STREAM: u32 = u32::MAX - 1;

/// Mounts every volume that has a mount point; the event loop ends when `until_unmounted` is unmounted.
///
/// # Errors
/// What is in the way of one of them; none stays mounted then.
pub fn add(
    event_loop: &mut EventLoop<Engine>,
    pool: &PoolConfig,
    until_unmounted: Option<&str>,
) -> Result<Vec<Trouble>, Failure> {
    let (ids, mut troubles) = (FileIds::default(), Vec::new());
    for (volume, number) in pool.volumes.iter().zip(0..) {
        let Some(point) = &volume.mount else { continue };
        let at_unmount = match until_unmounted == Some(&volume.name) {
            true => AtUnmount::End,
            false => AtUnmount::GoOn,
        };
        let named = (&volume.name[..], volume.object());
        let stream = StreamId(LAST_STREAM - number);
        let server = FilesServer::mount((point, volume.reach), named, stream, &ids, at_unmount)
            .with_context(|| format!("volume {}", volume.name))?;
        troubles.push(server.trouble());
        event_loop.add_front(Box::new(server));
    }
    Ok(troubles)
}

/// What went wrong with the volumes themselves.
///
/// # Errors
/// The first of it.
pub fn report(troubles: &[Trouble]) -> Result<(), Failure> {
    let first = troubles.iter().find_map(|trouble| trouble.borrow().clone());
    first.map_or(Ok(()), |text| Err(Failure::Failed(anyhow!("{text}"))))
}
