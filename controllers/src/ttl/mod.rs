//! The ttl controller.
