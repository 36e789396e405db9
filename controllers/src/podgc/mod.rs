//! The pod garbage collector.
