//! The server's record of a run, read by controller, and its forms for people.
//!
//! The entries come from [`plumbline_apiserver::record`], which the subject cannot forge: they are the single source of
//! expectations ([`crate::expect`]), snapshots and reports.
//!
//! - [`TranscriptEntry`], [`EntryKind`], [`Delivery`]: the record
//! - [`Actor`], [`Attributed`]: the controller or other party behind an entry
//! - [`Agents`], [`InProcessEndpoint`]: attribute what arrives with the subject's credentials to its controllers
//! - [`redact`], [`render`]: the record as text, byte for byte the same on every run
//! - [`by_object`]: the record grouped by object, to compare two runs on the wall clock

mod actor;
mod agents;
pub mod by_object;
mod diff;
pub mod redact;
pub mod render;

pub use actor::{Actor, Attributed, USER_AGENT_OF_STEPS};
pub use agents::{AgentRules, Agents, InProcessEndpoint, REPLICA, is_judged, replica_of};
pub use plumbline_apiserver::record::{
    Change, ChangeKind, DeliveredObject, Delivery, EntryKind, Exchange, Origin, RecordedJson, RecordedReply,
    RecordedRequest, Transcript, TranscriptEntry,
};
