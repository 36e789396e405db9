//! The report before the first fixture: who is tested, on what, and all fixtures as `not-run`.

use jiff::Timestamp;
use plumbline::fixture::{Capability, Fixture};
use plumbline::time::Clock;

use super::ConformanceError;
use super::deviations::Deviation;
use super::implementation::Implementation;
use super::profile::Profiles;
use super::report::{
    API_VERSION, ClusterInfo, ConformanceOutcome, ConformanceReport, FixtureResult, KIND, Mode, Suite, TestedSubject,
};
use crate::runner::suite::TestBed;

/// Input of a report.
#[derive(Clone, Copy, Debug)]
pub struct ReportInput<'a> {
    /// The implementation's description.
    pub implementation: &'a Implementation,
    /// The requested profile.
    pub profile: &'a str,
    /// All profiles.
    pub profiles: &'a Profiles,
    /// The fixtures of the profile.
    pub fixtures: &'a [Fixture],
    /// Known deviations in these fixtures.
    pub deviations: &'a [Deviation],
    /// Version and digest of the suite.
    pub suite: &'a Suite,
}

/// Returns the report of a run on `test_bed` before any fixture has run.
///
/// # Errors
///
/// Returns an error if the tested program cannot be identified or the cluster's version is unknown.
pub fn not_run_report(input: ReportInput<'_>, test_bed: &TestBed) -> Result<ConformanceReport, ConformanceError> {
    let cluster = &test_bed.cluster;
    let subject = &test_bed.subject;
    let identity = subject.identity()?;
    let now = Clock::wall().now();
    let result = |fixture: &Fixture| FixtureResult {
        id: fixture.id.clone(),
        profiles: input.profiles.of(&fixture.id),
        level: fixture.level.to_string(),
        feature: fixture.feature.clone(),
        virtual_time: fixture.requires.contains(&Capability::VirtualTime),
        other_controllers: input.profiles.other_controllers(fixture),
        outcome: ConformanceOutcome::NotRun,
        reason: String::new(),
        bystanders: Vec::new(),
        idle: input.profiles.is_passed_idly(&fixture.id),
    };
    Ok(ConformanceReport {
        api_version: API_VERSION.to_owned(),
        kind: KIND.to_owned(),
        time: Timestamp::from_second(now.as_second()).unwrap_or(now).to_string(),
        digest: String::new(),
        evidence: None,
        implementation: input.implementation.clone(),
        subject: TestedSubject {
            name: subject.name().to_owned(),
            kind: identity.kind.to_owned(),
            what: identity.what,
            digest: identity.digest,
            files: identity.files,
            clients: Vec::new(),
            controllers: subject.controllers().iter().map(ToString::to_string).collect(),
            environment: identity.environment.into_iter().collect(),
            companions: identity.companions.into_iter().collect(),
        },
        suite: input.suite.clone(),
        kubernetes_version: cluster.kubernetes()?,
        cluster: ClusterInfo {
            name: cluster.name().to_owned(),
            image: cluster.image().map(str::to_owned),
            capabilities: test_bed.capabilities().capabilities.iter().map(ToString::to_string).collect(),
        },
        mode: if cluster.is_virtual() { Mode::Virtual } else { Mode::Wall },
        seed: cluster.seed(),
        load: None,
        profile: input.profile.to_owned(),
        deviations: input.deviations.to_vec(),
        profiles: Vec::new(),
        fixtures: input.fixtures.iter().map(result).collect(),
    })
}
