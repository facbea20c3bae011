//! Policies of volumes: what a volume promises, which tier it has, and what that means for one write.

use crate::bcw::controller::Control;
use crate::device::{Class, Job};
use crate::io::DeviceIo;
use crate::policy::steering::Steering;
use crate::requests::Requests;
use crate::requests::ordering::TaskId;
use crate::requests::task::Task;
use crate::steer::Reason;
use crate::tier::{Tier, TierNumber};
use std::collections::BTreeMap;
use tandem_block::{DeviceId, DurabilityClass, ObjectId};

/// Tiers by number: a handful.
pub(crate) type FileTiers = Vec<(TierNumber, Box<dyn Tier>)>;

/// Policies of one volume.
#[derive(Clone, Debug)]
pub(crate) struct VolumePolicy {
    /// Position among the steering policies.
    pub(crate) steer: usize,
    pub(crate) tier: Box<dyn Tier>,
    /// Those that its files may have instead.
    pub(crate) file_tiers: FileTiers,
    pub(crate) durability: DurabilityClass,
}

/// Those of all volumes.
#[derive(Clone, Debug)]
pub(crate) struct Policies {
    of: BTreeMap<ObjectId, VolumePolicy>,
}

impl Policies {
    pub(crate) fn new(of: BTreeMap<ObjectId, VolumePolicy>) -> Self {
        Policies { of }
    }

    #[inline]
    pub(crate) fn get(&self, volume: &ObjectId) -> Option<&VolumePolicy> {
        self.of.get(volume)
    }

    pub(crate) fn get_mut(&mut self, volume: &ObjectId) -> Option<&mut VolumePolicy> {
        self.of.get_mut(volume)
    }

    /// Tiers that no registry knows stay for the next life.
    pub(crate) fn keep_tiers_of(&mut self, before: &Policies) {
        for (volume, policy) in &mut self.of {
            if let Some(known) = before.of.get(volume) {
                policy.tier = known.tier.clone();
            }
        }
    }

    /// A volume promises no less than its class says, whatever the request asks for.
    pub(crate) fn keep_class(&self, id: TaskId, requests: &mut Requests) {
        let task = &mut requests[id];
        let request = &mut task.request;
        if let Some(policy) = self.get(&task.volume) {
            request.class = request.class.stronger(policy.durability);
        }
        request.fua |= request.class == DurabilityClass::Strict;
    }

    /// Does the user of this write wait for an SSD and for a hard drive?
    pub(crate) fn awaits_both(&self, id: TaskId, requests: &Requests) -> bool {
        let task = &requests[id];
        task.both && self.tier_of(task).is_some_and(|tier| tier.acknowledges_both())
    }

    /// Anything but a log write takes the drive for milliseconds: users' writes that wait for it go
    /// to the SSD instead (M30).
    pub(crate) fn disturb(
        &self,
        device: DeviceId,
        read: bool,
        io: &mut DeviceIo,
        requests: &mut Requests,
        steering: &Steering,
    ) {
        let d = &io[device];
        let exclusive = d.bcw.as_ref().is_some_and(|bcw| bcw.control() != Control::Bare);
        if !io.ssds().is_empty() && exclusive {
            steering.return_all(device, io, requests);
        } else if self.of.values().any(|policy| policy.tier.has_share()) {
            self.return_tiers(device, io, requests, steering);
        }
        if let Some(bcw) = &mut io[device].bcw {
            bcw.disturbed(read);
        }
    }

    /// The same for writes that wait because their tier says so, where the steering policy lets writes
    /// wait; those of a tier without detours stay.
    fn return_tiers(
        &self,
        device: DeviceId,
        io: &mut DeviceIo,
        requests: &mut Requests,
        steering: &Steering,
    ) {
        self.return_some(
            device,
            |task, detours| task.reason == Reason::Tier && detours,
            io,
            requests,
            steering,
        );
    }

    /// The drive is about to be flushed: writes that wait for it go to an SSD instead, but for those whose
    /// tier lets them wait, where the steering policy does so, too.
    pub(crate) fn return_before_flush(
        &self,
        device: DeviceId,
        io: &mut DeviceIo,
        requests: &mut Requests,
        steering: &Steering,
    ) {
        let d = &io[device];
        if d.bcw.as_ref().is_some_and(|bcw| bcw.control() != Control::Bare) {
            steering.return_all(device, io, requests);
        } else {
            self.return_some(
                device,
                |task, detours| task.reason != Reason::Tier || detours,
                io,
                requests,
                steering,
            );
        }
    }

    /// `is_wanted`: a task, and whether its tier has detours.
    fn return_some(
        &self,
        device: DeviceId,
        is_wanted: impl Fn(&Task, bool) -> bool,
        io: &mut DeviceIo,
        requests: &mut Requests,
        steering: &Steering,
    ) {
        let (tasks, policies) = (&*requests, self);
        let returns = |job: &Job| match job {
            Job::Write { task, .. } => {
                let task = &tasks[*task];
                let policy = policies.get(&task.volume);
                is_wanted(task, policy.is_none_or(|policy| policy.tier_of(task.tier).detours()))
            }
            Job::Edge { .. } | Job::Io(..) => false,
        };
        let d = &mut io[device];
        let taken = d.queue.take(Class::Write, returns);
        d.queue.leave(taken.len() as u32);
        for waiting in taken {
            if let Job::Write { task, .. } = waiting.job {
                steering.return_write(device, task, io, requests);
            }
        }
    }

    /// The tier that applies to a request, if its volume is known.
    #[inline]
    pub(crate) fn tier_of(&self, task: &Task) -> Option<&dyn Tier> {
        Some(self.get(&task.volume)?.tier_of(task.tier))
    }
}
