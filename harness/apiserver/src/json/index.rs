//! `value["name"]`, `value[0]`, pointers.

use std::ops;

use super::{Key, Map, Value};

static NULL: Value = Value::Null;

/// What a value can be asked for: a member by its name, an item by its number.
pub trait Index {
    /// The part, if it is there.
    fn of<'v>(&self, value: &'v Value) -> Option<&'v Value>;
    /// The part, if it is there, to be changed.
    fn of_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value>;
    /// The part, made where it is missing.
    ///
    /// # Panics
    ///
    /// If the value can have no such part.
    fn made<'v>(&self, value: &'v mut Value) -> &'v mut Value;
}

impl Index for str {
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

impl Index for usize {
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
        impl Index for $text {
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

impl<I: Index + ?Sized> Index for &I {
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
    /// The member or item, if the value has it.
    pub fn get(&self, index: impl Index) -> Option<&Self> {
        index.of(self)
    }

    /// The member or item, if the value has it, to be changed.
    pub fn get_mut(&mut self, index: impl Index) -> Option<&mut Self> {
        index.of_mut(self)
    }

    /// What an RFC 6901 pointer (`/spec/containers/0`) leads to.
    pub fn pointer(&self, pointer: &str) -> Option<&Self> {
        steps(pointer)?.try_fold(self, |value, step| match value {
            Self::Object(map) => map.get(unescaped(step)),
            Self::Array(items) => items.get(number(step)?),
            _ => None,
        })
    }

    /// What a pointer leads to, to be changed.
    pub fn pointer_mut(&mut self, pointer: &str) -> Option<&mut Self> {
        // Nothing becomes the value's own for the sake of what is not there.
        self.pointer(pointer)?;
        steps(pointer)?.try_fold(self, |value, step| match value {
            Self::Object(map) => map.get_mut(unescaped(step)),
            Self::Array(items) => items.get_mut(number(step)?),
            _ => None,
        })
    }
}

fn steps(pointer: &str) -> Option<impl Iterator<Item = &str>> {
    let mut steps = pointer.split('/');
    // A pointer is empty or begins with a slash.
    (steps.next() == Some("")).then_some(steps)
}

fn unescaped(step: &str) -> std::borrow::Cow<'_, str> {
    if step.contains('~') { step.replace("~1", "/").replace("~0", "~").into() } else { step.into() }
}

fn number(step: &str) -> Option<usize> {
    if step.starts_with('+') || (step.starts_with('0') && step.len() > 1) { None } else { step.parse().ok() }
}

impl<I: Index> ops::Index<I> for Value {
    type Output = Self;

    /// The member or item; `null` where there is none.
    fn index(&self, index: I) -> &Self {
        index.of(self).unwrap_or(&NULL)
    }
}

impl<I: Index> ops::IndexMut<I> for Value {
    /// The member or item; members are made where they are missing.
    fn index_mut(&mut self, index: I) -> &mut Self {
        index.made(self)
    }
}
