//! The controllers of volumes, optional: [`bind_volumes`] binds claims to volumes, [`release_volumes`] lets deleted
//! claims and volumes go once they are not used.

mod binding;
mod matching;
mod protection;

pub use binding::bind_volumes;
pub use protection::release_volumes;
