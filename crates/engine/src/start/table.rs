//! How does the table of objects get to the drives, and back?
//!
//! Source: design decision 7. It is a part of each checkpoint that follows a change of objects (`checkpoint`),
//! and of the snapshots of the drive that follows (`snapshot`): pages of records, one after the other
//! (`map/image`), in the area that the last root does not name. It shows what is in RAM, which may be ahead
//! of the journal, so the root waits for the batch that brings the journal there.

use crate::StartError;
use crate::format::image::{self, IMAGE_PAGE_BYTES};
use crate::format::root::RootImage;
use crate::format::{crc32c, record};
use crate::io::DeviceIo;
use crate::map::objects::Objects;
use crate::metadata::MetadataHomes;
use crate::start::{READS_MAX, Stage as StartStage, Start, go_on};
use crate::store::Store;
use crate::volumes::Volumes;
use tandem_block::DeviceId;

impl Start {
    fn image_named(&mut self) -> RootImage {
        let (_, root) = self.starting().root.as_ref().expect("found before");
        root.image.expect("it names a table")
    }

    fn read_table_page(&mut self, device: DeviceId, index: u64, io: &mut DeviceIo) {
        let area = u64::from(self.image_named().area);
        let offset = io[device].layout.table_page_offset(area, index);
        self.recovery_request(device, offset, IMAGE_PAGE_BYTES, index, io);
    }

    pub(crate) fn take_table_page(
        &mut self,
        device: DeviceId,
        index: u64,
        bytes: &[u8],
        metadata: &MetadataHomes,
        objects: &mut Objects,
        io: &mut DeviceIo,
    ) {
        let (pool, generation) = (io.config().pool, self.image_named().generation);
        let body = image::decode(bytes, pool, generation, index as u32);
        let records = body.and_then(record::decode);
        let records = match records {
            Ok(records) => records,
            Err(error) => {
                self.table_page_unreadable(device, index, &error.to_string(), metadata, io);
                return;
            }
        };
        self.starting().page_checksums[index as usize] = image::checksum(bytes);
        if !records.iter().all(|record| objects.replay_record(record)) {
            self.fail_start(StartError::Corrupt(format!(
                "page {index} of the object table on device {} names what does not exist",
                device.0
            )));
        }
    }

    /// A page that cannot be read here may be sound on another metadata home.
    pub(crate) fn table_page_unreadable(
        &mut self,
        device: DeviceId,
        index: u64,
        why: &str,
        metadata: &MetadataHomes,
        io: &mut DeviceIo,
    ) {
        let first = self.starting().root.as_ref().expect("found before").0;
        let next = self.next_home(device, metadata, io);
        if next == first {
            self.fail_start(StartError::Corrupt(format!(
                "page {index} of the object table on device {}: {why}: objects are lost",
                device.0
            )));
            return;
        }
        self.starting().table_is_mended = true;
        self.read_table_page(next, index, io);
    }

    fn end_table(&mut self, store: &mut Store, volumes: &mut Volumes, io: &mut DeviceIo) {
        let checksums = std::mem::take(&mut self.starting().page_checksums);
        let image = self.starting().root.as_ref().and_then(|(_, root)| root.image);
        let covered: Vec<u8> = checksums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
        if image.is_some_and(|image| image.crc != crc32c(&covered)) {
            let text = "the pages of the object table do not belong together";
            self.refuse(StartError::Corrupt(text.into()), io);
            return;
        }
        self.begin_tables(store, volumes, io);
    }

    pub(crate) fn read_table(
        &mut self,
        store: &mut Store,
        volumes: &mut Volumes,
        io: &mut DeviceIo,
    ) {
        loop {
            let starting = self.starting();
            let pages = starting.page_checksums.len() as u64;
            if starting.next >= pages {
                if starting.outstanding == 0 {
                    self.end_table(store, volumes, io);
                }
                return;
            }
            if u64::from(starting.outstanding) >= READS_MAX {
                return;
            }
            let index = starting.next;
            starting.next += 1;
            let (device, _) = starting.root.as_ref().expect("found before");
            let device = *device;
            self.read_table_page(device, index, io);
        }
    }

    /// The root was found: reads the table that it names.
    pub(crate) fn begin_table(
        &mut self,
        store: &mut Store,
        volumes: &mut Volumes,
        io: &mut DeviceIo,
    ) {
        let starting = self.starting();
        let (device, root) = starting.root.as_ref().expect("found before");
        let (device, pages) = (*device, root.image.map_or(0, |image| u64::from(image.pages)));
        let fits = pages <= io[device].layout.table_pages();
        if !fits {
            let text = "the checkpoint root names more of the object table than there is";
            self.refuse(StartError::Corrupt(text.into()), io);
            return;
        }
        let starting = self.starting();
        go_on(starting, StartStage::Roots, StartStage::Table);
        starting.next = 0;
        starting.page_checksums = vec![0; pages as usize];
        self.read_table(store, volumes, io);
    }
}
