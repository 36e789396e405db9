//! Who was tested, on what, with which result, in a document that cannot disagree with itself.
//!
//! - [`digest`]: what two people must have in common before they talk about the same run

pub mod digest;
