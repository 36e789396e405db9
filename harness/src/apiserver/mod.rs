//! The fake Kubernetes API server: a pure core and two transports.

pub mod crd;
pub mod discovery;
pub mod faults;
pub mod field;
pub mod gc;
pub mod kinds;
pub mod kubelet;
pub mod lifecycle;
pub mod listener;
pub mod managedfields;
pub mod openapi;
pub mod patch;
pub mod request;
pub mod schema;
pub mod selectors;
pub mod service;
pub mod status;
pub mod store;
pub mod subresources;
pub mod table;
pub mod verbs;
pub mod watch;
