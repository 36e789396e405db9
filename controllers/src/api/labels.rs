//! Labels of objects.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

use super::intern::{Hasher, Internable, InternedSlice, InternedStr, Interner};

/// Labels in the order of their keys, shared by all objects that have the same.
#[derive(Clone, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Labels(InternedSlice<Label>);

/// A label: key and value.
pub type Label = (InternedStr, InternedStr);

impl Labels {
    /// The labels of a map.
    pub fn new(labels: BTreeMap<InternedStr, InternedStr>) -> Self {
        Self(InternedSlice::new(labels.into_iter().collect()))
    }

    /// The value of the label `key`.
    pub fn get(&self, key: &str) -> Option<&InternedStr> {
        // A handful: going through them is faster than halving.
        self.0.iter().find(|(held, _)| held == key).map(|(_, value)| value)
    }

    /// All of them, by key.
    pub fn iter(&self) -> impl Iterator<Item = &Label> {
        self.0.iter()
    }

    /// Whether both are the same allocation: then they are equal. Equal ones usually are.
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
