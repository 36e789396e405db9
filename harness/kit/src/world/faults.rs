//! Faults in the words of fixtures.

use std::sync::Arc;
use std::time::Duration;

use super::cluster::World;
use super::error::{Error, Result};
use super::resources::NAMESPACE;
use crate::faults::{self, ArmedFault, CrashHandler, set_watch_fault};
use crate::fixture::{Effect, Fault, words};

/// An armed fault. Dropping it changes nothing.
pub struct FaultHandle<'w> {
    world: &'w World,
    fault: Fault,
    name: String,
    armed: ArmedFault,
}

impl FaultHandle<'_> {
    /// Arms the fault again after a change.
    fn rearmed(self) -> Self {
        self.disarm();
        self.world.arm(self.fault, self.name)
    }

    /// Affects `count` requests only; without this the fault lasts until it is healed.
    #[expect(clippy::return_self_not_must_use, reason = "the fault is armed in any case")]
    pub fn times(mut self, count: u32) -> Self {
        self.fault.count = Some(count);
        self.rearmed()
    }

    /// Spares the first `count` matching requests.
    #[expect(clippy::return_self_not_must_use, reason = "the fault is armed in any case")]
    pub fn after(mut self, count: u32) -> Self {
        self.fault.nth = count.saturating_add(1);
        self.rearmed()
    }

    /// Returns the number of requests that it has affected.
    #[must_use]
    pub fn hits(&self) -> u32 {
        self.world.server().faults().hits(&self.name)
    }

    /// Ends the fault.
    pub fn heal(self) {
        self.disarm();
        self.world.note(&format!("fault {} healed", self.armed.on));
    }

    fn disarm(&self) {
        self.world.server().faults().clear(Some(&self.name));
        self.world.faults.0.borrow_mut().retain(|(_, armed)| !Arc::ptr_eq(&armed.seen, &self.armed.seen));
    }
}

impl std::fmt::Debug for FaultHandle<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FaultHandle").field("fault", &self.fault).finish_non_exhaustive()
    }
}

impl World {
    /// Arms a fault of requests, in the words of fixtures: `PATCH deployments/* 500`, or a map with one of `reply`,
    /// `timeout`, `drop`, `delay`, `crash`. Without an actor it affects all controllers under test.
    ///
    /// ```
    /// # use plumbline::world::{World, seconds};
    /// # fn main() -> plumbline::Result {
    /// # World::test(async |t| {
    /// # async fn run(client: kube::Client) {
    /// #     let api: kube::Api<k8s_openapi::api::core::v1::ConfigMap> = kube::Api::default_namespaced(client);
    /// #     for name in ["a", "b", "a", "b", "c"] {
    /// #         let map = serde_json::from_value(serde_json::json!({"metadata": {"name": name}})).unwrap();
    /// #         let _ = api.create(&Default::default(), &map).await;
    /// #     }
    /// # }
    /// t.fault("POST configmaps/a 500")?.times(1);
    /// t.fault("on: POST configmaps/b, drop: after, count: 1")?;
    /// t.fault("on: cm-keeper POST configmaps/c, crash: before, restart: 10s, count: 1")?;
    /// t.run("cm-keeper", run)?;
    /// # t.advance(seconds(60)).await?;
    /// # t.expect("exists: [configmaps/a, configmaps/b, configmaps/c], count: { POST configmaps/*: 10 }")
    /// # })
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the unknown words of the text, with the nearest known ones.
    #[track_caller]
    pub fn fault(&self, text: &str) -> Result<FaultHandle<'_>> {
        let mut fault = here!(words::fault(text, NAMESPACE, &self.resources()).map_err(Error::from))?;
        if let Effect::Reply { code, message: message @ None, .. } = &mut fault.effect {
            *message = Some(format!("a fault of the test answers {code}"));
        }
        // Unique among the faults of this world; names in the text are for `heal`.
        let number = self.server().transcript().len() + self.faults.0.borrow().len();
        let name = fault.name.clone().unwrap_or_else(|| format!("fault {number} {}", fault.on));
        Ok(self.arm(fault, name))
    }

    pub(super) fn arm(&self, fault: Fault, name: String) -> FaultHandle<'_> {
        let shared = Arc::downgrade(&self.shared);
        let crash: CrashHandler = Arc::new(move |event| {
            if let Some(shared) = shared.upgrade() {
                shared.crashed(&event);
            }
        });
        let (mut rule, armed) = faults::rule(&fault, self.server().clock(), (Duration::ZERO, Duration::ZERO), &crash);
        rule.name = Some(name.clone());
        self.server().faults().arm(rule);
        self.faults.0.borrow_mut().push((name.clone(), armed.clone()));
        FaultHandle { world: self, fault, name, armed }
    }

    /// Ends the faults of this name (`name:` in the text).
    ///
    /// # Errors
    ///
    /// Returns an error if there is none.
    #[track_caller]
    pub fn heal(&self, name: &str) -> Result {
        let healed = match self.server().faults().clear(Some(name)) {
            0 => Err(Error::new(format!("no fault is named `{name}`: write `name: {name}` in its text"))),
            _ => Ok(()),
        };
        here!(healed)?;
        self.faults.0.borrow_mut().retain(|(known, _)| known != name);
        self.note(&format!("fault {name} healed"));
        Ok(())
    }

    /// Starts or ends a fault of lists and watches, in the words of fixtures: `drop [RESOURCE]`, `hold`, `release`,
    /// `coalesce`, `stale` and `fresh RESOURCE`.
    ///
    /// # Errors
    ///
    /// Returns the unknown words of the text, with the nearest known ones.
    #[track_caller]
    pub fn watch_fault(&self, text: &str) -> Result {
        let fault = here!(words::watch_fault(text, NAMESPACE, &self.resources()).map_err(Error::from))?;
        if let Some(note) = set_watch_fault(self.server().faults(), self.server().revision(), &fault) {
            self.note(&note);
        }
        Ok(())
    }

    /// Drops the past of the server: watches and lists from older versions get 410.
    pub fn compact(&self) {
        self.server().compact(self.server().revision());
        self.note("the server forgets its past");
    }

    /// Makes the server unreachable for `duration`, and lets this time pass.
    ///
    /// # Errors
    ///
    /// As [`World::advance`].
    #[track_caller]
    pub fn outage(&self, duration: Duration) -> impl Future<Output = Result> + '_ {
        let place = std::panic::Location::caller();
        async move {
            self.server().faults().set_outage(true);
            self.note(&format!("the server is out for {}", crate::transcript::redact::seconds(duration)));
            let passed = self.advance(duration).await.map_err(|error| error.at(place));
            self.server().faults().set_outage(false);
            self.note("the server answers again");
            passed
        }
    }
}
