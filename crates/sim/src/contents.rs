//! What do buffers and drives hold in virtual time?
//!
//! Source: design decision 7: without contents it is a token. A data sector is one 64-bit token that
//! names (object, sector, version); a metadata sector is its bytes. Whole, comparable, cheap to fork.

use std::sync::Arc;
use tandem_block::SECTOR_BYTES;
use tandem_drives::media::Sector;

/// One sector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SimSector {
    /// Data: a token; 0 is a sector of zeroes.
    Token(u64),
    /// The engine's own bytes.
    Bytes(Arc<[u8; SECTOR_BYTES as usize]>),
}

impl Sector for SimSector {
    fn zero() -> Self {
        SimSector::Token(0)
    }

    fn flip(&mut self, bit: u16) {
        match self {
            SimSector::Token(token) => *token ^= 1 << (bit % 64),
            SimSector::Bytes(bytes) => {
                let mut copy = **bytes;
                copy[usize::from(bit / 8) % copy.len()] ^= 1 << (bit % 8);
                *bytes = Arc::new(copy);
            }
        }
    }
}

impl SimSector {
    /// Its bytes, for metadata reads; a token reads as its own eight bytes and zeroes.
    pub fn write_to(&self, out: &mut [u8]) {
        match self {
            SimSector::Bytes(bytes) => out.copy_from_slice(&bytes[..]),
            SimSector::Token(token) => {
                out.fill(0);
                out[..8].copy_from_slice(&token.to_le_bytes());
            }
        }
    }

    /// The token of a data sector; metadata has none that a data reader would accept.
    pub fn token(&self) -> u64 {
        match self {
            SimSector::Token(token) => *token,
            SimSector::Bytes(_) => u64::MAX,
        }
    }
}

/// Cuts metadata bytes into sectors.
pub fn sectors_of(bytes: &[u8]) -> Arc<[SimSector]> {
    bytes
        .chunks_exact(SECTOR_BYTES as usize)
        .map(|chunk| {
            if chunk.iter().all(|&b| b == 0) {
                return SimSector::Token(0);
            }
            SimSector::Bytes(Arc::new(chunk.try_into().expect("exact chunks")))
        })
        .collect()
}

/// Digest of a block of eight sectors, in place of the CRC-32C of its bytes.
pub fn block_checksum(sectors: &[SimSector]) -> u32 {
    let mut bytes = [0u8; 64];
    for (sector, slot) in sectors.iter().zip(bytes.chunks_exact_mut(8)) {
        slot.copy_from_slice(&sector.token().to_le_bytes());
    }
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &bytes) as u32
}
