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
//! Features, all on by default: `client` adds `ApiServer::client`, `controllers` adds the modules
//! `garbage_collector`, `kubelet`, `workloads`, `endpoints`, `endpoint_mirroring`, `service_accounts`, `quota_usage`,
//! `policy_status`, `volumes`, `events`, `node_lifecycle`, `certificate_signer`, `usage_metrics`, `pod_autoscaler`,
//! `event_ttl`, `compaction` and `api_services`. Without `client` the crate does not depend on kube. `listener` adds
//! sockets, `descriptions` the texts of `kubectl explain`.
//!
//! | part | public names |
//! |---|---|
//! | the server | [`ApiServer`], [`ApiServerBuilder`], [`ApiServerConfig`] |
//! | its options | [`AdmissionPlugin`], [`HistoryLimits`], [`RecordMode`], [`KubernetesVersion`], [`UnknownVersion`] |
//! | its reported version, its audit log, users | [`ReportedVersion`], [`AuditLog`], [`ClientUsers`] |
//! | its signer of certificates | [`CertificateAuthority`] |
//! | objects | [`ResourceId`], [`StoredObject`], [`json`]; errors of seeding: [`SeedError`] |
//! | requests, replies | [`ApiRequest`], [`Reply`], [`ReplyBody`], [`Status`]; their parts: [`request`], [`status`] |
//! | time, the record of requests and changes | [`clock`], [`record`] |
//! | transports | [`service`] (in process, virtual time), `listener` (sockets, wall time) |
//! | objects of a fresh cluster | [`bootstrap`] |
//! | stand-ins for controllers | `garbage_collector`, `kubelet`, `workloads`, `endpoints`, `service_accounts` |
//! | further ones | `quota_usage`, `policy_status`, `volumes`, `events`, `node_lifecycle`, `endpoint_mirroring` |
//! | and | `certificate_signer`, `usage_metrics`, `pod_autoscaler` |
//! | parts of the server that need time | `event_ttl`, `compaction`, `api_services` |
//! | fault injection | [`faults`] |
//! | recording proxies and load tests | [`proxy`], [`metrics`] |
//!
//! Everything else is private. `ARCHITECTURE.md` of the repository has the map of the private modules.

mod admission;
#[cfg(feature = "controllers")]
pub mod api_services;
mod audit;
mod authn;
mod backoff;
pub mod bootstrap;
mod builder;
mod byte_scan;
#[cfg(feature = "controllers")]
pub mod certificate_signer;
pub mod clock;
#[cfg(feature = "controllers")]
mod cluster_roles;
#[cfg(feature = "controllers")]
pub mod compaction;
mod container_log;
#[cfg(feature = "controllers")]
mod controllers;
mod crd;
mod cron;
mod decode_cache;
mod definition_index;
mod descriptions;
mod discovery;
#[cfg(feature = "controllers")]
pub mod endpoint_mirroring;
#[cfg(feature = "controllers")]
pub mod endpoints;
mod etag;
#[cfg(feature = "controllers")]
mod event_sink;
#[cfg(feature = "controllers")]
pub mod event_ttl;
#[cfg(feature = "controllers")]
pub mod events;
mod expressions;
pub mod faults;
mod field_errors;
#[cfg(feature = "listener")]
mod flow_control;
#[cfg(feature = "controllers")]
pub mod garbage_collector;
#[cfg(any(feature = "controllers", feature = "listener"))]
mod glob;
mod go_base64;
mod go_duration;
mod go_float;
mod go_json;
mod go_netip;
mod go_regex;
mod go_url;
mod handlers;
mod idle_apply;
mod ids;
pub mod json;
#[cfg(feature = "controllers")]
pub mod kubelet;
#[cfg(test)]
mod legacy_tests;
#[cfg(feature = "listener")]
pub mod listener;
#[cfg(all(test, feature = "controllers"))]
mod loop_tests;
mod managedfields;
mod metadata;
pub mod metrics;
mod name_formats;
mod negotiate;
#[cfg(feature = "controllers")]
pub mod node_lifecycle;
#[cfg(feature = "controllers")]
mod node_selector;
mod object_lifecycle;
mod object_watch;
mod openapi;
mod outbound;
mod patch;
#[cfg(feature = "controllers")]
pub mod pod_autoscaler;
#[cfg(feature = "controllers")]
mod pod_fields;
mod pod_security;
#[cfg(feature = "controllers")]
pub mod policy_status;
mod printers;
mod protobuf;
pub mod proxy;
mod quantity;
#[cfg(feature = "controllers")]
pub mod quota_usage;
mod read_cache;
pub mod record;
mod registry;
pub mod request;
mod schema;
#[cfg(feature = "listener")]
mod secret;
mod seed;
mod selectors;
mod server;
pub mod service;
#[cfg(feature = "controllers")]
pub mod service_accounts;
pub mod status;
mod store;
#[cfg(feature = "listener")]
mod streaming;
mod subresources;
#[cfg(feature = "controllers")]
mod token_secrets;
#[cfg(feature = "controllers")]
pub mod usage_metrics;
mod user;
mod version;
#[cfg(feature = "controllers")]
pub mod volumes;
mod watch;
mod work_order;
#[cfg(feature = "controllers")]
pub mod workloads;
mod x509;
mod yaml;

pub use audit::AuditLog;
pub use builder::ApiServerBuilder;
pub use registry::AdmissionPlugin;
pub use request::{ApiRequest, Reply, ReplyBody};
pub use seed::SeedError;
pub use server::{ApiServer, ApiServerConfig, ClientUsers, RecordMode};
pub use status::Status;
pub use store::{HistoryLimits, ResourceId, StoredObject};
pub use version::{KubernetesVersion, ReportedVersion, UnknownVersion};
pub use x509::CertificateAuthority;

/// Compiles and runs the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
