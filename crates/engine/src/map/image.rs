//! In which steps does the table of objects become pages?
//!
//! Source: design decision 7. Headers of all objects, then their runs, then their attributes, then which
//! homes are not at their own numbers, each in order, a page at a time; between two pages the objects may change. What changes after the checkpoint
//! began is in journal units that are replayed over the pages, absolutely, so a page may show it or not.
//! Should so much come behind the place that has been reached, and go before it, that the area is too
//! short, all pages are made in one step.

use super::Logical;
use super::objects::{Objects, write_header};
use crate::format::crc32c;
use crate::format::image::{self, IMAGE_BODY_BYTES};
use crate::format::record::OBJECTS_RECORD_BYTES_MAX;
use crate::format::record_writer::RecordWriter;
use crate::format::root::RootImage;
use std::collections::VecDeque;
use tandem_block::ObjectId;

/// Bytes of records that certainly fit in so many pages: what is left at the end of each is shorter than
/// the longest record.
pub(crate) fn record_bytes_max(pages: u64) -> u64 {
    pages * (IMAGE_BODY_BYTES - OBJECTS_RECORD_BYTES_MAX) as u64
}

/// What comes next.
#[derive(Clone, Debug)]
enum Next {
    Header(ObjectId),
    Run(ObjectId, u64),
    Attribute(ObjectId, Box<[u8]>, bool),
    Homes(Logical),
    Nothing,
}

/// The table being written.
#[derive(Clone, Debug)]
pub(crate) struct ImageJob {
    generation: u64,
    area: u32,
    next: Next,
    pages: u32,
    /// Checksums of the pages so far.
    checksums: Vec<u8>,
    /// All pages that are left, if they were made in one step.
    ready: Option<VecDeque<Vec<u8>>>,
    overflowed: bool,
}

impl ImageJob {
    /// Of this number, in the area that the last one is not in.
    pub(crate) fn begin(generation: u64, last: Option<RootImage>) -> Self {
        ImageJob {
            generation,
            area: last.map_or(0, |last| 1 - last.area),
            next: Next::Header(ObjectId(0)),
            pages: 0,
            checksums: Vec::new(),
            ready: None,
            overflowed: false,
        }
    }

    /// Which of the two areas.
    pub(crate) fn area(&self) -> u64 {
        u64::from(self.area)
    }

    /// The area was too short: it has to begin anew, once nothing is on its way there.
    pub(crate) fn has_overflowed(&self) -> bool {
        self.overflowed
    }

    /// Begins anew, with what the objects are at this moment.
    pub(crate) fn begin_anew(&mut self, objects: &Objects) {
        *self = ImageJob { area: self.area, ..ImageJob::begin(self.generation, None) };
        let mut ready = VecDeque::new();
        while let Some(body) = self.body(objects) {
            ready.push_back(body);
        }
        self.ready = Some(ready);
    }

    /// The next page and its index. `None`: there is no other, or `has_overflowed`.
    pub(crate) fn page(
        &mut self,
        objects: &Objects,
        pool: u128,
        pages_max: u64,
    ) -> Option<(u64, Vec<u8>)> {
        let body = match &mut self.ready {
            Some(ready) => ready.pop_front()?,
            None => self.body(objects)?,
        };
        if u64::from(self.pages) >= pages_max {
            assert!(self.ready.is_none(), "the bytes of the table are bounded");
            self.overflowed = true;
            return None;
        }
        assert!(!self.overflowed, "an area that was too short is begun anew");
        let index = self.pages;
        let page = image::encode(pool, self.generation, index, &body);
        self.checksums.extend_from_slice(&image::checksum(&page).to_le_bytes());
        self.pages += 1;
        Some((u64::from(index), page))
    }

    /// What the root says of it.
    pub(crate) fn end(&self) -> RootImage {
        let is_written = self.ready.as_ref().is_none_or(VecDeque::is_empty);
        let is_whole = matches!(self.next, Next::Nothing) && is_written && !self.overflowed;
        assert!(is_whole, "a root names a table that was written to its end");
        assert_eq!(self.checksums.len(), 4 * self.pages as usize, "each page has a checksum");
        let crc = crc32c(&self.checksums);
        RootImage { generation: self.generation, area: self.area, pages: self.pages, crc }
    }

    /// Records of the next page.
    fn body(&mut self, objects: &Objects) -> Option<Vec<u8>> {
        let mut records = RecordWriter::default();
        loop {
            let next = std::mem::replace(&mut self.next, Next::Nothing);
            self.next = match next {
                Next::Header(from) => headers(objects, from, &mut records),
                Next::Run(object, offset) => runs(objects, object, offset, &mut records),
                Next::Attribute(object, key, behind) => {
                    attributes(objects, object, &key, behind, &mut records)
                }
                Next::Homes(from) => homes(objects, from, &mut records),
                Next::Nothing => return (!records.is_empty()).then(|| records.take()),
            };
            if is_full(&records) {
                return Some(records.take());
            }
        }
    }
}

fn is_full(records: &RecordWriter) -> bool {
    records.len_bytes() + OBJECTS_RECORD_BYTES_MAX > IMAGE_BODY_BYTES
}

fn headers(objects: &Objects, from: ObjectId, records: &mut RecordWriter) -> Next {
    for (id, object) in objects.from(from) {
        if is_full(records) {
            return Next::Header(id);
        }
        write_header(id, object, records);
    }
    Next::Run(ObjectId(0), 0)
}

fn runs(objects: &Objects, object: ObjectId, offset: u64, records: &mut RecordWriter) -> Next {
    for (id, piece) in objects.runs().from(object, offset) {
        if is_full(records) {
            return Next::Run(id, piece.offset);
        }
        records.piece(id.0, piece, objects.is_shared(&piece));
    }
    Next::Attribute(ObjectId(0), Box::default(), false)
}

fn attributes(
    objects: &Objects,
    object: ObjectId,
    key: &[u8],
    behind: bool,
    records: &mut RecordWriter,
) -> Next {
    for (id, key, value) in objects.attributes().from(object, key, behind) {
        if is_full(records) {
            return Next::Attribute(id, key.into(), false);
        }
        records.attribute(id.0, key, value);
    }
    Next::Homes(0)
}

fn homes(objects: &Objects, from: Logical, records: &mut RecordWriter) -> Next {
    for (blocks, place) in objects.homes().from(from) {
        if is_full(records) {
            return Next::Homes(blocks.first);
        }
        records.homes(blocks, place);
    }
    Next::Nothing
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::record::decode;
    use tandem_block::{ObjectKind, ObjectOp};

    fn apply(objects: &mut Objects, op: ObjectOp) {
        let undo = objects.apply(&op).unwrap();
        objects.note(&undo);
    }

    fn sample(files: u64) -> Objects {
        let mut objects = Objects::new(1_000_000);
        objects.bound(u64::MAX, true);
        objects.create(ObjectId(1), "vol0", 4096).unwrap();
        for id in 2..files + 2 {
            let (object, kind) = (ObjectId(id), ObjectKind::Data);
            let volume = ObjectId(1);
            apply(&mut objects, ObjectOp::CreateThin { object, kind, volume, owner: 0 });
            let (key, value) = ([id as u8; 200].into(), vec![1; (id % 4096) as usize].into());
            apply(&mut objects, ObjectOp::SetAttribute { object, key, value });
            objects.fill(object, 3, 5, usize::MAX).unwrap();
        }
        objects
    }

    fn pages(job: &mut ImageJob, objects: &Objects, pages_max: u64) -> Vec<Vec<u8>> {
        let mut pages = Vec::new();
        while let Some((index, page)) = job.page(objects, 7, pages_max) {
            assert_eq!(index, pages.len() as u64);
            pages.push(page);
        }
        pages
    }

    fn read(pages: &[Vec<u8>], generation: u64) -> Objects {
        let mut again = Objects::new(1_000_000);
        again.bound(u64::MAX, true);
        for (index, page) in (0..).zip(pages) {
            let body = image::decode(page, 7, generation, index).unwrap();
            decode(body).unwrap().iter().for_each(|record| assert!(again.replay_record(record)));
        }
        again.end_replay().unwrap();
        again
    }

    #[test]
    fn all_of_it_comes_back() {
        for files in [0, 1, 30, 1000] {
            let objects = sample(files);
            let mut job = ImageJob::begin(3, None);
            let pages = pages(&mut job, &objects, u64::MAX);
            let again = read(&pages, 3);
            assert!(again.iter().eq(objects.iter()));
            assert_eq!(again.record_bytes(), objects.record_bytes());
            let bytes = objects.record_bytes().0;
            assert!(bytes <= record_bytes_max(pages.len() as u64 + 1), "{bytes}");
            let root = job.end();
            assert_eq!((root.area, root.pages), (0, pages.len() as u32));
            assert_eq!(ImageJob::begin(4, Some(root)).area(), 1);
        }
    }

    #[test]
    fn what_outgrows_the_area_on_the_way_is_written_in_one_step() {
        let mut objects = sample(100);
        let pages_max = objects.record_bytes().0.div_ceil(record_bytes_max(1));
        let mut job = ImageJob::begin(3, None);
        assert!(job.page(&objects, 7, pages_max).is_some());
        // the headers have been written; behind them comes what was taken away before them
        for id in 2..102 {
            let object = ObjectId(id);
            apply(&mut objects, ObjectOp::Remove { object });
        }
        for id in 200..300u64 {
            let (object, kind) = (ObjectId(id), ObjectKind::Data);
            let volume = ObjectId(1);
            apply(&mut objects, ObjectOp::CreateThin { object, kind, volume, owner: 0 });
            for key in 0..3u8 {
                let (key, value) = ([key].into(), vec![2; 1000].into());
                apply(&mut objects, ObjectOp::SetAttribute { object, key, value });
            }
        }
        let pages_max = objects.record_bytes().0.div_ceil(record_bytes_max(1));
        let mut small = job.clone();
        while small.page(&objects, 7, 2).is_some() {}
        assert!(small.has_overflowed());
        job.begin_anew(&objects);
        let pages = pages(&mut job, &objects, pages_max);
        assert!(!job.has_overflowed());
        assert!(read(&pages, 3).iter().eq(objects.iter()));
    }
}
