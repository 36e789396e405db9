//! An in-process kube-apiserver for tests: a state machine without I/O and two transports.
//! It serves the API of Kubernetes 1.36 and agrees with kube-apiserver in defaults, validation, messages and status
//! codes.
//!
//! | part | modules |
//! |---|---|
//! | requests and replies | [`request`], [`status`] |
//! | state | [`store`], [`watch`] |
//! | request handlers | [`verbs`], [`lifecycle`], [`selectors`], [`patch`], [`managedfields`], [`subresources`] |
//! | object representation | [`json`] |
//! | resources and types | [`kinds`], [`schema`], [`crd`] |
//! | discovery, OpenAPI, tables, metrics | [`discovery`], [`openapi`], [`table`], `counters` |
//! | objects of a fresh cluster | [`bootstrap`] |
//! | time, the record of requests | [`clock`], [`record`] |
//! | transports | [`service`] (in process, virtual time), [`listener`] (sockets, wall time) |
//! | optional controllers | [`gc`], [`kubelet`], [`workloads`], [`expiry`] |
//! | fault injection | [`faults`] |

pub mod bootstrap;
pub mod clock;
pub mod counters;
pub mod crd;
pub mod discovery;
mod encoding;
pub mod expiry;
pub mod faults;
pub mod gc;
pub mod identity;
pub mod json;
pub mod kinds;
pub mod kubelet;
pub mod lifecycle;
pub mod listener;
mod loops;
pub mod managedfields;
mod metadata;
pub mod openapi;
pub mod patch;
pub mod protobuf;
mod quantity;
mod recent;
pub mod record;
pub mod request;
pub mod schema;
mod secret;
pub mod selectors;
pub mod server;
pub mod service;
pub mod status;
pub mod store;
pub mod subresources;
pub mod table;
pub mod verbs;
pub mod watch;
pub mod workloads;

pub use kinds::field;
pub use request::{ApiRequest, Reply, ReplyBody};
pub use server::{ApiServer, ApiServerConfig};
pub use status::Status;
pub use store::{ResourceId, Stored};
