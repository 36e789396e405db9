//! Labels of objects.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

use super::intern::{Hasher, Internable, InternedSlice, InternedStr, Interner};

/// Labels ordered by key, shared by all objects with equal labels.
#[derive(Clone, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Labels(InternedSlice<Label>);

/// A label: key and value.
pub type Label = (InternedStr, InternedStr);

impl Labels {
    /// Interns the labels of a map.
    pub fn new(labels: BTreeMap<InternedStr, InternedStr>) -> Self {
        Self(InternedSlice::new(labels.into_iter().collect()))
    }

    /// Returns the value of the label `key`.
    pub fn get(&self, key: &str) -> Option<&InternedStr> {
        // Objects have few labels: a linear search is faster than a binary one.
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// Returns all labels, ordered by key.
    pub fn iter(&self) -> impl Iterator<Item = &Label> {
        self.0.iter()
    }

    /// Returns true if both are the same allocation and therefore equal. Equal labels usually are the same allocation.
    pub fn ptr_eq(&self, other: &Self) -> bool {
        self.0.ptr_eq(&other.0)
    }
}

impl Internable for Label {
    fn interner() -> &'static Interner<[Self]> {
        static INTERNER: Interner<[Label]> = Interner::new();
        &INTERNER
    }

    fn digest(&self, hasher: Hasher) -> Hasher {
        hasher.text(&self.0).text(&self.1)
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        BTreeMap::deserialize(deserializer).map(Self::new)
    }
}
