//! `explore --also-command`: a sample of plans for another program on the wall clock.

use std::collections::BTreeMap;
use std::io;

use plumbline::fixture::Fixture;

use super::environment::{CommandArgs, EnvironmentArgs};
use super::{CliError, notify};
use crate::explore::differential::{SampledPlan, sample};
use crate::explore::engine::ExploreOptions;
use crate::explore::report::{AlsoRun, EndStateDifference};
use crate::plan::{Filter, Plan};
use crate::report::{Event, FixtureReport, Outcome, Reporter};
use crate::runner::suite::{self, TestBed};

/// The other program.
pub(super) struct AlsoCommand<'a> {
    /// Its command line, as for `--command`.
    pub(super) command: &'a str,
    /// Flags about it, quoted as for a shell.
    pub(super) flags: &'a str,
    /// Number of plans to sample.
    pub(super) count: usize,
}

/// Runs a sample of plans with the other program, and compares the end states with those of the subject.
pub(super) fn run(
    also: &AlsoCommand<'_>,
    fixtures: &[Fixture],
    test_bed: &TestBed,
    options: &ExploreOptions,
) -> Result<AlsoRun, CliError> {
    let sampled = sample(fixtures, test_bed, options, also.count);
    if sampled.is_empty() {
        return Err(CliError::Nothing(
            "--also-command: no plan of the selected fixtures can be run on the wall clock; select others".to_owned(),
        ));
    }
    let histories: Vec<Fixture> = sampled.iter().map(|plan| plan.fixture.clone()).collect();
    let about = CommandArgs::read(also.flags)?;
    let environment = EnvironmentArgs::read("")?.with_subject(Some(also.command), Some(about))?.start(false)?;
    let plan = Plan::new(&histories, &environment.arena.capabilities(), &Filter::default());
    notify(&format!("plumbline: {} plans on {}", plan.entries.len(), environment.arena.subject.name()));
    let mut seen = Reports::default();
    let run = suite::run(&plan, &environment.arena, environment.options, &mut seen);
    environment.close()?;
    run?;
    Ok(summary(also.command, &sampled, &seen.0))
}

/// Collects the reports of fixtures by id.
#[derive(Default)]
struct Reports(BTreeMap<String, FixtureReport>);

impl Reporter for Reports {
    fn event(&mut self, event: Event<'_>) -> io::Result<()> {
        if let Event::Ended(report) = event {
            self.0.extend(report.fixtures.iter().map(|fixture| (fixture.id.clone(), fixture.clone())));
        }
        Ok(())
    }
}

fn summary(command: &str, sampled: &[SampledPlan], reports: &BTreeMap<String, FixtureReport>) -> AlsoRun {
    let mut also = AlsoRun { command: command.to_owned(), ..AlsoRun::default() };
    for SampledPlan { plan, fixture, text } in sampled {
        let Some(report) = reports.get(&fixture.id) else { continue };
        match report.outcome {
            Outcome::Pass | Outcome::Flaky => also.agreed += 1,
            Outcome::Fail => also.differ.push(EndStateDifference {
                plan: plan.to_string(),
                failures: report.failures.iter().map(ToString::to_string).collect(),
                fixture: text.clone(),
            }),
            _ => _ = also.skipped.insert(plan.to_string(), report.reason.clone()),
        }
    }
    also
}
