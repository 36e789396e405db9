//! Ordered, indexed object caches, written by one informer and read through [`Lister`]s.

mod indexer;
mod lister;
mod store;

pub use self::lister::Lister;
pub use self::store::{Change, Store};
