//! Load tests: the API server under the load of a large cluster ([`bench`]), and controllers in one ([`scale`]).
//!
//! The program `plumbline-loadtest` ([`cli`]) serves the clusters itself, with the code of `plumbline serve`, and
//! starts subjects as the suite does.

pub mod bench;
pub mod cli;
pub mod scale;
