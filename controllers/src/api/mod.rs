//! Slim serde types: only the fields somebody reads.
//!
//! The caches hold one view per object, so what a view leaves out is never allocated. Unknown
//! fields are skipped while parsing; a view is therefore good for reading and deciding, and only
//! [`pdb::PdbView`] keeps enough (all metadata but `managedFields`, all of spec and status) to be
//! written back whole.
//!
//! | module | holds |
//! | --- | --- |
//! | [`meta`] | metadata slimming, the [`View`] trait with the accessors every controller uses |
//! | [`pod`], [`node`], [`pdb`], [`workload`], [`scale`] | the objects |
//! | [`condition`] | pod, node and `metav1` conditions with upstream's update rules |
//! | [`selector`] | label selectors: parsing, matching, Go's two text forms |
//! | [`taint`] | taints and tolerations |
//! | [`int_or_percent`] | `intstr.IntOrString` and its scaling |
//! | [`go`] | Go text forms that reach the wire (`%q`, `strconv.Atoi`) |

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
