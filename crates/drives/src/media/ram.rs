//! Where are durable contents kept? In shared chunks of memory; what was never written is absent.

use super::Sector;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Sectors of one chunk: 32 KiB of bytes, or 512 bytes of tokens.
const CHUNK_SECTORS: u64 = 64;

/// A sparse array of sectors whose clones share memory until one of them writes.
#[derive(Clone, Debug)]
pub struct RamStore<C> {
    chunks: Arc<BTreeMap<u64, Arc<Vec<C>>>>,
}

impl<C> Default for RamStore<C> {
    fn default() -> Self {
        RamStore { chunks: Arc::default() }
    }
}

impl<C: Sector> RamStore<C> {
    /// Stores `contents` from `sector` on.
    pub fn write(&mut self, sector: u64, contents: &[C]) {
        let chunks = Arc::make_mut(&mut self.chunks);
        let (mut at, mut rest) = (sector, contents);
        while !rest.is_empty() {
            let (count, within) = step(at, rest.len() as u64);
            let chunk = chunks
                .entry(at / CHUNK_SECTORS)
                .or_insert_with(|| Arc::new(vec![C::zero(); CHUNK_SECTORS as usize]));
            let (now, later) = rest.split_at(count);
            Arc::make_mut(chunk)[within..within + count].clone_from_slice(now);
            (at, rest) = (at + count as u64, later);
        }
    }

    /// Makes `count` sectors from `sector` on zero, and forgets chunks that are zero as a whole.
    pub fn zero(&mut self, sector: u64, count: u64) {
        let chunks = Arc::make_mut(&mut self.chunks);
        let end = sector + count;
        let touched: Vec<u64> = chunks
            .range(sector / CHUNK_SECTORS..end.div_ceil(CHUNK_SECTORS))
            .map(|at| *at.0)
            .collect();
        for index in touched {
            let begin = index * CHUNK_SECTORS;
            let (from, upto) = (sector.max(begin), end.min(begin + CHUNK_SECTORS));
            if upto - from == CHUNK_SECTORS {
                chunks.remove(&index);
            } else if let Some(chunk) = chunks.get_mut(&index) {
                let within = (from - begin) as usize..(upto - begin) as usize;
                Arc::make_mut(chunk)[within].fill(C::zero());
            }
        }
    }

    /// Fills `out` from `sector` on.
    pub fn read(&self, sector: u64, out: &mut [C]) {
        let (mut at, mut rest) = (sector, out);
        while !rest.is_empty() {
            let (count, within) = step(at, rest.len() as u64);
            let (now, later) = rest.split_at_mut(count);
            match self.chunks.get(&(at / CHUNK_SECTORS)) {
                Some(chunk) => now.clone_from_slice(&chunk[within..within + count]),
                None => now.fill(C::zero()),
            }
            (at, rest) = (at + count as u64, later);
        }
    }

    /// Sectors that memory is held for.
    pub fn held_sectors(&self) -> u64 {
        self.chunks.len() as u64 * CHUNK_SECTORS
    }
}

/// How many of `left` sectors lie in the chunk of `at`, and where in it they begin.
fn step(at: u64, left: u64) -> (usize, usize) {
    let within = at % CHUNK_SECTORS;
    ((CHUNK_SECTORS - within).min(left) as usize, within as usize)
}
