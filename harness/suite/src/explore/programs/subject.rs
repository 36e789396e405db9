//! The scenario that is explored, with its program.

use plumbline::fixture::{Fixture, Problems};

use super::job::{ExploredProgram, PlannedFault, Scenario, WorkerJob};
use super::reference::Reference;
use super::script::has_faults;
use super::worker;

/// Virtual times after the last step and the last fault at which a run may be over, in milliseconds.
const CHECKPOINTS: [u64; 4] = [30_000, 120_000, 600_000, 1_800_000];
/// Length of the quiet window.
const QUIET: u64 = 600_000;
/// Time after a fresh start.
const FRESH: u64 = 300_000;

/// A scenario to explore.
#[derive(Debug, Clone)]
pub struct ScenarioSubject {
    /// The program.
    pub program: ExploredProgram,
    /// The scenario.
    pub scenario: Scenario,
    /// The scenario, parsed.
    pub fixture: Fixture,
}

impl ScenarioSubject {
    /// Returns the job of a plan. With `expected` the run may end early.
    #[must_use]
    pub fn job(&self, plan: &[PlannedFault], reference: Option<&Reference>, own_faults: bool) -> WorkerJob {
        WorkerJob {
            program: self.program.clone(),
            scenario: self.scenario.clone(),
            faults: plan.iter().map(|(fault, point)| (fault.name().to_owned(), point.clone())).collect(),
            own_faults,
            expected: reference.map(|reference| reference.expected.clone()),
            delay: None,
            merge: None,
            checkpoints: CHECKPOINTS.to_vec(),
            quiet: QUIET,
            fresh: FRESH,
            logs: std::path::PathBuf::new(),
        }
    }

    /// Returns the scenario up to a step.
    ///
    /// # Errors
    ///
    /// All problems of its text.
    pub fn beginning(&self, steps: usize) -> Result<Self, Problems> {
        subject(&self.program, Scenario { steps: Some(steps), ..self.scenario.clone() })
    }

    /// Returns true if the scenario brings faults of its own.
    #[must_use]
    pub fn has_own_faults(&self) -> bool {
        has_faults(&self.fixture)
    }
}

/// Reads a scenario for this program.
///
/// # Errors
///
/// All problems of its text.
pub fn subject(program: &ExploredProgram, scenario: Scenario) -> Result<ScenarioSubject, Problems> {
    let fixture = worker::fixture(&scenario)?;
    Ok(ScenarioSubject { program: program.clone(), scenario, fixture })
}
