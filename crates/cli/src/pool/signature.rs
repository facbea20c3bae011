//! What does a drive hold already? Signatures of file systems, volume managers and partition tables.
//!
//! Source: the headers of each format's own on-disk documentation, and libblkid's superblock probes
//! for the offsets. A table of our own, because the only library that knows more is a C one.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use tandem_block::BLOCK_BYTES;

/// Where a signature lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// So many bytes from the beginning.
    Start(u64),
    /// At the beginning of the last so many bytes.
    End(u64),
    /// At the beginning of the last so many bytes of the drive rounded down to as many.
    EndAligned(u64),
}

/// (what it is, where, the bytes there)
const KNOWN: &[(&str, At, &[u8])] = &[
    ("a Tandem pool", At::Start(0), b"TANDEMSB"),
    ("a Tandem pool", At::EndAligned(4096), b"TANDEMSB"),
    ("the copy of a drive that a Tandem pool was to replace", At::Start(0), b"TANDEMHO"),
    ("the copy of a drive that a Tandem pool was to replace", At::EndAligned(4096), b"TANDEMHO"),
    ("half of a Tandem pair", At::Start(0), b"TANDEMPR"),
    ("half of a Tandem pair", At::Start(128 << 10), b"TANDEMPR"),
    ("the journal of a Tandem pair", At::Start(0), b"TANDEMPJ"),
    ("the journal of a Tandem pair", At::Start(4096), b"TANDEMPJ"),
    ("ext2, ext3 or ext4", At::Start(0x438), &[0x53, 0xEF]),
    ("XFS", At::Start(0), b"XFSB"),
    ("Btrfs", At::Start(0x1_0040), b"_BHRfS_M"),
    ("F2FS", At::Start(0x400), &[0x10, 0x20, 0xF5, 0xF2]),
    ("JFS", At::Start(0x8000), b"JFS1"),
    ("ISO 9660", At::Start(0x8001), b"CD001"),
    ("SquashFS", At::Start(0), b"hsqs"),
    ("NTFS", At::Start(3), b"NTFS    "),
    ("exFAT", At::Start(3), b"EXFAT   "),
    ("FAT", At::Start(54), b"FAT1"),
    ("FAT", At::Start(82), b"FAT32"),
    ("ZFS", At::Start(0x2_0000), &[0x0C, 0xB1, 0xBA, 0, 0, 0, 0, 0]),
    ("ZFS", At::Start(0x2_1000), &[0x0C, 0xB1, 0xBA, 0, 0, 0, 0, 0]),
    ("bcache or bcachefs", At::Start(0x1018), &[0xC6, 0x85, 0x73, 0xF6]),
    ("an LVM physical volume", At::Start(0), b"LABELONE"),
    ("an LVM physical volume", At::Start(512), b"LABELONE"),
    ("an LVM physical volume", At::Start(1024), b"LABELONE"),
    ("an LVM physical volume", At::Start(1536), b"LABELONE"),
    ("an md RAID member", At::Start(0), &MD_RAID),
    ("an md RAID member", At::Start(4096), &MD_RAID),
    ("an md RAID member", At::EndAligned(8192), &MD_RAID),
    ("an md RAID member", At::End(8192), &MD_RAID),
    ("an md RAID member", At::EndAligned(65536), &MD_RAID),
    ("LUKS", At::Start(0), b"LUKS\xBA\xBE"),
    ("LUKS", At::Start(0x4000), b"SKUL\xBA\xBE"),
    ("Stratis", At::Start(516), b"!Stra0tis"),
    ("Ceph BlueStore", At::Start(0), b"bluestore block device"),
    ("a VDO volume", At::Start(0), b"dmvdo001"),
    ("swap space", At::Start(4086), b"SWAPSPACE2"),
    ("swap space", At::Start(4086), b"SWAP-SPACE"),
    ("swap space", At::Start(65526), b"SWAPSPACE2"),
    ("a hibernated system", At::Start(4086), b"S1SUSPEND"),
    ("a GPT partition table", At::Start(512), b"EFI PART"),
    ("a GPT partition table", At::Start(4096), b"EFI PART"),
    ("a GPT partition table", At::End(512), b"EFI PART"),
    ("a qcow2 image", At::Start(0), b"QFI\xFB"),
    ("a VMDK image", At::Start(0), b"KDMV"),
    ("a VHDX image", At::Start(0), b"vhdxfile"),
    // last, because boot sectors of file systems end so too
    ("a partition table (MBR) or boot sector", At::Start(510), &[0x55, 0xAA]),
];

/// The magic number of md's superblocks, little-endian.
const MD_RAID: [u8; 4] = [0xFC, 0x4E, 0x2B, 0xA9];

/// Bytes at either end that are looked at, and wiped before a format.
pub const EDGE_BYTES: u64 = 1 << 20;

/// Names of what a drive of `size_bytes` holds, each once.
///
/// # Errors
/// If it cannot be read.
pub fn find(file: &File, size_bytes: u64) -> io::Result<Vec<&'static str>> {
    let mut found = Vec::new();
    for (name, at, magic) in KNOWN {
        let Some(offset) = offset(*at, size_bytes) else { continue };
        let mut bytes = [0; 24];
        let bytes = &mut bytes[..magic.len()];
        if offset + magic.len() as u64 > size_bytes {
            continue;
        }
        file.read_exact_at(bytes, offset)?;
        if *bytes == **magic && !found.contains(name) {
            found.push(*name);
        }
    }
    Ok(found)
}

fn offset(at: At, size_bytes: u64) -> Option<u64> {
    match at {
        At::Start(offset) => Some(offset),
        At::End(bytes) => size_bytes.checked_sub(bytes),
        At::EndAligned(bytes) => (size_bytes / bytes * bytes).checked_sub(bytes),
    }
}

/// The two ends of a drive: (first byte, bytes).
fn edges(size_bytes: u64) -> [(u64, u64); 2] {
    let length = EDGE_BYTES.min(size_bytes);
    [(0, length), (size_bytes - length, length)]
}

/// Is there nothing but zeroes at both ends?
///
/// # Errors
/// If it cannot be read.
pub fn is_blank(file: &File, size_bytes: u64) -> io::Result<bool> {
    for (offset, length) in edges(size_bytes) {
        let mut bytes = vec![0; length as usize];
        file.read_exact_at(&mut bytes, offset)?;
        if bytes.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Removes every signature, durably.
///
/// # Errors
/// If it cannot be written.
pub fn wipe(file: &File, size_bytes: u64) -> io::Result<()> {
    for (offset, length) in edges(size_bytes) {
        file.write_all_at(&vec![0; length as usize], offset)?;
    }
    file.sync_all()
}

const _: () = assert!(EDGE_BYTES.is_multiple_of(BLOCK_BYTES));

#[cfg(test)]
mod tests {
    use super::*;

    fn drive(bytes: u64) -> File {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(bytes).expect("sized");
        file
    }

    /// Every entry is found where it says, and is gone after a wipe.
    #[test]
    fn every_signature_is_seen_and_wiped() {
        // an odd size, so that "aligned" and "from the end" differ
        let size = (16 << 20) + 3 * 512;
        for (name, at, magic) in KNOWN {
            let file = drive(size);
            assert!(find(&file, size).expect("read").is_empty());
            let offset = offset(*at, size).expect("it is large enough");
            file.write_all_at(magic, offset).expect("written");
            assert!(find(&file, size).expect("read").contains(name), "{name} at {at:?}");
            assert!(!is_blank(&file, size).expect("read"), "{name} lies at an edge");
            wipe(&file, size).expect("wiped");
            assert!(find(&file, size).expect("read").is_empty(), "{name} at {at:?}");
            assert!(is_blank(&file, size).expect("read"));
            assert_eq!(file.metadata().expect("there").len(), size);
        }
    }

    #[test]
    fn tiny_drives_are_no_trouble() {
        for size in [0, 1, 511, 512, 4096, 70_000] {
            let file = drive(size);
            assert!(find(&file, size).expect("read").is_empty());
            assert!(is_blank(&file, size).expect("read"));
        }
    }

    /// What the real tools write is what the table knows.
    #[test]
    fn needs_mkfs_real_file_systems_are_recognised() {
        for (program, arguments, want) in [
            ("mkfs.ext4", &["-q", "-F"][..], "ext2, ext3 or ext4"),
            ("mkfs.xfs", &["-q", "-f"], "XFS"),
            ("mkswap", &[], "swap space"),
        ] {
            let file = tempfile::NamedTempFile::new().expect("a file");
            let size = 512 << 20;
            file.as_file().set_len(size).expect("sized");
            let run = std::process::Command::new(program).args(arguments).arg(file.path()).output();
            let Ok(output) = run else {
                println!("skipped: {program} is not installed");
                continue;
            };
            assert!(output.status.success(), "{program}: {output:?}");
            assert_eq!(find(file.as_file(), size).expect("read"), [want]);
        }
    }
}
