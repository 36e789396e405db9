//! Controllers that already run in the cluster and connect to it directly: the cluster's own, or a deployment.
//!
//! Their requests are not recorded. They are judged by the objects that the cluster's watches report; fixtures with
//! checks on requests are skipped.

use std::collections::{BTreeMap, BTreeSet};

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use plumbline::fixture::{Capability, Check, CheckKind, Controller, Fixture, parse};

use super::client_factory::KillSwitch;
use super::{Identity, Launch, Running, Subject, SubjectError};

/// The kind of subject in reports.
pub const KIND: &str = "external";

/// Returns the reason if this fixture cannot judge such a subject.
#[must_use]
pub fn cannot_show(fixture: &Fixture) -> Option<String> {
    let traffic = &fixture.traffic;
    let asks =
        |check: &Check| matches!(check.kind, CheckKind::Requests { .. } | CheckKind::Never(_) | CheckKind::Quiet);
    let mut checks = fixture.steps.iter().flat_map(parse::step_checks).chain(&fixture.expect);
    (!traffic.order.is_empty() || traffic.writes.is_some() || traffic.only.is_some() || checks.any(asks))
        .then(|| "it checks the subject's requests, and those of an external subject are not recorded".to_owned())
}

/// Controllers that already run.
#[derive(Clone, Debug, Default)]
pub struct External {
    /// The name in reports.
    pub name: String,
    /// The controllers that run; empty for all.
    pub controllers: BTreeSet<Controller>,
    /// Declared features, as globs.
    pub features: BTreeSet<String>,
}

impl Subject for External {
    fn name(&self) -> &str {
        &self.name
    }

    fn identity(&self) -> Result<Identity, SubjectError> {
        Ok(Identity { kind: KIND, what: self.name.clone(), ..Identity::default() })
    }

    fn controllers(&self) -> BTreeSet<Controller> {
        if self.controllers.is_empty() { Controller::ALL.into() } else { self.controllers.clone() }
    }

    fn features(&self) -> BTreeSet<String> {
        self.features.clone()
    }

    fn lacks(&self) -> BTreeSet<Capability> {
        [Capability::Faults, Capability::WatchFaults, Capability::Crash, Capability::Metrics, Capability::Replicas]
            .into()
    }

    fn refuses(&self, flags: &BTreeMap<String, String>) -> Option<String> {
        let names: Vec<_> = flags.keys().map(|name| format!("--{name}")).collect();
        (!flags.is_empty()).then(|| format!("it already runs, without {}", names.join(", ")))
    }

    fn cannot_show(&self, fixture: &Fixture) -> Option<String> {
        cannot_show(fixture)
    }

    fn is_virtual(&self) -> bool {
        false
    }

    fn launch(&self, _: &Launch<'_>) -> Result<Box<dyn Running>, SubjectError> {
        Ok(Box::new(RunningExternal))
    }
}

/// A subject that the harness cannot stop.
struct RunningExternal;

impl Running for RunningExternal {
    fn kill_switch(&self) -> KillSwitch {
        KillSwitch::default()
    }

    fn is_seen(&self) -> bool {
        false
    }

    fn crash(&mut self) {}

    fn stop(&mut self) -> LocalBoxFuture<'_, Result<(), SubjectError>> {
        async { Ok(()) }.boxed_local()
    }

    fn metrics(&self) -> LocalBoxFuture<'_, Result<String, SubjectError>> {
        async { Err(SubjectError::NoMetrics("the metrics URL of an external subject is unknown".to_owned())) }
            .boxed_local()
    }

    fn ended(&mut self) -> Option<String> {
        None
    }
}
