//! An in-process kube-apiserver for tests: a state machine without I/O and two transports.
//! It serves the API of Kubernetes 1.36 and agrees with kube-apiserver in defaults, validation, messages and status
//! codes.
//!
//! ```
//! use plumbline_apiserver::{ApiServer, ResourceId, clock};
//! use serde_json::json;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "shop"}});
//! clock::run_virtual(async {
//!     let server = ApiServer::builder().build();
//!     server.seed([pod])?;
//!     assert!(server.get(&ResourceId::new("", "pods"), "shop", "web").is_some());
//!     Ok::<_, plumbline_apiserver::SeedError>(())
//! })??;
//! # Ok(())
//! # }
//! ```
//!
//! The folder `examples` has complete programs: `in_process`, `fault_injection`, `simulated_cluster` and `serve`.
//!
//! Features, both on by default: `client` adds `ApiServer::client`, `controllers` adds the modules
//! `garbage_collector`, `kubelet`, `workloads` and `event_ttl`. Without `client` the crate does not depend on kube.
//!
//! | part | modules |
//! |---|---|
//! | requests and replies | [`request`], [`status`], [`field_errors`], [`negotiate`] |
//! | state | [`store`], [`watch`] |
//! | request handlers | [`handlers`], [`object_meta`], [`selectors`], [`patch`], [`managedfields`], [`subresources`] |
//! | object representation | [`json`] |
//! | resources and types | [`registry`], [`schema`], [`crd`] |
//! | discovery, OpenAPI, tables, metrics | [`discovery`], [`openapi`], [`printers`], [`metrics`] |
//! | objects of a fresh cluster | [`bootstrap`] |
//! | time, the record of requests | [`clock`], [`record`] |
//! | transports | [`service`] (in process, virtual time), [`listener`] (sockets, wall time) |
//! | optional controllers | `garbage_collector`, `kubelet`, `workloads`, `event_ttl` |
//! | fault injection | [`faults`] |

pub mod authn;
pub mod bootstrap;
mod builder;
pub mod clock;
#[cfg(feature = "controllers")]
mod controllers;
pub mod crd;
mod decode_cache;
pub mod discovery;
mod etag;
#[cfg(feature = "controllers")]
pub mod event_ttl;
pub mod faults;
pub mod field_errors;
#[cfg(feature = "controllers")]
pub mod garbage_collector;
mod go_json;
pub mod handlers;
pub mod ids;
pub mod json;
#[cfg(feature = "controllers")]
pub mod kubelet;
pub mod listener;
pub mod managedfields;
mod metadata;
pub mod metrics;
pub mod negotiate;
pub mod object_meta;
pub mod openapi;
pub mod patch;
pub mod printers;
pub mod protobuf;
mod quantity;
pub mod record;
pub mod registry;
pub mod request;
pub mod schema;
mod secret;
mod seed;
pub mod selectors;
pub mod server;
pub mod service;
pub mod status;
pub mod store;
pub mod subresources;
pub mod user;
pub mod watch;
#[cfg(feature = "controllers")]
pub mod workloads;
mod yaml;

pub use builder::ApiServerBuilder;
pub use request::{ApiRequest, Reply, ReplyBody};
pub use seed::SeedError;
pub use server::{ApiServer, ApiServerConfig};
pub use status::Status;
pub use store::{ResourceId, StoredObject};

/// Compiles and runs the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
