//! Labels of objects.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

use super::intern::{Hasher, Pool, Pooled, Shared, Text};

/// Labels in the order of their keys, shared by all objects that have the same.
#[derive(Clone, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Labels(Shared<Label>);

/// A label: key and value.
pub type Label = (Text, Text);

impl Labels {
    /// The labels of a map.
    pub fn new(labels: BTreeMap<Text, Text>) -> Self {
        Self(Shared::new(labels.into_iter().collect()))
    }

    /// The value of the label `key`.
    pub fn get(&self, key: &str) -> Option<&Text> {
        // A handful: going through them is faster than halving.
        self.0.iter().find(|(held, _)| held == key).map(|(_, value)| value)
    }

    /// All of them, by key.
    pub fn iter(&self) -> impl Iterator<Item = &Label> {
        self.0.iter()
    }

    /// Whether both are the same allocation: then they are equal. Equal ones usually are.
    pub fn is(&self, other: &Self) -> bool {
        self.0.is(&other.0)
    }
}

impl Pooled for Label {
    fn pool() -> &'static Pool<[Self]> {
        static POOL: Pool<[Label]> = Pool::new();
        &POOL
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
