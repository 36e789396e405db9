//! Access to parts of a value: `value["name"]`, `value[0]` and JSON pointers.

use std::ops;

use super::map::{Key, Map};
use super::value::Value;

static NULL: Value = Value::Null;

/// An index into a value: a member name or an item number.
pub trait ValueIndex {
    /// Returns the part, if it exists.
    fn of<'v>(&self, value: &'v Value) -> Option<&'v Value>;
    /// Returns the part mutably, if it exists.
    fn of_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value>;
    /// Returns the part, inserting a member that is missing.
    ///
    /// # Panics
    ///
    /// If the value cannot have such a part.
    fn made<'v>(&self, value: &'v mut Value) -> &'v mut Value;
}

impl ValueIndex for str {
    fn of<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        value.as_object()?.get(self)
    }

    fn of_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
        value.as_object_mut()?.get_mut(self)
    }

    fn made<'v>(&self, value: &'v mut Value) -> &'v mut Value {
        if value.is_null() {
            *value = Value::Object(Map::new());
        }
        value.as_object_mut().expect("only objects have members").entry(self).or_insert(Value::Null)
    }
}

impl ValueIndex for usize {
    fn of<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        value.as_array()?.get(*self)
    }

    fn of_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
        value.as_array_mut()?.get_mut(*self)
    }

    fn made<'v>(&self, value: &'v mut Value) -> &'v mut Value {
        self.of_mut(value).expect("the list has the item")
    }
}

macro_rules! as_text {
    ($($text:ty),+) => { $(
        impl ValueIndex for $text {
            fn of<'v>(&self, value: &'v Value) -> Option<&'v Value> {
                str::of(self, value)
            }

            fn of_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
                str::of_mut(self, value)
            }

            fn made<'v>(&self, value: &'v mut Value) -> &'v mut Value {
                str::made(self, value)
            }
        }
    )+ };
}
as_text!(String, Key);

impl<I: ValueIndex + ?Sized> ValueIndex for &I {
    fn of<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        (**self).of(value)
    }

    fn of_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
        (**self).of_mut(value)
    }

    fn made<'v>(&self, value: &'v mut Value) -> &'v mut Value {
        (**self).made(value)
    }
}

impl Value {
    /// Returns the member or item, if it exists.
    pub fn get(&self, index: impl ValueIndex) -> Option<&Self> {
        index.of(self)
    }

    /// Returns the member or item mutably, if it exists.
    pub fn get_mut(&mut self, index: impl ValueIndex) -> Option<&mut Self> {
        index.of_mut(self)
    }

    /// Returns the value at an RFC 6901 pointer such as `/spec/containers/0`.
    pub fn pointer(&self, pointer: &str) -> Option<&Self> {
        steps(pointer)?.try_fold(self, |value, step| match value {
            Self::Object(map) => map.get(unescape_pointer_token(step)),
            Self::Array(items) => items.get(number(step)?),
            _ => None,
        })
    }

    /// Returns the value at a pointer mutably.
    pub fn pointer_mut(&mut self, pointer: &str) -> Option<&mut Self> {
        // Checked first, so that shared parts are not copied for a pointer that does not exist.
        self.pointer(pointer)?;
        steps(pointer)?.try_fold(self, |value, step| match value {
            Self::Object(map) => map.get_mut(unescape_pointer_token(step)),
            Self::Array(items) => items.get_mut(number(step)?),
            _ => None,
        })
    }
}

fn steps(pointer: &str) -> Option<impl Iterator<Item = &str>> {
    let mut steps = pointer.split('/');
    // A pointer is empty or starts with a slash.
    (steps.next() == Some("")).then_some(steps)
}

fn unescape_pointer_token(step: &str) -> std::borrow::Cow<'_, str> {
    if step.contains('~') { step.replace("~1", "/").replace("~0", "~").into() } else { step.into() }
}

fn number(step: &str) -> Option<usize> {
    if step.starts_with('+') || (step.starts_with('0') && step.len() > 1) { None } else { step.parse().ok() }
}

impl<I: ValueIndex> ops::Index<I> for Value {
    type Output = Self;

    /// Returns the member or item; `null` if it does not exist.
    fn index(&self, index: I) -> &Self {
        index.of(self).unwrap_or(&NULL)
    }
}

impl<I: ValueIndex> ops::IndexMut<I> for Value {
    /// Returns the member or item, inserting a member that is missing.
    fn index_mut(&mut self, index: I) -> &mut Self {
        index.made(self)
    }
}
