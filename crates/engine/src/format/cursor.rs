//! How are numbers laid into bytes and taken out again? Little-endian, bounds-checked.

use super::FormatError;
use crate::map::slots::{pack, unpack};

/// Appends numbers to a byte vector.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    /// What was written so far.
    pub(crate) bytes: Vec<u8>,
}

impl Writer {
    /// Appends one byte.
    pub(crate) fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }
    /// Appends two bytes.
    pub(crate) fn u16(&mut self, value: u16) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }
    /// Appends four bytes.
    pub(crate) fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }
    /// Appends a number of a block, slot or page in five bytes.
    pub(crate) fn u40(&mut self, value: u64) {
        assert!(value < 1 << 40, "{value} has more than 40 bits");
        self.bytes.extend_from_slice(&value.to_le_bytes()[..5]);
    }
    /// Appends eight bytes.
    pub(crate) fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }
    /// Appends the number of a block or slot, or `NONE`, in five bytes.
    pub(crate) fn number(&mut self, value: u64) {
        self.bytes.extend_from_slice(&pack(value));
    }
    /// Appends sixteen bytes.
    pub(crate) fn u128(&mut self, value: u128) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }
    /// Appends a length and the text.
    pub(crate) fn text(&mut self, text: &str) {
        let length = u16::try_from(text.len()).expect("names are checked to be short");
        self.u16(length);
        self.bytes.extend_from_slice(text.as_bytes());
    }
    /// Overwrites four bytes at `at`.
    pub(crate) fn patch_u32(&mut self, at: usize, value: u32) {
        self.bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
    /// Pads with zeroes to `length` bytes.
    pub(crate) fn pad_to(&mut self, length: usize) {
        assert!(self.bytes.len() <= length, "{} bytes do not fit {length}", self.bytes.len());
        self.bytes.resize(length, 0);
    }
}

/// Takes numbers from bytes that come from strangers.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    what: &'static str,
}

impl<'a> Reader<'a> {
    /// Reads `bytes`; errors call them `what`.
    pub(crate) fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Reader { bytes, at: 0, what }
    }
    /// Position of the next byte.
    pub(crate) fn position(&self) -> usize {
        self.at
    }
    /// Bytes left.
    pub(crate) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }
    /// The next `count` bytes.
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], FormatError> {
        if self.left() < count {
            return Err(FormatError::Short { what: self.what, at: self.bytes.len() });
        }
        self.at += count;
        Ok(&self.bytes[self.at - count..self.at])
    }
    fn array<const N: usize>(&mut self) -> Result<[u8; N], FormatError> {
        Ok(self.take(N)?.try_into().expect("take returns what was asked"))
    }
    /// One byte.
    pub(crate) fn u8(&mut self) -> Result<u8, FormatError> {
        Ok(self.array::<1>()?[0])
    }
    /// Two bytes.
    pub(crate) fn u16(&mut self) -> Result<u16, FormatError> {
        Ok(u16::from_le_bytes(self.array()?))
    }
    /// Four bytes.
    pub(crate) fn u32(&mut self) -> Result<u32, FormatError> {
        Ok(u32::from_le_bytes(self.array()?))
    }
    /// A number of five bytes.
    pub(crate) fn u40(&mut self) -> Result<u64, FormatError> {
        let [a, b, c, d, e] = self.array()?;
        Ok(u64::from_le_bytes([a, b, c, d, e, 0, 0, 0]))
    }
    /// Eight bytes.
    pub(crate) fn u64(&mut self) -> Result<u64, FormatError> {
        Ok(u64::from_le_bytes(self.array()?))
    }
    /// The number of a block or slot, or `NONE`.
    pub(crate) fn number(&mut self) -> Result<u64, FormatError> {
        Ok(unpack(self.array()?))
    }
    /// Sixteen bytes.
    pub(crate) fn u128(&mut self) -> Result<u128, FormatError> {
        Ok(u128::from_le_bytes(self.array()?))
    }
    /// A length and a text.
    pub(crate) fn text(&mut self) -> Result<String, FormatError> {
        let length = usize::from(self.u16()?);
        let what = self.what;
        let bytes = self.take(length)?;
        String::from_utf8(bytes.to_vec()).map_err(|_| FormatError::Field {
            what,
            field: "a name (not UTF-8)",
            value: length as u64,
        })
    }
}
