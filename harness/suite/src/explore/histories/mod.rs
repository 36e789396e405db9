//! The histories that explorations disturb: fixtures, their beginnings, and random ones.
//!
//! - [`facts`]: what a fixture does by itself
//! - [`beginnings`]: the first steps of a fixture
//! - [`random`], [`draw`]: histories that a seed generates

pub mod beginnings;
pub mod draw;
pub mod facts;
pub mod random;
