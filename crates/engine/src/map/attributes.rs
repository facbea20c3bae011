//! What is noted of an object, by key?
//!
//! Source: requirements L3: attributes carry what the layers above want to find with a file. A small
//! ordered set of keys and values per object; a directory's entries are attributes too, so a page of them
//! from a key on costs what the page is long. All objects' attributes are in one table.

use super::FixedState;
use crate::tier::{self, TierNumber};
use hashbrown::HashMap;
use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::ops::Bound;
use tandem_block::{IoError, KEY_BYTES_MAX, ObjectId, TIER_KEY, VALUE_BYTES_MAX};

/// Bytes of an attribute's record without key and value: header, object and length of the key.
pub(crate) const ATTRIBUTE_RECORD_BYTES: usize = 4 + 10;

/// Object and key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Name(ObjectId, Box<[u8]>);

/// A `Name`, or one that is only borrowed: so that a look-up takes no memory.
trait AsName {
    fn parts(&self) -> (ObjectId, &[u8]);
}

impl AsName for Name {
    fn parts(&self) -> (ObjectId, &[u8]) {
        (self.0, &self.1)
    }
}

impl AsName for (ObjectId, &[u8]) {
    fn parts(&self) -> (ObjectId, &[u8]) {
        *self
    }
}

impl<'a> Borrow<dyn AsName + 'a> for Name {
    fn borrow(&self) -> &(dyn AsName + 'a) {
        self
    }
}

impl PartialEq for dyn AsName + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for dyn AsName + '_ {}

impl PartialOrd for dyn AsName + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for dyn AsName + '_ {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.parts().cmp(&other.parts())
    }
}

/// A key and its value, of an object.
pub(crate) type Attribute<'a> = (ObjectId, &'a [u8], &'a [u8]);

/// A key and its value that were taken away.
pub(crate) type Removed = (Box<[u8]>, Box<[u8]>);

/// Attributes of all objects.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attributes {
    values: BTreeMap<Name, Box<[u8]>>,
    record_bytes: u64,
    /// Objects with a tier of their own ([`TIER_KEY`]): asked for with every request.
    tiers: HashMap<ObjectId, TierNumber, FixedState>,
}

fn record_bytes(key: &[u8], value: &[u8]) -> u64 {
    (ATTRIBUTE_RECORD_BYTES + key.len() + value.len()) as u64
}

impl Attributes {
    /// May an attribute be like this?
    ///
    /// # Errors
    /// `AttributeSize`.
    pub(crate) fn check(key: &[u8], value: &[u8]) -> Result<(), IoError> {
        let fits = (1..=KEY_BYTES_MAX).contains(&key.len()) && value.len() <= VALUE_BYTES_MAX;
        if fits { Ok(()) } else { Err(IoError::AttributeSize) }
    }

    /// How many there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    /// Bytes of their records.
    pub(crate) fn record_bytes(&self) -> u64 {
        self.record_bytes
    }

    /// The value of a key.
    pub(crate) fn get(&self, object: ObjectId, key: &[u8]) -> Option<&[u8]> {
        self.values.get(&(object, key) as &dyn AsName).map(|value| &**value)
    }

    /// The tier that an object names for itself.
    #[inline]
    pub(crate) fn tier(&self, object: ObjectId) -> Option<TierNumber> {
        if self.tiers.is_empty() { None } else { self.tiers.get(&object).copied() }
    }

    /// Sets a key's value and returns the one before.
    pub(crate) fn set(&mut self, object: ObjectId, key: &[u8], value: &[u8]) -> Option<Box<[u8]>> {
        if key == TIER_KEY {
            match tier::number(value) {
                Some(number) => self.tiers.insert(object, number),
                None => self.tiers.remove(&object),
            };
        }
        self.record_bytes += record_bytes(key, value);
        let before = match self.values.get_mut(&(object, key) as &dyn AsName) {
            Some(known) => Some(std::mem::replace(known, value.into())),
            None => self.values.insert(Name(object, key.into()), value.into()),
        };
        if let Some(before) = &before {
            let bytes = record_bytes(key, before);
            assert!(
                self.record_bytes > bytes,
                "the value before was counted, and so is the new one"
            );
            self.record_bytes -= bytes;
        }
        before
    }

    /// Takes an attribute away and returns its value.
    pub(crate) fn remove(&mut self, object: ObjectId, key: &[u8]) -> Option<Box<[u8]>> {
        let value = self.values.remove(&(object, key) as &dyn AsName)?;
        if key == TIER_KEY {
            self.tiers.remove(&object);
        }
        let bytes = record_bytes(key, &value);
        assert!(self.record_bytes >= bytes, "an attribute that goes was counted");
        self.record_bytes -= bytes;
        assert!(
            !self.values.is_empty() || (self.record_bytes == 0 && self.tiers.is_empty()),
            "what is counted of attributes goes with them"
        );
        Some(value)
    }

    /// Attributes from this key on (or behind it), of this object and those behind it.
    pub(crate) fn from(
        &self,
        object: ObjectId,
        key: &[u8],
        behind: bool,
    ) -> impl Iterator<Item = Attribute<'_>> {
        let name = (object, key);
        let name: &dyn AsName = &name;
        let start = if behind { Bound::Excluded(name) } else { Bound::Included(name) };
        let range = self.values.range::<dyn AsName, _>((start, Bound::Unbounded));
        range.map(|(name, value)| (name.0, &*name.1, &**value))
    }

    /// Takes all attributes of an object away.
    pub(crate) fn remove_all(&mut self, object: ObjectId) -> Vec<Removed> {
        let keys: Vec<Box<[u8]>> = self
            .from(object, &[], false)
            .take_while(|(id, ..)| *id == object)
            .map(|(_, key, _)| key.into())
            .collect();
        let mut removed = Vec::with_capacity(keys.len());
        for key in keys {
            let value = self.remove(object, &key).expect("it was listed");
            removed.push((key, value));
        }
        removed
    }

    /// Objects that have any.
    pub(crate) fn objects(&self) -> impl Iterator<Item = ObjectId> + '_ {
        self.values.keys().map(|name| name.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ObjectId = ObjectId(1);
    const B: ObjectId = ObjectId(2);

    #[test]
    fn keys_are_in_order_and_objects_apart() {
        let mut attributes = Attributes::default();
        for (object, key) in [(A, "b"), (B, "a"), (A, "a"), (A, "c")] {
            assert_eq!(attributes.set(object, key.as_bytes(), b"1"), None);
        }
        assert_eq!(attributes.set(A, b"b", b"22").as_deref(), Some(&b"1"[..]));
        assert_eq!(attributes.get(A, b"b"), Some(&b"22"[..]));
        assert_eq!(attributes.get(B, b"b"), None);
        let of = |key: &[u8], behind| {
            let all = attributes.from(A, key, behind).take_while(|(id, ..)| *id == A);
            all.map(|(_, key, _)| key[0] as char).collect::<String>()
        };
        assert_eq!(
            (of(b"", false), of(b"b", false), of(b"b", true)),
            ("abc".into(), "bc".into(), "c".into())
        );
        assert_eq!(attributes.record_bytes(), 4 * 15 + 5);
        assert_eq!(attributes.remove_all(A).len(), 3);
        assert_eq!((attributes.len(), attributes.record_bytes()), (1, 16));
        assert_eq!(attributes.remove(B, b"x"), None);
        assert_eq!(attributes.remove(B, b"a").as_deref(), Some(&b"1"[..]));
        assert_eq!(attributes.record_bytes(), 0);
    }

    #[test]
    fn an_object_may_name_its_tier() {
        let mut attributes = Attributes::default();
        assert_eq!(attributes.tier(A), None);
        attributes.set(A, TIER_KEY, b"hot-dst");
        assert_eq!((attributes.tier(A), attributes.tier(B)), (tier::number(b"hot-dst"), None));
        assert!(attributes.tier(A).is_some());
        attributes.set(A, TIER_KEY, b"none");
        assert_eq!(attributes.tier(A), tier::number(b"none"));
        attributes.set(B, TIER_KEY, b"lukewarm");
        assert_eq!(attributes.tier(B), None, "of another age, or another hand");
        attributes.set(A, TIER_KEY, b"lukewarm");
        assert_eq!(attributes.tier(A), None);
        attributes.set(A, TIER_KEY, b"edt");
        attributes.remove_all(A);
        assert_eq!(attributes.tier(A), None);
    }

    #[test]
    fn sizes_are_bounded() {
        let long = [1u8; VALUE_BYTES_MAX + 1];
        assert_eq!(Attributes::check(b"", b""), Err(IoError::AttributeSize));
        assert_eq!(Attributes::check(&long[..KEY_BYTES_MAX], &long[1..]), Ok(()));
        assert_eq!(Attributes::check(&long[..=KEY_BYTES_MAX], b""), Err(IoError::AttributeSize));
        assert_eq!(Attributes::check(b"k", &long), Err(IoError::AttributeSize));
    }
}
