//! The fixture and the run to judge.

use super::run::Run;
use super::world::ObjectStates;
use crate::fixture::Fixture;

/// The fixture and the run to judge.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JudgeContext<'a> {
    /// The promises.
    pub(crate) fixture: &'a Fixture,
    /// The recorded run.
    pub(crate) run: &'a Run<'a>,
    /// The objects before the first entry.
    pub(crate) begin: &'a ObjectStates,
}
