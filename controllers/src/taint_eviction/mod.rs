//! The taint-eviction controller.
