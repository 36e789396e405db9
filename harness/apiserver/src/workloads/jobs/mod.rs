//! A simulation of the controllers of jobs, cron jobs and finished jobs with a time to live, optional. They follow
//! `pkg/controller/{job,cronjob,ttlafterfinished}`.

mod cron_job;
mod deletion;
mod indexes;
mod job;
mod pods;
mod policies;
mod schedule;
mod times;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::namespace_controller::{NamespaceController, controller_uid};
use crate::backoff::{Delays, Retries};
use crate::controllers::{WatchMux, WatchSet};
use crate::registry::Resource;
use crate::server::{ApiServer, storage_id};
use crate::store::ResourceId;
use job::PodFailures;
use times::earliest;

/// Delays of the job controller's rate limiter: `DefaultJobApiBackOff` and `MaxJobApiBackOff`.
const RETRIES: Delays = Delays(Duration::from_secs(1), Duration::from_mins(1));

/// Runs the controllers of jobs and cron jobs. Never returns.
pub async fn run_job_controllers(server: ApiServer) {
    let watched = [("batch", "jobs"), ("batch", "cronjobs"), ("", "pods")];
    let watched = watched.map(|(group, resource)| ResourceId::new(group, resource)).to_vec();
    let mut feed = WatchMux::new(&server, WatchSet::Resources(watched));
    let mut controller = JobController {
        server: server.clone(),
        failures: BTreeMap::new(),
        namespaces: BTreeSet::new(),
        retries: Retries::with(RETRIES),
    };
    // The next sync of a namespace that the time requires.
    let mut due: BTreeMap<String, Timestamp> = BTreeMap::new();
    loop {
        let mut touched = BTreeSet::new();
        for (_, change) in feed.next_until(due.values().min().copied()).await {
            change.add_namespaces(&mut touched);
        }
        let now = server.clock().now();
        touched.extend(due.iter().filter(|(_, at)| **at <= now).map(|(namespace, _)| namespace.clone()));
        for namespace in touched {
            due.remove(&namespace);
            let next = controller.sync_namespace(&namespace).await;
            if let Some(at) = earliest(next, controller.retries.of(&namespace)) {
                due.insert(namespace, at);
            }
        }
    }
}

struct JobController {
    server: ApiServer,
    /// By the uid of the job.
    failures: BTreeMap<String, PodFailures>,
    /// Namespaces in which there have been jobs.
    namespaces: BTreeSet<String>,
    /// The namespaces in which a write was refused.
    retries: Retries<String>,
}

impl JobController {
    /// Syncs the cron jobs and jobs of a namespace; returns the time of the next sync, if there is one.
    async fn sync_namespace(&mut self, namespace: &str) -> Option<Timestamp> {
        let registry = self.server.registry();
        let cron_jobs = registry.get("batch", "v1", "cronjobs")?;
        let jobs = registry.get("batch", "v1", "jobs")?;
        let mut next = None;
        let mut refused = false;
        for name in self.names(cron_jobs, namespace) {
            let controller = NamespaceController::new(&self.server, cron_jobs, namespace);
            next = earliest(next, cron_job::sync(&controller, &name).await);
            refused |= controller.agent.take_refusal();
        }
        let names = self.names(jobs, namespace);
        if !names.is_empty() {
            self.namespaces.insert(namespace.to_owned());
        }
        if self.namespaces.contains(namespace) {
            let controller = NamespaceController::new(&self.server, jobs, namespace);
            for name in names {
                next = earliest(next, job::sync(&controller, &name, &mut self.failures).await);
            }
            self.release_orphans(&controller).await;
            refused |= controller.agent.take_refusal();
        }
        self.retries.settle(&namespace.to_owned(), refused, self.server.clock().now());
        next
    }

    fn names(&self, kind: &Arc<Resource>, namespace: &str) -> Vec<String> {
        self.server.list(&storage_id(kind), Some(namespace)).iter().map(|stored| stored.name().to_owned()).collect()
    }

    /// Removes the finalizer of pods whose job is gone or finished.
    async fn release_orphans(&self, controller: &NamespaceController) {
        let running: BTreeSet<String> = self
            .server
            .list(&storage_id(&controller.kind), Some(&controller.namespace))
            .iter()
            .filter(|job| job::finish_time(&job.value()).is_none())
            .map(|job| job.uid().to_owned())
            .collect();
        for stored in self.server.list(&ResourceId::new("", "pods"), Some(&controller.namespace)) {
            let pod = stored.value();
            if pods::is_tracked(&pod) && controller_uid(&pod).is_none_or(|uid| !running.contains(uid)) {
                pods::release(controller, &pod).await;
            }
        }
    }
}

#[cfg(test)]
mod tests;
