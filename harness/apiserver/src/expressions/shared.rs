//! CEL values that are copied without copying their contents, and that know how large they are. PURE.

use std::any::Any;
use std::sync::Arc;

use cel::common::traits::{
    Adder, Comparer, Container, Divider, Indexer, Iterable, Modder, Multiplier, Negator, Sizer, Subtractor, Zeroer,
};
use cel::common::types::{CelBool, CelBytes, CelInt, CelList, CelMap, CelMapKey, CelOptional, CelString, Type};
use cel::common::value::{Builtin, BuiltinRef, CowVal, FromVal, StaticVal, Val};

use super::list_kind::ListKind;

/// Bytes of a text that count as much as one item of a list.
const BYTES_PER_STEP: u64 = 64;

/// Deepest level of a value that is visited to find its size.
const MAX_SHARED_DEPTH: usize = 256;

/// A value that copies share.
#[derive(Debug, Clone)]
pub(crate) struct SharedValue {
    value: Arc<dyn Val>,
    /// Steps that it takes to visit the value with everything in it.
    weight: u64,
    /// The type of a list.
    list_kind: ListKind,
}

impl SharedValue {
    /// Returns a value of unknown size.
    pub(crate) fn new(value: impl Val + 'static) -> Self {
        let weight = weight(&value, 0);
        Self { value: Arc::new(value), weight, list_kind: ListKind::Atomic }
    }

    /// Returns a list.
    pub(crate) fn list(items: Vec<Self>) -> Self {
        Self::typed_list(items, ListKind::Atomic)
    }

    /// Returns a list of a type.
    pub(super) fn typed_list(items: Vec<Self>, list_kind: ListKind) -> Self {
        let weight = items.iter().fold(1, |sum: u64, item| sum.saturating_add(item.weight));
        let items: Vec<Box<dyn Val>> = items.into_iter().map(|item| Box::new(item) as Box<dyn Val>).collect();
        Self { value: Arc::new(CelList::from(items)), weight, list_kind }
    }

    /// Returns a map.
    #[expect(clippy::disallowed_types, reason = "the crate's maps are made of them; loops sort the keys")]
    pub(crate) fn map(entries: Vec<(CelMapKey<'static>, Self)>) -> Self {
        let weight = entries
            .iter()
            .fold(1, |sum: u64, (key, value)| sum.saturating_add(weight(key.inner(), 0)).saturating_add(value.weight));
        let entries = entries.into_iter().map(|(key, value)| (key, Box::new(value) as Box<dyn Val>));
        let value = Arc::new(CelMap::from(entries.collect::<std::collections::HashMap<_, _>>()));
        Self { value, weight, list_kind: ListKind::Atomic }
    }

    /// Returns a text.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::new(CelString::from(text.into()))
    }

    /// Returns a boolean.
    pub(crate) fn bool(flag: bool) -> Self {
        Self { value: Arc::new(CelBool::from(flag)), weight: 1, list_kind: ListKind::Atomic }
    }

    /// Returns an optional value.
    pub(crate) fn optional(value: Option<Self>) -> Self {
        let weight = value.as_ref().map_or(1, |value| value.weight);
        let value = value.map_or_else(CelOptional::none, |value| CelOptional::of(Box::new(value)));
        Self { value: Arc::new(value), weight, list_kind: ListKind::Atomic }
    }

    /// Returns a copy of a value, which shares the contents if that is possible.
    pub(crate) fn copy(value: &(dyn Val + 'static)) -> Self {
        value.downcast_ref::<Self>().cloned().unwrap_or_else(|| Self::from_box(value.clone_as_boxed()))
    }

    /// Returns the value in a box.
    pub(crate) fn from_box(value: Box<dyn Val>) -> Self {
        if let Some(shared) = value.downcast_ref::<Self>() {
            return shared.clone();
        }
        let weight = weight(&*value, 0);
        Self { value: Arc::from(value), weight, list_kind: ListKind::Atomic }
    }

    /// Returns the result of a function.
    pub(crate) fn from_result(value: CowVal<'_, 'static>) -> Self {
        match value {
            CowVal::Borrowed(value) => Self::copy(value),
            CowVal::Owned(value) => Self::from_box(value),
        }
    }

    /// Returns the sum of a list whose order does not matter and another list; `None` for other values.
    pub(crate) fn merged(&self, other: &Self) -> Option<Self> {
        let (own, other) = (self.as_list().filter(|_| self.list_kind.is_unordered())?, other.as_list()?);
        let elements = self.list_kind.merged(own.inner(), other.inner());
        Some(Self::typed_list(elements.into_iter().map(Self::copy).collect(), self.list_kind.clone()))
    }

    /// Returns the number of steps that it takes to visit the value with everything in it.
    pub(crate) fn weight(&self) -> u64 {
        self.weight
    }

    /// Returns the size of a text, list or map as CEL's `size` does; 1 for other values.
    pub(crate) fn size(&self) -> u64 {
        self.value.as_sizer().map_or(1, |sizer| u64::try_from(*sizer.size().inner()).unwrap_or(1))
    }

    /// Returns the boolean, if it is one.
    pub(crate) fn as_bool(&self) -> Option<bool> {
        self.value.downcast_ref::<CelBool>().map(|flag| *flag.inner())
    }

    /// Returns the integer, if it is one.
    pub(crate) fn as_int(&self) -> Option<i64> {
        self.value.downcast_ref::<CelInt>().map(|number| *number.inner())
    }

    /// Returns the text, if it is one.
    pub(crate) fn as_text(&self) -> Option<&str> {
        self.value.downcast_ref::<CelString<'static>>().map(CelString::inner)
    }

    /// Returns the list, if it is one.
    pub(crate) fn as_list(&self) -> Option<&CelList<'static>> {
        self.value.downcast_ref::<CelList<'static>>()
    }

    /// Returns the map, if it is one.
    pub(crate) fn as_map(&self) -> Option<&CelMap<'static>> {
        self.value.downcast_ref::<CelMap<'static>>()
    }

    /// Returns the content of an optional value; `None` if it is no optional value.
    #[expect(clippy::option_option, reason = "a value that is no optional differs from an empty optional")]
    pub(crate) fn as_optional(&self) -> Option<Option<Self>> {
        self.value.downcast_ref::<CelOptional<'static>>().map(|optional| optional.option().map(Self::copy))
    }

    /// Returns the value as one of a Rust type, if it is one.
    pub(crate) fn downcast<'b, T: FromVal<'b, 'static>>(&'b self) -> Option<&'b T> {
        self.value.downcast_ref::<T>()
    }

    /// Returns true if the value is a byte sequence.
    pub(crate) fn is_bytes(&self) -> bool {
        self.value.downcast_ref::<CelBytes<'static>>().is_some()
    }
}

/// Returns the number of steps that it takes to visit a value with everything in it.
fn weight(value: &(dyn Val + 'static), depth: usize) -> u64 {
    if let Some(shared) = value.downcast_ref::<SharedValue>() {
        return shared.weight;
    }
    if depth > MAX_SHARED_DEPTH {
        return 1;
    }
    if let Some(list) = value.downcast_ref::<CelList<'static>>() {
        return list.inner().iter().fold(1, |sum, item| sum.saturating_add(weight(&**item, depth + 1)));
    }
    if let Some(map) = value.downcast_ref::<CelMap<'static>>() {
        return map.inner().iter().fold(1, |sum, (key, value)| {
            sum.saturating_add(weight(key.inner(), depth + 1)).saturating_add(weight(&**value, depth + 1))
        });
    }
    if let Some(optional) = value.downcast_ref::<CelOptional<'static>>() {
        return optional.option().map_or(1, |value| weight(value, depth + 1));
    }
    let bytes = match (value.downcast_ref::<CelString<'static>>(), value.downcast_ref::<CelBytes<'static>>()) {
        (Some(text), _) => text.inner().len(),
        (None, Some(bytes)) => bytes.inner().len(),
        (None, None) => 0,
    };
    1 + u64::try_from(bytes).unwrap_or(u64::MAX) / BYTES_PER_STEP
}

/// Passes a capability of the shared value on.
macro_rules! capability {
    ($($accessor:ident: $capability:ident),*) => {$(
        fn $accessor<'b, 'v>(&'b self) -> Option<&'b (dyn $capability + 'v)>
        where
            Self: 'v,
        {
            self.value.$accessor()
        }
    )*};
}

impl Val for SharedValue {
    fn get_type(&self) -> &Type {
        self.value.get_type()
    }

    fn cel_type() -> &'static Type {
        &cel::common::types::DYN_TYPE
    }

    capability!(
        as_adder: Adder,
        as_divider: Divider,
        as_indexer: Indexer,
        as_iterable: Iterable,
        as_modder: Modder,
        as_multiplier: Multiplier,
        as_negator: Negator,
        as_subtractor: Subtractor
    );

    fn as_comparer(&self) -> Option<&dyn Comparer> {
        self.value.as_comparer()
    }

    fn as_container(&self) -> Option<&dyn Container> {
        self.value.as_container()
    }

    fn as_sizer(&self) -> Option<&dyn Sizer> {
        self.value.as_sizer()
    }

    fn as_zeroer(&self) -> Option<&dyn Zeroer> {
        self.value.as_zeroer()
    }

    fn equals(&self, other: &dyn Val) -> bool {
        match (self.as_list(), other.downcast_ref::<CelList<'_>>()) {
            (Some(own), Some(other)) if self.list_kind.is_unordered() => {
                self.list_kind.equal(own.inner(), other.inner())
            }
            _ => self.value.equals(other),
        }
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v>
    where
        Self: 'v,
    {
        Box::new(self.clone())
    }

    /// Returns the value within if it is known by its Rust type, such as a number, and else the shared value.
    fn as_any(&self) -> Option<&dyn Any> {
        self.value.as_any().or(Some(self))
    }

    fn as_builtin<'b, 'v>(&'b self) -> BuiltinRef<'b, 'v>
    where
        Self: 'v,
    {
        self.value.as_builtin()
    }

    fn into_builtin<'v>(self: Box<Self>) -> Option<Builtin<'v>>
    where
        Self: 'v,
    {
        self.value.clone_as_boxed().into_builtin()
    }
}

impl StaticVal for SharedValue {}
