//! The histories that explorations disturb: fixtures, their beginnings, and random ones.
//!
//! - [`facts`]: what a fixture does by itself
//! - [`beginnings`]: the first steps of a fixture
//! - [`random`], [`draw`]: histories that a seed generates
//! - [`exceptions`]: fixtures that break an oracle without any fault

pub mod beginnings;
pub mod draw;
pub mod exceptions;
pub mod facts;
pub mod random;
