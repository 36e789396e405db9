//! The report before the first fixture: who is tested, on what, and everything that is going to be seen.

use jiff::Timestamp;

use super::claim::Implementation;
use super::deviations::Deviation;
use super::profile::Profiles;
use super::report::{API_VERSION, ConformanceReport, FixtureResult, KIND, Mode, Outcome, Place, Suite, Tested};
use crate::fixture::{Capability, Fixture};
use crate::runner::suite::TestBed;
use crate::time::Clock;

/// What a report is to be about.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// Who.
    pub implementation: &'a Implementation,
    /// The profile that was asked for.
    pub profile: &'a str,
    /// All profiles.
    pub profiles: &'a Profiles,
    /// The fixtures of the profile.
    pub fixtures: &'a [Fixture],
    /// What is known about them.
    pub deviations: &'a [Deviation],
    /// Where they come from.
    pub suite: &'a Suite,
}

/// The report of a run in `arena` in which nothing has run yet.
///
/// # Errors
///
/// When the program that is tested or the version of the cluster cannot be found out.
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
