//! What goes to a device next, and what is it counted as?

use crate::device::{Class, Job, Waiting};
use crate::engine::Engine;
use crate::io::News;
use crate::qos::QueueView;
use crate::requests::Next;
use crate::requests::ordering::TaskId;
use tandem_block::{DeviceId, IoError};

impl Engine {
    /// Issues what the device can take now.
    #[inline]
    pub(crate) fn dispatch(&mut self, device: DeviceId) {
        if self.io[device].is_ssd() {
            while self.dispatch_one(device) {}
        } else {
            while self.dispatch_hdd(device) {}
        }
    }

    fn dispatch_one(&mut self, device: DeviceId) -> bool {
        let d = &self.io[device];
        if d.is_out() {
            return self.fail_one(device);
        }
        if d.streams.is_some() {
            return self.dispatch_stream(device);
        }
        if !d.has_waiting() {
            return false;
        }
        let (takes_reads, takes_others) = d.takes();
        if !takes_reads && !takes_others {
            return false;
        }
        let head = |class: Class| d.queue.first(class).map(|w| w.sequence);
        let view = QueueView {
            read: head(Class::Read).filter(|_| takes_reads),
            write: head(Class::Write).filter(|_| takes_others),
            background: head(Class::Background).filter(|_| takes_others),
            background_in_flight: d.queue.background_in_flight(),
        };
        match self.qos.next(&view) {
            None => false,
            Some(Class::Write) if !self.issue_class(device, Class::Write) => {
                // writes wait for space; reads and background work must not wait with them
                match self.qos.next(&QueueView { write: None, ..view }) {
                    Some(class) => self.issue_class(device, class),
                    None => false,
                }
            }
            Some(Class::Write) => true,
            Some(class) => self.issue_class(device, class),
        }
    }

    /// Issues the first job of a class. False: it must wait for space.
    pub(crate) fn issue_class(&mut self, device: DeviceId, class: Class) -> bool {
        let d = &mut self.io[device];
        let waiting = d.queue.pop(class).expect("the class was asked for");
        match self.issue(device, waiting) {
            Ok(()) => true,
            Err(waiting) => {
                self.io[device].queue.unpop(class, waiting);
                false
            }
        }
    }

    /// Issues a job that has left its queue; gives it back if it must wait for space.
    pub(crate) fn issue(&mut self, device: DeviceId, waiting: Waiting) -> Result<(), Waiting> {
        let is_write = matches!(waiting.job, Job::Write { .. } | Job::Edge { .. });
        if (is_write && self.io.no_space().is_some()) || !self.io[device].takes_job(&waiting.job) {
            self.fail_waiting(device, waiting);
            return Ok(());
        }
        let issued = match &waiting.job {
            Job::Write { task, .. } => {
                let id = *task;
                if self.io[device].is_ssd() {
                    self.requests.issue_ssd_write(device, id, &mut self.io, &mut self.map)
                } else {
                    self.issue_log_write(device, id)
                }
            }
            Job::Edge { task, block, mask } => {
                let (task, block, mask) = (*task, *block, *mask);
                self.issue_edge(device, task, block, mask)
            }
            Job::Io(..) => true,
        };
        if !issued {
            if let Some(other) = self.ssd_with_room(device, &waiting.job) {
                self.redirect(device, other, waiting);
                return Ok(());
            }
            self.requests.starve(&waiting.job, &mut self.io);
            return Err(waiting);
        }
        if let Job::Io(op, owner) = waiting.job {
            self.requests.note_first_command(&owner, &mut self.io);
            self.io.submit_pinned(device, (op, waiting.pin), owner);
        }
        // its commands are counted instead of the job
        self.io[device].queue.leave(1);
        Ok(())
    }

    /// Another SSD that has room for a write for which this one has none: the one with the shortest queue.
    fn ssd_with_room(&self, full: DeviceId, job: &Job) -> Option<DeviceId> {
        let is_ssd = self.io[full].is_ssd();
        if !is_ssd || self.io.is_fixed() {
            return None;
        }
        let blocks = match job {
            Job::Write { task, .. } => self.requests[*task].blocks(),
            Job::Edge { .. } => 1,
            Job::Io(..) => return None,
        };
        let ssds = self.io.ssds().iter().enumerate();
        ssds.filter(|&(ssd, &id)| {
            id != full
                && self.io[id].takes_new()
                && self.map.allocators()[ssd].free_count()
                    >= blocks + self.requests.reserved_slots(ssd, &self.map)
        })
        .map(|(_, &id)| id)
        .min_by_key(|&id| (self.io[id].queue.length(), id))
    }

    /// A job that has left the queue of an SSD goes into that of another one.
    fn redirect(&mut self, from: DeviceId, to: DeviceId, waiting: Waiting) {
        let (Job::Write { task, .. } | Job::Edge { task, .. }) = &waiting.job else {
            unreachable!("only writes of users look for room")
        };
        let whose = self.requests[*task].whose();
        let d = &mut self.io[from];
        d.queue.leave(1);
        d.queue.pins_mut().unpin(waiting.pin);
        self.io.enqueue(to, Class::Write, waiting.job, whose);
        self.io.note_redirected();
    }

    /// The first waiting job of a device of which nothing is asked fails.
    pub(crate) fn fail_one(&mut self, device: DeviceId) -> bool {
        let now = self.io.now();
        let d = &mut self.io[device];
        let waiting = Class::ALL.into_iter().find_map(|class| d.queue.pop(class));
        let Some(waiting) = waiting.or_else(|| d.pop_by_stream(now)) else {
            return false;
        };
        self.fail_waiting(device, waiting);
        true
    }

    /// A job that has left its queue is not sent: the device does not take it any more.
    fn fail_waiting(&mut self, device: DeviceId, waiting: Waiting) {
        // a read must not be told that the drive gave no answer: it was not asked, and would ask again
        let is_write = matches!(waiting.job, Job::Write { .. } | Job::Edge { .. });
        let no_room = self.io.no_space().filter(|_| is_write);
        self.io.stats_mut().refused_without_room += u64::from(no_room.is_some());
        let error = no_room.unwrap_or(IoError::Dead(device));
        let d = &mut self.io[device];
        d.queue.leave(1);
        d.queue.pins_mut().unpin(waiting.pin);
        match waiting.job {
            Job::Io(_, owner) => self.io.tell(News::Unsent(device, owner, error)),
            Job::Edge { task, block, mask } => match self.io.another_ssd(device) {
                Some(other) => {
                    let whose = self.requests[task].whose();
                    let job = Job::Edge { task, block, mask };
                    self.io.enqueue(other, Class::Write, job, whose);
                }
                None => self.fail_unissued(task, error),
            },
            Job::Write { task: id, .. } => {
                if self.io.another_ssd(device).is_none() || self.io.is_fixed() {
                    self.fail_unissued(id, error);
                } else if self.io[device].is_ssd() {
                    self.requests[id].target = crate::steer::Target::Ssd;
                    self.requests.queue_write(id, &mut self.io);
                } else {
                    self.steering.return_write(device, id, &mut self.io, &mut self.requests);
                }
            }
        }
    }

    fn fail_unissued(&mut self, id: TaskId, error: IoError) {
        self.requests.note_error(id, error);
        let task = &mut self.requests[id];
        task.target = crate::steer::Target::Ssd;
        task.outstanding = task.outstanding.saturating_sub(1);
        if task.outstanding == 0 {
            self.requests.lead_to(Next::Written(id));
        }
    }
}
