//! The fake Kubernetes API server: a pure core and two transports.
//!
//! | part | files |
//! |---|---|
//! | what comes in, what goes out | [`request`], [`status`] |
//! | state | [`store`], [`watch`] |
//! | what a request does | [`verbs`], [`lifecycle`], [`selectors`], [`patch`], [`managedfields`], [`subresources`] |
//! | objects as they are worked on | [`json`] |
//! | kinds | [`kinds`], [`schema`], [`crd`] |
//! | about itself | [`discovery`], [`openapi`], [`table`], `counters` |
//! | a fresh cluster | [`bootstrap`] |
//! | time, and what happened | [`clock`], [`record`] |
//! | transports | [`service`] (in process, virtual time), [`listener`] (sockets, wall time) |
//! | optional loops | [`gc`], [`kubelet`], [`workloads`], [`expiry`] |
//! | trouble on demand | [`faults`] |

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
pub mod openapi;
pub mod patch;
pub mod protobuf;
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
