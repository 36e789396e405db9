//! What controllers write, and the one door it goes through; live reads next to it.

pub mod actions;
mod reader;
mod request;
mod writer;

pub use self::reader::{DISCOVERY_TTL, Reader};
pub use self::writer::Writer;
