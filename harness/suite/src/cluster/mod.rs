//! Clusters that fixtures run in. A [`Cluster`] serves a whole run, a [`Sandbox`] is one fixture's slice of it.
//!
//! - [`embedded`]: the server of [`plumbline_apiserver`] in this process, in virtual time; one server per fixture
//! - [`served`]: the same server over HTTPS, in wall time, for subjects that are processes; also one server per fixture
//! - [`remote`]: a real API server that fixtures share, each in namespaces and on nodes of its own
//!
//! [`drawn`] has what is drawn for each run of a program, such as the names of its objects.
//!
//! [`provision`] starts and finds real API servers.
//!
//! A fixture never names a cluster; it requires capabilities. Every sandbox has the same interface: send a step's
//! request, give the subject access, record what happened ([`Sandbox::transcript`]).

mod call;
pub mod client;
pub mod drawn;
pub mod embedded;
mod error;
mod error_chain;
pub mod provision;
pub mod remote;
mod role;
mod sandbox;
pub mod served;
mod subject_endpoint;

pub use call::{Answer, Call};
pub use embedded::EmbeddedCluster;
pub use error::{ClusterError, SeedError};
pub use remote::RemoteCluster;
pub use role::{Role, RoleError};
pub use sandbox::{Access, Cluster, ClusterTime, Sandbox};
pub use served::{Around, AroundError, ServedCluster};
