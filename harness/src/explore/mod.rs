//! Explores: injects faults that no fixture names into the histories of fixtures, and judges each run by oracles that
//! need no expectations.
//!
//! ```text
//! fixture ─► reference run ─► points ─┬─► plans ─► runs ─► oracles ─► findings ─► shrunk plan, fixture, ledger
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
//! - [`model`]: the values that follow from the objects alone
//! - [`worlds`], [`random`]: random histories, and the exploration of them
//! - [`marks`]: the situations that an exploration is to see at least once
//! - [`engine`]: reference runs, the queue of plans, and parallel runs
//! - [`findings`]: breaches with the same fingerprint are one finding
//! - [`shrink`], [`fixture_text`]: make a finding small and write it as a fixture
//! - [`ledger`]: the findings of earlier runs
//! - [`canary`]: a controller with a planted bug that each exploration must find
//! - [`report`]: the result as text and as JSON

pub mod canary;
pub mod disturbance;
pub mod engine;
pub mod findings;
pub mod fixture_text;
pub mod ledger;
pub mod marks;
pub mod model;
pub mod observation;
pub mod oracle;
pub mod plan;
pub mod point;
pub mod random;
pub mod report;
pub mod script;
pub mod shrink;
pub mod state;
pub mod worlds;
