//! Explorations of any program: a command that sends requests to the API server, started for each plan beside a
//! server of its own, in virtual time.
//!
//! ```text
//! search ── job ──► tracer ──► worker (this program again) ── server, steps, faults
//!    ▲                             └── the program
//!    └──── facts of the run ◄──────┘
//! ```
//!
//! - [`job`]: the job of a run, and the facts that it returns
//! - [`subject`]: the scenario, with its program
//! - [`worker`]: the process that runs one plan · [`script`]: its steps
//! - `survey`: the facts of a run · `locks`: those of its leader · `loops`: those of programs that poll
//! - [`state`]: the state at the end of a run, without what differs from run to run
//! - [`reference`]: runs without faults, and what they show · [`candidates`]: the plans that follow from them
//! - [`coverage`]: the kinds of fault that runs have met · [`rights`]: those that the program needs
//! - [`delayed`]: runs whose steps come later · [`history`]: runs that skip states between updates
//! - [`oracles`]: judge the facts · [`search`]: tries plans · [`shrink`]: makes findings small
//! - [`report`], [`page`]: the result

pub mod candidates;
pub mod coverage;
pub mod delayed;
pub mod history;
pub mod job;
pub mod launch;
mod locks;
mod loops;
pub mod oracles;
pub mod page;
pub mod reference;
pub mod report;
pub mod rights;
pub mod script;
pub mod search;
pub mod shrink;
pub mod state;
pub mod subject;
mod survey;
pub mod worker;
