//! Explores: injects faults that no fixture names into the histories of fixtures, and judges each run by oracles that
//! need no expectations.
//!
//! ```text
//! fixture ─► reference run ─► points ─┬─► plans ─► runs ─► oracles ─► findings ─► shrunk plan, fixture
//!                  │                  │                       ▲
//!                  └── end state, writes, replies ────────────┘
//! ```
//!
//! - [`point`]: the requests and events of a reference run at which a fault can happen
//! - [`disturbance`]: the kinds of fault, and their translation into the words of fixtures
//! - [`plan`]: a fixture with injected faults, and its one-line token
//! - [`script`]: the fixture that a plan runs: no checks, time to converge, and a restart at the end
//! - [`state`]: objects without what differs from run to run; digests and differences of them
//! - [`observation`]: the facts of a run that oracles compare
//! - [`oracle`]: judges a run against the reference run
//! - [`deadlines`]: evictions, countdowns and reconnections that come too late
//! - `evictions`: deletions of pods that a race explains
//! - [`decisions`]: writes that the objects of that moment do not justify
//! - [`events`], [`retries`], `uids`: Events, the times of retries, and writes to objects that are gone
//! - [`server`], [`metrics`]: what the API server may not do, and what cannot have been measured or counted
//! - [`model`]: the values that follow from the objects alone; `rest`: between the steps, too
//! - [`worlds`], [`random`]: random histories, and the exploration of them
//! - [`marks`]: the situations that an exploration is to see at least once
//! - [`equal`]: leaves out plans whose runs cannot differ
//! - [`engine`]: reference runs, the queue of plans, and parallel runs
//! - [`exceptions`]: fixtures that break an oracle without any fault
//! - [`findings`]: breaches with the same fingerprint are one finding
//! - [`shrink`], [`fixture_text`]: make a finding small and write it as a fixture
//! - [`canary`]: a controller with a planted bug that each exploration must find
//! - [`quarantine`]: the oracle of the quarantine of missing nodes
//! - [`replicas`]: the oracle of leader election
//! - [`report`], [`page`]: the result as text, as JSON and as HTML

pub mod canary;
pub mod deadlines;
pub mod decisions;
pub mod engine;
pub mod equal;
pub mod events;
mod evictions;
pub mod exceptions;
pub mod findings;
pub mod fixture_text;
pub mod marks;
pub mod metrics;
pub mod model;
pub mod observation;
pub mod oracle;
pub mod page;
pub mod plan;
pub mod quarantine;
pub mod random;
pub mod replicas;
pub mod report;
mod rest;
pub mod retries;
pub mod script;
pub mod server;
pub mod shrink;
mod uids;
pub mod worlds;
