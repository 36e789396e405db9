//! Writes of controllers and live reads. [`Writer`] is the only place that writes on behalf of a controller.

pub mod actions;
mod reader;
mod request;
mod writer;

pub use self::reader::{DISCOVERY_TTL, Reader};
pub use self::writer::Writer;
