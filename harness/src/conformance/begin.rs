//! The report before the first fixture: who is tested, on what, and all fixtures as `not-run`.

use jiff::Timestamp;

use super::claim::Implementation;
use super::deviations::Deviation;
use super::profile::Profiles;
use super::report::{API_VERSION, ConformanceReport, FixtureResult, KIND, Mode, Outcome, Place, Suite, Tested};
use crate::fixture::{Capability, Fixture};
use crate::runner::suite::TestBed;
use crate::time::Clock;

/// Input of a report.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
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

/// Returns the report of a run in `arena` before any fixture has run.
///
/// # Errors
///
/// Returns an error if the tested program cannot be identified or the cluster's version is unknown.
pub fn blank(scope: Scope<'_>, arena: &TestBed) -> Result<ConformanceReport, String> {
    let (cluster, subject) = (&arena.cluster, &arena.subject);
    let identity = subject.identity()?;
    let now = Clock::wall().now();
    let result = |fixture: &Fixture| FixtureResult {
        id: fixture.id.clone(),
        profiles: scope.profiles.of(&fixture.id),
        level: fixture.level.to_string(),
        feature: fixture.feature.clone(),
        virtual_time: fixture.requires.contains(&Capability::VirtualTime),
        outcome: Outcome::NotRun,
        reason: String::new(),
    };
    Ok(ConformanceReport {
        api_version: API_VERSION.to_owned(),
        kind: KIND.to_owned(),
        time: Timestamp::from_second(now.as_second()).unwrap_or(now).to_string(),
        digest: String::new(),
        implementation: scope.implementation.clone(),
        subject: Tested {
            name: subject.name().to_owned(),
            kind: identity.kind.to_owned(),
            what: identity.what,
            digest: identity.digest,
            controllers: subject.controllers().iter().map(ToString::to_string).collect(),
            environment: identity.environment.into_iter().collect(),
            companions: identity.companions.into_iter().collect(),
        },
        suite: scope.suite.clone(),
        kubernetes_version: cluster.kubernetes()?,
        cluster: Place {
            name: cluster.name().to_owned(),
            image: cluster.image().map(str::to_owned),
            capabilities: arena.capabilities().capabilities.iter().map(ToString::to_string).collect(),
        },
        mode: if cluster.is_virtual() { Mode::Virtual } else { Mode::Wall },
        profile: scope.profile.to_owned(),
        deviations: scope.deviations.to_vec(),
        profiles: Vec::new(),
        fixtures: scope.fixtures.iter().map(result).collect(),
    })
}
