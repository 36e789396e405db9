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
use std::time::Duration;

use jiff::Timestamp;

use super::namespace_controller::NamespaceController;
use crate::backoff::{Delays, Retries};
use crate::controllers::{WatchMux, WatchSet};
use crate::json::Value;
use crate::metadata;
use crate::server::{ApiServer, storage_id};
use crate::store::ResourceId;
use job::PodFailures;

pub(crate) use job::is_managed_elsewhere;

/// Delays of the job controller's rate limiter: `DefaultJobApiBackOff` and `MaxJobApiBackOff`. Those of the other
/// controllers are the usual ones.
const OF_JOBS: Delays = Delays(Duration::from_secs(1), Duration::from_mins(1));

/// The items of the work queues of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Work {
    CronJob,
    Job,
    /// The pods without a job that runs, all in one.
    Orphans,
}

/// An item, its namespace and its name.
type WorkKey = (Work, String, String);

/// Runs the controllers of jobs and cron jobs. Never returns.
pub async fn run_job_controllers(server: ApiServer) {
    let watched = [("batch", "jobs"), ("batch", "cronjobs"), ("", "pods")];
    let watched = watched.map(|(group, resource)| ResourceId::new(group, resource)).to_vec();
    let mut feed = WatchMux::new(&server, WatchSet::Resources(watched));
    let mut controller = JobController {
        server: server.clone(),
        failures: BTreeMap::new(),
        namespaces: BTreeSet::new(),
        of_jobs: Retries::with(OF_JOBS),
        retries: Retries::default(),
    };
    // The next sync of a namespace that the time requires.
    let mut due: BTreeMap<String, Timestamp> = BTreeMap::new();
    loop {
        let next = due.values().copied().chain(controller.of_jobs.next()).chain(controller.retries.next()).min();
        let mut touched = BTreeSet::new();
        for (_, change) in feed.next_until(next).await {
            change.add_namespaces(&mut touched);
        }
        let now = server.clock().now();
        touched.extend(due.iter().filter(|(_, at)| **at <= now).map(|(namespace, _)| namespace.clone()));
        let mut keys = controller.of_jobs.due(now);
        keys.extend(controller.retries.due(now));
        keys.retain(|(_, namespace, _)| !touched.contains(namespace));
        for namespace in touched {
            due.remove(&namespace);
            keys.extend(controller.items(&namespace));
        }
        for key in keys {
            if let Some(at) = controller.sync(&key).await {
                due.entry(key.1).and_modify(|known| *known = at.min(*known)).or_insert(at);
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
    /// The jobs that have not ended and of which a write was refused.
    of_jobs: Retries<WorkKey>,
    /// The other items of which a write was refused.
    retries: Retries<WorkKey>,
}

impl JobController {
    /// Returns what there is to do in a namespace.
    fn items(&mut self, namespace: &str) -> Vec<WorkKey> {
        let mut items = Vec::new();
        for (work, plural) in [(Work::CronJob, "cronjobs"), (Work::Job, "jobs")] {
            let all = self.server.list(&ResourceId::new("batch", plural), Some(namespace));
            items.extend(all.iter().map(|stored| (work, namespace.to_owned(), stored.name().to_owned())));
        }
        if items.iter().any(|(work, ..)| *work == Work::Job) {
            self.namespaces.insert(namespace.to_owned());
        }
        if self.namespaces.contains(namespace) {
            items.push((Work::Orphans, namespace.to_owned(), String::new()));
        }
        items
    }

    /// Syncs an item; returns the time of the next sync, if there is one.
    async fn sync(&mut self, key: &WorkKey) -> Option<Timestamp> {
        let (work, namespace, name) = key;
        let plural = if *work == Work::CronJob { "cronjobs" } else { "jobs" };
        let kind = self.server.registry().get("batch", "v1", plural)?.clone();
        let controller = NamespaceController::new(&self.server, &kind, namespace);
        let runs = |job: Value| *work == Work::Job && job::finish_time(&job).is_none();
        let is_running_job = controller.workload(name).is_some_and(runs);
        let next = match work {
            Work::CronJob => cron_job::sync(&controller, name).await,
            Work::Job => job::sync(&controller, name, &mut self.failures).await,
            Work::Orphans => self.release_orphans(&controller).await,
        };
        let is_refused = controller.agent.take_refusal();
        let now = self.server.clock().now();
        self.of_jobs.settle(key, is_refused && is_running_job, now);
        self.retries.settle(key, is_refused && !is_running_job, now);
        next
    }

    /// Removes the finalizer of pods without a job, and of those whose job is gone or finished:
    /// `handleSingleOrphanPod`.
    async fn release_orphans(&self, controller: &NamespaceController) -> Option<Timestamp> {
        let has_pods = |job: &Value| is_managed_elsewhere(job) || job::finish_time(job).is_none();
        let jobs = self.server.list(&storage_id(&controller.kind), Some(&controller.namespace));
        let kept: BTreeSet<String> = jobs
            .iter()
            .map(|stored| stored.value())
            .filter(has_pods)
            .map(|job| metadata::uid(&job).to_owned())
            .collect();
        for stored in self.server.list(&ResourceId::new("", "pods"), Some(&controller.namespace)) {
            let pod = stored.value();
            let is_orphan = metadata::controller(&pod).is_none_or(|owner| {
                let is_kept = owner["uid"].as_str().is_some_and(|uid| kept.contains(uid));
                metadata::refers_to(owner, "batch/v1", "Job") && !is_kept
            });
            if pods::is_tracked(&pod) && is_orphan {
                pods::release(controller, &pod).await;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
