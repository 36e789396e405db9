//! Slim serde types: only the fields somebody reads.
