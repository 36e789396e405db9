//! Lists of the types `set` and `map`, whose order does not matter. PURE.
//!
//! Follows `unstructuredSetList` and `unstructuredMapList` of
//! `staging/src/k8s.io/apiserver/pkg/cel/common/valuesunstructured.go` of Kubernetes 1.36. The list on the left of an
//! operator decides.

use std::collections::BTreeMap;
use std::sync::Arc;

use cel::common::types::{
    CelBool, CelBytes, CelDouble, CelDuration, CelInt, CelMap, CelMapKey, CelNull, CelString, CelTimestamp, CelUInt,
};
use cel::common::value::Val;

/// The type of a list: `x-kubernetes-list-type`.
#[derive(Debug, Clone, Default)]
pub(super) enum ListKind {
    /// The order matters.
    #[default]
    Atomic,
    /// Elements are there or not.
    Set,
    /// Elements are objects with these keys.
    Map(Arc<[CelMapKey<'static>]>),
}

/// The part of an element by which it is found in another list.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ElementKey<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(u64),
    Text(&'a str),
    Bytes(&'a [u8]),
    Timestamp(i64, u32),
    Duration(i64, i32),
    Several(Vec<Self>),
}

/// Returns the key of a scalar.
fn scalar_key<'a>(value: &'a (dyn Val + '_)) -> Option<ElementKey<'a>> {
    Some(if let Some(text) = value.downcast_ref::<CelString>() {
        ElementKey::Text(text.inner())
    } else if let Some(number) = value.downcast_ref::<CelInt>() {
        ElementKey::Int(*number.inner())
    } else if let Some(flag) = value.downcast_ref::<CelBool>() {
        ElementKey::Bool(*flag.inner())
    } else if let Some(number) = value.downcast_ref::<CelDouble>() {
        // Both zeros are equal.
        ElementKey::Double((*number.inner() + 0.0).to_bits())
    } else if let Some(number) = value.downcast_ref::<CelUInt>() {
        ElementKey::Uint(*number.inner())
    } else if let Some(bytes) = value.downcast_ref::<CelBytes>() {
        ElementKey::Bytes(bytes.inner())
    } else if let Some(moment) = value.downcast_ref::<CelTimestamp>() {
        ElementKey::Timestamp(moment.inner().timestamp(), moment.inner().timestamp_subsec_nanos())
    } else if let Some(length) = value.downcast_ref::<CelDuration>() {
        ElementKey::Duration(length.inner().num_seconds(), length.inner().subsec_nanos())
    } else if value.downcast_ref::<CelNull>().is_some() {
        ElementKey::Null
    } else {
        return None;
    })
}

/// The places of the elements of a list.
struct Places<'a> {
    list_kind: &'a ListKind,
    keyed: BTreeMap<ElementKey<'a>, usize>,
    /// Elements without a key.
    others: Vec<(usize, &'a dyn Val)>,
}

impl<'a> Places<'a> {
    fn of(list_kind: &'a ListKind, elements: &'a [Box<dyn Val>]) -> Self {
        let mut places = Self { list_kind, keyed: BTreeMap::new(), others: Vec::new() };
        for (index, element) in elements.iter().enumerate() {
            match list_kind.key(&**element) {
                // Of equal elements, the last one counts in a `map`.
                Some(key) if matches!(list_kind, ListKind::Map(_)) => {
                    places.keyed.insert(key, index);
                }
                Some(key) => {
                    places.keyed.entry(key).or_insert(index);
                }
                None => places.others.push((index, &**element)),
            }
        }
        places
    }

    fn find(&self, element: &dyn Val) -> Option<usize> {
        match self.list_kind.key(element) {
            Some(key) => self.keyed.get(&key).copied(),
            None => self.others.iter().find(|(_, other)| other.equals(element)).map(|(index, _)| *index),
        }
    }
}

impl ListKind {
    /// Returns true for lists whose order does not matter.
    pub(super) fn is_unordered(&self) -> bool {
        !matches!(self, Self::Atomic)
    }

    fn key<'a>(&self, element: &'a (dyn Val + '_)) -> Option<ElementKey<'a>> {
        let Self::Map(names) = self else { return scalar_key(element) };
        let fields = element.downcast_ref::<CelMap>()?.inner();
        let values = names.iter().map(|name| match fields.get(name) {
            Some(value) => scalar_key(&**value),
            None => Some(ElementKey::Null),
        });
        Some(ElementKey::Several(values.collect::<Option<_>>()?))
    }

    /// Returns true if a list of this type has the same elements as another list.
    pub(super) fn equal(&self, own: &[Box<dyn Val>], other: &[Box<dyn Val + '_>]) -> bool {
        let places = Places::of(self, own);
        let has = |element: &dyn Val| {
            places.find(element).is_some_and(|index| matches!(self, Self::Set) || own[index].equals(element))
        };
        own.len() == other.len() && other.iter().all(|element| has(&**element))
    }

    /// Returns the elements of a list of this type and those of another one. Elements of a `map` that have the keys of
    /// an own element replace it; elements that a `set` has already are left out.
    pub(super) fn merged<'a>(
        &self,
        own: &'a [Box<dyn Val>],
        other: &'a [Box<dyn Val>],
    ) -> Vec<&'a (dyn Val + 'static)> {
        let mut elements: Vec<&(dyn Val + 'static)> = own.iter().map(|element| &**element).collect();
        let (places, added) = (Places::of(self, own), Places::of(self, other));
        for (index, element) in other.iter().enumerate() {
            let is_map = matches!(self, Self::Map(_));
            match places.find(&**element) {
                Some(place) if is_map => elements[place] = &**element,
                None if is_map || added.find(&**element) == Some(index) => elements.push(&**element),
                Some(_) | None => {}
            }
        }
        elements
    }
}
