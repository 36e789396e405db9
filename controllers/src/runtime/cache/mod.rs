//! Ordered, indexed object caches. Written by one informer, read through [`Lister`]s.

mod indexer;
mod lister;
mod store;

pub use self::lister::Lister;
pub use self::store::{Change, Store};
