//! How is what a session asks for asked of the engine?
//!
//! Source: design, "A request". Objects are looked at where the engine has them, in RAM; changes become
//! a batch that need not be durable, bytes become requests. Each carries the number of its job.

use super::tree::{Pool, Work};
use std::cell::Cell;
use std::rc::Rc;
use tandem_block::{DurabilityClass, ObjectId, ObjectKind, Op, PayloadId, StreamId};
use tandem_live::Engine;
use tandem_live::front::{FrontContext, FrontRequest};
use tandem_names::{Objects, Space};

/// What the records of a file take on the drives: its header, its inode, and a name of usual length
/// (guess, for `statfs` alone).
const FILE_RECORD_BYTES: u64 = 256;

/// Numbers of new files, of all volumes of a pool together: none is given twice while it is served.
#[derive(Clone, Debug, Default)]
pub struct FileIds {
    next: Rc<Cell<u64>>,
}

impl FileIds {
    /// No number that an object has, from now on.
    fn learn(&self, engine: &Engine) {
        let is_file = |kind| kind != ObjectKind::Volume;
        let files = engine.objects().iter().filter(|(_, object)| is_file(object.kind));
        let free = files.map(|(id, _)| id.0 + 1).max().unwrap_or(1);
        self.next.set(self.next.get().max(free));
    }
}

/// What stays the same while a volume of files is served.
#[derive(Debug)]
pub(super) struct Volume {
    pub root: ObjectId,
    pub stream: StreamId,
    pub ids: FileIds,
    /// Bytes of the pool that block volumes have reserved.
    reserved_bytes: u64,
}

impl Volume {
    pub fn new(root: ObjectId, stream: StreamId, ids: FileIds) -> Volume {
        Volume { root, stream, ids, reserved_bytes: 0 }
    }

    /// Looks at the objects, once they are there.
    pub fn learn(&mut self, engine: &Engine) {
        self.ids.learn(engine);
        let volumes = engine.objects().named().filter(|(_, known)| !known.is_snapshot);
        self.reserved_bytes = volumes.map(|(_, volume)| volume.size_bytes).sum();
    }
}

/// The pool as a session sees it, for as long as the event loop lends it.
pub(super) struct LivePool<'a, 'd> {
    pub volume: &'a Volume,
    pub context: &'a mut FrontContext<'d>,
}

impl LivePool<'_, '_> {
    fn engine(&self) -> &Engine {
        self.context.engine().expect("asked when the front end began")
    }

    fn front_request(
        &self,
        object: ObjectId,
        op: Op,
        (offset_bytes, length_bytes): (u64, u64),
    ) -> FrontRequest {
        FrontRequest {
            object,
            op,
            offset_bytes,
            length_bytes,
            fua: false,
            stream: self.volume.stream,
            class: DurabilityClass::VolatileOk,
            payload: PayloadId::NONE,
        }
    }

    /// Makes everything durable that was answered so far.
    pub fn flush(&mut self, cookie: u64) {
        let front_request = self.front_request(self.volume.root, Op::Flush, (0, 0));
        self.context.submit(front_request, cookie);
    }
}

impl Objects for LivePool<'_, '_> {
    fn size_bytes(&self, object: ObjectId) -> Option<u64> {
        self.engine().object(object).map(|known| known.size_bytes)
    }

    fn attribute(&self, object: ObjectId, key: &[u8]) -> Option<&[u8]> {
        self.engine().attribute(object, key)
    }

    fn next_attribute(&self, object: ObjectId, after: &[u8]) -> Option<(&[u8], &[u8])> {
        self.engine().attribute_after(object, after)
    }

    fn next_object(&self, after: ObjectId) -> Option<ObjectId> {
        self.engine().object_after(after)
    }

    fn fresh_ids(&self, count: u64) -> ObjectId {
        let next = &self.volume.ids.next;
        ObjectId(next.replace(next.get() + count))
    }

    fn space(&self) -> Space {
        let engine = self.engine();
        let (all_bytes, free_bytes) = engine.space_bytes();
        let (used, may) = engine.objects().record_bytes();
        Space {
            total_bytes: all_bytes - self.volume.reserved_bytes,
            free_bytes,
            objects: engine.objects().count() as u64,
            free_objects: may.saturating_sub(used) / FILE_RECORD_BYTES,
        }
    }
}

impl Pool for LivePool<'_, '_> {
    fn file_tiers(&self) -> Vec<&str> {
        self.engine().file_tiers(self.volume.root)
    }

    fn ask(&mut self, tag: usize, work: Work) {
        let cookie = tag as u64;
        match work {
            Work::Commit(changes) => {
                let ops = changes.into_iter().map(tandem_names::Change::into_op).collect();
                self.context.batch(ops, false, cookie);
            }
            Work::Read { object, offset_bytes, length_bytes } => {
                let front_request =
                    self.front_request(object, Op::Read, (offset_bytes, length_bytes));
                self.context.submit(front_request, cookie);
            }
            Work::Write { object, offset_bytes, bytes } => {
                self.write(tag, object, offset_bytes, &bytes);
            }
            Work::Discard { object, offset_bytes, length_bytes } => {
                let front_request =
                    self.front_request(object, Op::Discard, (offset_bytes, length_bytes));
                self.context.submit(front_request, cookie);
            }
            Work::Flush => self.flush(cookie),
        }
    }

    fn write(&mut self, tag: usize, object: ObjectId, offset_bytes: u64, bytes: &[u8]) {
        let payload = self.context.payloads.begin_anyway(bytes.len(), offset_bytes);
        self.context.payloads.fill(payload, 0, bytes);
        self.context.payloads.seal(payload);
        let range = (offset_bytes, bytes.len() as u64);
        let front_request =
            FrontRequest { payload, ..self.front_request(object, Op::Write, range) };
        self.context.submit(front_request, tag as u64);
    }
}
