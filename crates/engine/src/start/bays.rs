//! Which bays does the configuration list that the pool has not heard of?
//!
//! A start takes such a bay as one that was empty from the format on: a member that is gone. What is numbered of it
//! comes behind all that there is. The superblocks say so at the end of the start. Until all of them do, those that do
//! not are read as if they did.

use crate::StartError;
use crate::config::Role;
use crate::format::layout::{self, Layout};
use crate::format::pointer;
use crate::format::superblock::{Member, Numbered, Standing, Superblock};
use crate::io::DeviceIo;
use tandem_block::DeviceId;

type Found = (Option<Superblock>, bool);

/// Gives each superblock the members that newer ones have, and bays that no one has.
///
/// # Errors
/// A bay that this pool cannot have, and why.
pub(super) fn take_bays(found: &mut [Found], io: &DeviceIo) -> Result<(), StartError> {
    let known = || found.iter().filter_map(|(superblock, _)| superblock.as_ref());
    let Some(pool) = known().next().map(|first| first.pool) else { return Ok(()) };
    let of_pool = known().filter(|superblock| superblock.pool == pool);
    let Some(newest) = of_pool.max_by_key(|superblock| superblock.generation) else {
        return Ok(());
    };
    let (mut widest, bays) = (newest.clone(), newest.members.len()..io.drives().len());
    // anything else that is wrong has words of its own
    let is_listed = |index: usize| io.config().gone.contains(&DeviceId(index as u8));
    let is_unreadable = |index: &usize| {
        let is_gone = matches!(newest.standings[*index], Standing::Gone(_));
        !is_gone && found[*index].0.is_none() && !io[DeviceId(*index as u8)].is_faulted()
    };
    if !bays.clone().all(is_listed) || (0..bays.start.min(found.len())).any(|i| is_unreadable(&i)) {
        return Ok(());
    }
    for index in bays {
        let numbered = numbered_of(index, &widest, found, io)?;
        let config = &io[DeviceId(index as u8)].config;
        let (role, capacity_bytes) = (config.role, config.capacity_bytes);
        let ssds = widest.members.iter().filter(|member| member.role == Role::Ssd).count();
        // the first hard drive goes on to follow
        widest.has_metadata_replica |= role == Role::Ssd && ssds == 1;
        widest.members.push(Member { uuid: config.uuid, role, capacity_bytes });
        widest.standings.push(Standing::Gone(numbered));
    }
    let of_pool = |superblock: &&mut Superblock| superblock.pool == widest.pool;
    for superblock in found.iter_mut().filter_map(|(s, _)| s.as_mut()).filter(of_pool) {
        let known = superblock.members.len().min(widest.members.len());
        superblock.members.extend_from_slice(&widest.members[known..]);
        superblock.standings.extend_from_slice(&widest.standings[known..]);
        superblock.has_metadata_replica |= widest.has_metadata_replica;
    }
    Ok(())
}

/// What is numbered of this bay, behind all members.
fn numbered_of(
    index: usize,
    widest: &Superblock,
    found: &[Found],
    io: &DeviceIo,
) -> Result<Numbered, StartError> {
    let refused = |why| StartError::Bay { device: index, why };
    let config = &io[DeviceId(index as u8)].config;
    let mut layouts = Vec::new();
    for (standing, (superblock, _)) in widest.standings.iter().zip(found) {
        layouts.push(match (standing, superblock) {
            (Standing::Gone(numbered), _) => numbered.layout(),
            (_, Some(superblock)) => superblock.layout,
            (_, None) => return Err(refused("a drive of the pool is missing")),
        });
    }
    // an SSD that comes gets its metadata from one that is no pair
    let is_like = |&other: &usize| {
        let (is_gone, is_pair) = (
            matches!(widest.standings[other], Standing::Gone(_)),
            config.role == Role::Ssd && io[DeviceId(other as u8)].is_pair,
        );
        widest.members[other].role == config.role && !is_gone && !is_pair
    };
    let like = (0..layouts.len()).find(is_like);
    let like = layouts[like.ok_or(refused("no drive of that role is there that is no pair"))?];
    let home_first = layouts.iter().map(|layout| layout.home_blocks).sum();
    let bay = layout::of_bay(io.config(), config, home_first, &like);
    let numbered = Numbered::of(&bay.ok_or(refused("a drive of that size is too small"))?);
    layouts.push(numbered.layout());
    if !layout::can_be_numbered(&layouts) {
        return Err(refused("the pool would have more than 4 PiB"));
    }
    let slots = layouts.iter().map(|layout| layout.slot_count).sum();
    let blocks = layout::logical_blocks(&layouts, io.config());
    let groups = pointer::groups_of(blocks);
    let areas = layouts.iter().map(|layout: &Layout| layout.area_pages);
    let area_pages = areas.filter(|&pages| pages > 0).min().unwrap_or(0);
    let roles = |role| widest.members.iter().filter(move |member| member.role == role).count();
    let follows = widest.has_metadata_replica || roles(Role::Ssd) == 1 && roles(Role::Hdd) > 0;
    if area_pages < pointer::area_pages_least(groups, slots) {
        Err(refused("where blocks lie would have no room on the drives that keep metadata"))
    } else if follows && area_pages < pointer::area_pages(groups, slots) {
        // its snapshots take no parts
        Err(refused("the metadata replica of a pool with one SSD would have no room for it"))
    } else {
        Ok(numbered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Service;
    use crate::io::fixture::drives;
    use tandem_block::{GIB, IoError};

    fn superblock(index: u8, io: &DeviceIo, members: usize) -> Superblock {
        let member = |id: DeviceId| {
            let config = &io[id].config;
            Member { uuid: config.uuid, role: config.role, capacity_bytes: config.capacity_bytes }
        };
        let is_ssd = io[DeviceId(index)].is_ssd();
        let layout = Layout {
            root_offset: 1 << 20,
            root_bytes: 1 << 16,
            slot_offset: 1 << 24,
            home_blocks: if is_ssd { 0 } else { 1000 },
            slot_count: 1 << 13,
            area_pages: if is_ssd { 10_000 } else { 0 },
            ..Layout::default()
        };
        Superblock {
            generation: 7,
            pool: 5,
            index,
            layout,
            members: (0..members as u8).map(|id| member(DeviceId(id))).collect(),
            standings: vec![Standing::Serves; members],
            ..Superblock::sample()
        }
    }

    /// A hard drive's bay comes behind all homes, in each superblock, also in those of a round that was cut.
    #[test]
    fn a_bay_is_numbered_behind_all_members() {
        let mut io = drives(1, 3);
        io.config_mut().gone = vec![DeviceId(3)];
        io[DeviceId(3)].config.capacity_bytes = 4 * GIB;
        let mut found: Vec<Found> =
            (0..3).map(|index| (Some(superblock(index, &io, 3)), false)).collect();
        found.push((None, false));
        take_bays(&mut found, &io).expect("there is room");
        let first = found[0].0.clone().expect("it was there");
        let Standing::Gone(numbered) = first.standings[3] else { panic!("nobody is there yet") };
        assert_eq!((numbered.home_first, first.members.len()), (2000, 4));
        assert!(numbered.home_blocks > 900_000 && numbered.slot_count > 0, "{numbered:?}");
        // the next start finds it in some
        let mut cut = found.clone();
        for index in [1, 2] {
            cut[index].0 = Some(Superblock { generation: 6, ..superblock(index as u8, &io, 3) });
        }
        take_bays(&mut cut, &io).expect("there is room");
        for (superblock, _) in cut.iter().chain(&found).filter(|(s, _)| s.is_some()) {
            let superblock = superblock.as_ref().expect("asked");
            assert_eq!(superblock.members, first.members);
            assert_eq!(superblock.standings, first.standings);
        }
    }

    #[test]
    fn what_no_pool_can_have_is_refused() {
        // (SSDs and hard drives, the bay, its bytes, is a member missing, the words)
        for (drives_of, bay, bytes, is_missing, want) in [
            ((1, 3), 3, 1 << 20, false, "too small"),
            ((1, 3), 3, 4 * GIB, true, "is missing"),
            ((1, 3), 3, 1 << 44, false, "no room"),
            ((1, 3), 3, 1 << 53, false, "4 PiB"),
            ((2, 1), 2, 4 * GIB, false, "no drive of that role"),
        ] {
            let mut io = drives(drives_of.0, drives_of.1);
            io.config_mut().gone = vec![DeviceId(bay)];
            io[DeviceId(bay)].config.capacity_bytes = bytes;
            let mut found: Vec<Found> =
                (0..bay).map(|index| (Some(superblock(index, &io, bay as usize)), false)).collect();
            found.push((None, false));
            if is_missing {
                found[1].0 = None;
                io[DeviceId(1)].service = Service::Out(IoError::Dead(DeviceId(1)));
            }
            let error = take_bays(&mut found, &io).expect_err("it is refused");
            assert!(error.to_string().contains(want), "{error}");
        }
    }

    /// A pool with one SSD keeps its replica, also when there is a bay for another SSD.
    #[test]
    fn the_replica_stays() {
        let mut io = drives(2, 1);
        io.config_mut().gone = vec![DeviceId(2)];
        io[DeviceId(2)].config.role = Role::Ssd;
        io[DeviceId(1)].config.role = Role::Hdd;
        io[DeviceId(2)].config.capacity_bytes = 4 * GIB;
        let mut found: Vec<Found> =
            (0..2).map(|index| (Some(superblock(index, &io, 2)), false)).collect();
        found.push((None, false));
        take_bays(&mut found, &io).expect("there is room");
        for (superblock, _) in &found[..2] {
            assert!(superblock.as_ref().expect("it was there").has_metadata_replica);
        }
    }
}
