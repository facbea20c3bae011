//! Which devices does a trace name? Numbered from 0 in order of first appearance.

use crate::error::Reason;
use std::collections::HashMap;

/// A trace may name at most so many devices, so that a hostile one cannot fill the memory.
/// (The largest public trace has 5,584.)
const DEVICES_MAX: usize = 65_536;
/// A device's name may be at most so long.
const NAME_BYTES_MAX: usize = 256;

/// Numbers names as they appear; the last one is found without hashing.
#[derive(Debug, Default)]
pub(crate) struct Names {
    last: Vec<u8>,
    last_number: Option<u64>,
    numbers: HashMap<Vec<u8>, u64>,
    names: Vec<String>,
}

impl Names {
    /// The number of `name`, a fresh one if it is new.
    pub(crate) fn number(&mut self, name: &[u8]) -> Result<u64, Reason> {
        if let Some(number) = self.last_number
            && self.last == name
        {
            return Ok(number);
        }
        let number = match self.numbers.get(name) {
            Some(&number) => number,
            None => self.add(name)?,
        };
        self.last.clear();
        self.last.extend_from_slice(name);
        self.last_number = Some(number);
        Ok(number)
    }

    fn add(&mut self, name: &[u8]) -> Result<u64, Reason> {
        if self.names.len() == DEVICES_MAX || name.len() > NAME_BYTES_MAX {
            return Err(Reason::Devices);
        }
        let number = self.names.len() as u64;
        self.numbers.insert(name.to_vec(), number);
        self.names.push(String::from_utf8_lossy(name).into_owned());
        Ok(number)
    }

    /// What the device with this number is called.
    pub(crate) fn name(&self, number: u64) -> String {
        usize::try_from(number)
            .ok()
            .and_then(|index| self.names.get(index))
            .map_or_else(|| number.to_string(), Clone::clone)
    }
}

/// Numbers the keys that decoders give; the last one is found without hashing.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    last: Option<(u64, usize)>,
    numbers: HashMap<u64, usize>,
}

impl Keys {
    /// The number of `key`, and whether it is new.
    pub(crate) fn number(&mut self, key: u64) -> Result<(usize, bool), Reason> {
        if let Some((last, number)) = self.last
            && last == key
        {
            return Ok((number, false));
        }
        let next = self.numbers.len();
        let (number, is_first) = match self.numbers.get(&key) {
            Some(&number) => (number, false),
            None if next == DEVICES_MAX => return Err(Reason::Devices),
            None => {
                self.numbers.insert(key, next);
                (next, true)
            }
        };
        self.last = Some((key, number));
        Ok((number, is_first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_numbered_as_they_appear() {
        let mut names = Names::default();
        for (name, number) in [("web,1", 0), ("web,0", 1), ("web,1", 0), ("web,0", 1)] {
            assert_eq!(names.number(name.as_bytes()), Ok(number));
        }
        assert_eq!(names.name(1), "web,0");
        let mut keys = Keys::default();
        let seen: Vec<_> = [7, 7, 3, 7, 3].map(|key| keys.number(key).unwrap()).into();
        assert_eq!(seen, [(0, true), (0, false), (1, true), (0, false), (1, false)]);
    }

    #[test]
    fn devices_are_bounded() {
        let mut keys = Keys::default();
        for key in 0..DEVICES_MAX as u64 {
            keys.number(key).unwrap();
        }
        assert_eq!(keys.number(u64::MAX), Err(Reason::Devices));
        assert_eq!(Names::default().number(&[b'x'; 257]), Err(Reason::Devices));
    }
}
