//! A job joins the queue of a drive, by class or by the stream that it belongs to.

use super::DeviceIo;
use crate::device::{Class, Job, Whose};
use crate::qos::cost::Kind;
use tandem_block::DeviceId;

impl DeviceIo {
    /// Puts a job into a drive's queue. `whose`: the request's stream, where a user waits for it.
    #[inline]
    pub(crate) fn enqueue(
        &mut self,
        device: DeviceId,
        class: Class,
        job: Job,
        whose: Option<Whose>,
    ) {
        self.queued = true;
        let bytes = job.bytes();
        assert!(
            match class {
                Class::Read => job.is_read(),
                Class::Write => !job.is_read(),
                Class::Background => matches!(job, Job::Io(..)),
            },
            "a job waits among its like"
        );
        if self.drives[device].streams.is_some() {
            let whose = whose.filter(|_| class != Class::Background);
            self.enqueue_by_stream(device, job, bytes, whose);
        } else {
            let now = self.now;
            self.drives[device].queue.enqueue(class, job, bytes, now);
        }
        let longest = &mut self.stats.queue_length_max[usize::from(device.0)];
        *longest = (*longest).max(self.drives[device].queue.length());
    }

    fn enqueue_by_stream(&mut self, device: DeviceId, job: Job, bytes: u64, whose: Option<Whose>) {
        let now = self.now;
        let read = job.is_read();
        let drive = &mut self.drives[device];
        let waiting = drive.queue.accept(job, bytes, now);
        let lanes = drive.streams.as_mut().expect("streams are told apart here");
        let lane = lanes.lane(lanes.index_of(read));
        let (sequential, request_bytes) =
            whose.map_or((true, 0), |whose| (whose.sequential, whose.request_bytes));
        let kind = Kind { read, sequential };
        let cost_ns = lane.observed.piece_ns(kind, bytes, request_bytes);
        match whose {
            Some(whose) => lane.queues.push(now, whose.stream, kind, cost_ns, waiting),
            None => lane.queues.push_background(now, cost_ns, waiting),
        }
    }
}
