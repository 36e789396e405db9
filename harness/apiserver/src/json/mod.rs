//! JSON values that cost little to copy, to compare and to drop: what the server does with them at every write.
//!
//! The interface is `serde_json::Value`'s. What is different lies below: an object's members are a sorted list (where they
//! are many, a tree) that copies share until one of them changes it, and short texts are held in place. So a new state of an
//! object that differs in its status has the spec of the old one, not another that is equal.
//!
//! ```text
//! value.rs     the value, its conversions and comparisons
//! map.rs       objects
//! index.rs     `value["name"]`, `value[0]`, pointers
//! encode.rs    from and to text, and to and from `serde_json`'s values
//! ```
//!
//! PURE.

mod encode;
mod index;
mod map;
mod value;

pub(crate) use map::Prefix;
pub use map::{Entry, IntoIter, Iter, IterMut, Key, Map};
pub use serde_json::Number;
pub use value::Value;

/// A [`Value`] from JSON with expressions in it, as `serde_json::json!` takes it.
macro_rules! json {
    ($($json:tt)+) => { $crate::json::Value::from(::serde_json::json!($($json)+)) };
}
pub(crate) use json;

#[cfg(test)]
mod tests;
