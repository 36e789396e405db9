//! Field errors; their home is [`kinds::field`](super::kinds::field).

pub use super::kinds::field::*;
