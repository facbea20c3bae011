//! Arenas: what holds the things that have ids of a type of their own?
//!
//! A number that names a request is not one that names a command or a drive: the compiler tells them apart.

use slab::Slab;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// A key of an arena.
pub(crate) trait Key: Copy {
    /// The key with this number.
    fn new(number: u32) -> Self;
    /// Its number.
    fn number(self) -> u32;
}

/// Things that come and go, by keys that are used again.
#[derive(Clone)]
pub(crate) struct Arena<K, V> {
    slab: Slab<V>,
    key: PhantomData<K>,
}

impl<K, V> Default for Arena<K, V> {
    fn default() -> Self {
        Arena { slab: Slab::new(), key: PhantomData }
    }
}

impl<K, V: fmt::Debug> fmt::Debug for Arena<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.slab.fmt(f)
    }
}

impl<K: Key, V> Arena<K, V> {
    /// # Panics
    /// If there are 2^32 of them: requests and commands under way are bounded far below.
    #[inline]
    pub(crate) fn insert(&mut self, value: V) -> K {
        K::new(u32::try_from(self.slab.insert(value)).expect("what is under way is bounded"))
    }

    /// # Panics
    /// If there is none of this key.
    #[inline]
    pub(crate) fn remove(&mut self, key: K) -> V {
        self.slab.remove(key.number() as usize)
    }

    #[inline]
    pub(crate) fn get(&self, key: K) -> Option<&V> {
        self.slab.get(key.number() as usize)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        self.slab.iter().map(|(key, value)| (K::new(key as u32), value))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (K, &mut V)> {
        self.slab.iter_mut().map(|(key, value)| (K::new(key as u32), value))
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.slab.len()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.slab.is_empty()
    }
}

impl<K: Key, V> Index<K> for Arena<K, V> {
    type Output = V;

    #[inline]
    fn index(&self, key: K) -> &V {
        &self.slab[key.number() as usize]
    }
}

impl<K: Key, V> IndexMut<K> for Arena<K, V> {
    #[inline]
    fn index_mut(&mut self, key: K) -> &mut V {
        &mut self.slab[key.number() as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Number(u32);

    impl Key for Number {
        fn new(number: u32) -> Self {
            Number(number)
        }

        fn number(self) -> u32 {
            self.0
        }
    }

    #[test]
    fn keys_are_used_again_and_only_for_what_is_there() {
        let mut arena = Arena::<Number, &str>::default();
        let (a, b) = (arena.insert("a"), arena.insert("b"));
        assert_eq!((arena[a], arena[b], arena.len()), ("a", "b", 2));
        assert_eq!(arena.remove(a), "a");
        assert!(arena.get(a).is_none() && arena.get(b).is_some());
        assert_eq!(arena.insert("c"), a, "the key is free again");
        arena[a] = "d";
        let all: Vec<_> = arena.iter().map(|(key, value)| (key, *value)).collect();
        assert_eq!(all, [(a, "d"), (b, "b")]);
    }

    #[test]
    #[should_panic(expected = "invalid key")]
    fn nobody_is_removed_twice() {
        let mut arena = Arena::<Number, ()>::default();
        let key = arena.insert(());
        arena.remove(key);
        arena.remove(key);
    }
}
