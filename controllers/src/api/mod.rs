//! Slim API types: only the fields that a controller reads.
//!
//! The caches hold one view per object. Fields that are not part of a view are skipped while parsing and never
//! allocated, so a view is good for reading and deciding. Only [`pdb::PdbView`] keeps enough (all metadata except
//! `managedFields`, all of spec and status) to be written back as a whole.
//!
//! This module imports nothing else of the crate.
//!
//! | module | contents |
//! | --- | --- |
//! | [`meta`] | object metadata, the [`View`] trait with the accessors that every controller uses |
//! | [`object_key`], [`labels`], [`owner`], [`time`] | parts of the metadata |
//! | [`pod`], [`node`], [`pdb`], [`workload`], [`scale`] | the objects |
//! | [`cache_object`] | the trait of objects that an informer can cache |
//! | [`condition`] | pod, node and `metav1` conditions with upstream's update rules |
//! | [`selector`] | label selectors: parsing, matching, Go's two text formats |
//! | [`taint`] | taints and tolerations |
//! | [`int_or_percent`] | `intstr.IntOrString` and its scaling |
//! | [`go`] | Go text formats that reach the wire (`%q`, `strconv.Atoi`) |
//! | [`intern`], [`hash`] | interned strings and slices, a stable hash |
//! | [`protobuf`] | reader of Kubernetes' protobuf encoding |

pub mod cache_object;
pub mod condition;
pub mod go;
pub mod hash;
pub mod int_or_percent;
pub mod intern;
pub mod labels;
pub mod meta;
pub mod node;
pub mod object_key;
pub mod owner;
pub mod pdb;
pub mod pod;
pub mod protobuf;
pub mod scale;
pub mod selector;
pub mod taint;
pub mod time;
pub mod workload;

pub use meta::{BY_CONTROLLER, View};
