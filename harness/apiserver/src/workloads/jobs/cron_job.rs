//! One cron job: the jobs that it starts and removes. See `pkg/controller/cronjob/cronjob_controllerv2.go`.

use std::time::Duration;

use jiff::Timestamp;

use super::super::namespace_controller::NamespaceController;
use super::deletion::try_delete;
use super::job;
use super::schedule::Schedule;
use super::times::time_of;
use crate::json::{Value, json};
use crate::metadata;
use crate::registry::time::format_time;

/// Delay of a start after the scheduled time.
const DELAY: Duration = Duration::from_millis(100);
/// The annotation of a job with the time for which it was scheduled.
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// Syncs one cron job; returns the time of the next sync, if there is one.
pub(super) async fn sync(controller: &NamespaceController, name: &str) -> Option<Timestamp> {
    let cron_job = controller.workload(name)?;
    let jobs = controller.controlled_objects("batch", "jobs", &cron_job);
    let now = controller.agent.server().clock().now();
    let mut sync = CronJobSync { controller, before: cron_job["status"].clone(), cron_job, now };
    sync.report_jobs(&jobs);
    sync.forget_ended(&jobs);
    // After a refusal there is another try.
    let next = sync.start_due().await.unwrap_or(None);
    sync.remove_old(jobs).await;
    sync.write().await;
    next
}

/// A write was refused.
struct Refused;

struct CronJobSync<'a> {
    controller: &'a NamespaceController,
    /// The cron job, with the status that is to be written.
    cron_job: Value,
    before: Value,
    now: Timestamp,
}

fn has_succeeded(job: &Value) -> bool {
    let conditions = job["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|condition| condition["type"] == "Complete" && condition["status"] == "True")
}

impl CronJobSync<'_> {
    fn active(&self) -> Vec<Value> {
        self.cron_job["status"]["active"].as_array().cloned().unwrap_or_default()
    }

    fn set_active(&mut self, active: Vec<Value>) {
        self.cron_job["status"]["active"] = if active.is_empty() { Value::Null } else { Value::Array(active) };
    }

    /// Records an event about each active job that has ended or is gone, and each unknown one that runs.
    fn report_jobs(&self, jobs: &[Value]) {
        let active = self.active();
        for job in jobs {
            let name = metadata::name(job);
            match (active.iter().any(|known| known["uid"] == metadata::uid(job)), job::finish_time(job)) {
                (false, None) => {
                    let message = format!("Saw a job that the controller did not create or forgot: {name}");
                    self.controller.record(&self.cron_job, "UnexpectedJob", message);
                }
                (true, Some(_)) => {
                    let condition = if has_succeeded(job) { "Complete" } else { "Failed" };
                    self.record("SawCompletedJob", format!("Saw completed job: {name}, condition: {condition}"));
                }
                _ => {}
            }
        }
        let is_there = |reference: &Value| jobs.iter().any(|job| reference["uid"] == metadata::uid(job));
        for reference in active.iter().filter(|reference| !is_there(reference)) {
            let job = reference["name"].as_str().unwrap_or_default();
            self.record("MissingJob", format!("Active job went missing: {job}"));
        }
    }

    fn record(&self, reason: &str, message: String) {
        self.controller.record_success(&self.cron_job, reason, message);
    }

    /// Removes jobs that have ended or are gone from the list of active ones; notes the last success.
    fn forget_ended(&mut self, jobs: &[Value]) {
        let runs = |reference: &Value| {
            let found = jobs.iter().find(|job| reference["uid"] == metadata::uid(job));
            found.is_some_and(|job| job::finish_time(job).is_none())
        };
        let active = self.active();
        let left: Vec<Value> = active.iter().filter(|reference| runs(reference)).cloned().collect();
        if left.len() != active.len() {
            self.set_active(left);
        }
        let ends =
            jobs.iter().filter(|job| has_succeeded(job)).filter_map(|job| time_of(job, "/status/completionTime"));
        if let Some(last) = ends.max()
            && time_of(&self.cron_job, "/status/lastSuccessfulTime").is_none_or(|known| known < last)
        {
            self.cron_job["status"]["lastSuccessfulTime"] = json!(format_time(last));
        }
    }

    /// Starts the job of the last scheduled time, if it is due; returns the time of the next one.
    async fn start_due(&mut self) -> Result<Option<Timestamp>, Refused> {
        let spec = self.cron_job["spec"].clone();
        if metadata::is_deleted(&self.cron_job) || spec["suspend"] == json!(true) {
            return Ok(None);
        }
        let Some(schedule) = Schedule::of(&self.cron_job) else { return Ok(None) };
        let started = time_of(&self.cron_job, "/status/lastScheduleTime");
        let Some(mut start) = started.or_else(|| time_of(&self.cron_job, "/metadata/creationTimestamp")) else {
            return Ok(None);
        };
        if schedule.next(start).is_none() {
            // Such as 31 February.
            let text = spec["schedule"].as_str().unwrap_or_default();
            let why = "time difference between two schedules is less than 1 second";
            self.controller.record(&self.cron_job, "InvalidSchedule", format!("invalid schedule: {text} : {why}"));
            return Ok(None);
        }
        let next = schedule.next(schedule.last(start, self.now).unwrap_or(start));
        let next = next.and_then(|next| next.checked_add(DELAY).ok());
        if let Some(deadline) = spec["startingDeadlineSeconds"].as_u64()
            && let Ok(oldest) = self.now.checked_sub(Duration::from_secs(deadline))
        {
            start = start.max(oldest);
        }
        let Some(due) = schedule.last(start, self.now) else { return Ok(next) };
        if schedule.has_missed_many(start, self.now) {
            let advice = "Set or decrease .spec.startingDeadlineSeconds or check clock skew";
            let message = format!("too many missed start times. {advice}");
            self.controller.record(&self.cron_job, "TooManyMissedTimes", message);
        }
        let name = format!("{}-{}", metadata::name(&self.cron_job), due.as_second() / 60);
        let is_known = self.active().iter().any(|reference| reference["name"] == name);
        if is_known || started == Some(due) {
            return Ok(next);
        }
        match spec["concurrencyPolicy"].as_str() {
            Some("Forbid") if !self.active().is_empty() => {
                let why = "prior execution is running and concurrency policy is Forbid";
                self.record("JobAlreadyActive", format!("Not starting job because {why}"));
                return Ok(next);
            }
            Some("Replace") => self.delete_active().await?,
            _ => {}
        }
        self.start(&name, due).await?;
        Ok(next)
    }

    async fn delete_active(&mut self) -> Result<(), Refused> {
        for reference in self.active() {
            let job = json!({"metadata": {"name": reference["name"], "uid": reference["uid"]}});
            if !self.delete(&job).await {
                return Err(Refused);
            }
        }
        self.set_active(Vec::new());
        Ok(())
    }

    /// Deletes a job, and records that: `deleteJob`.
    async fn delete(&self, job: &Value) -> bool {
        let name = metadata::name(job);
        let result = try_delete(self.controller, &self.job_path(name), job, "Background").await;
        match &result {
            Ok(()) => self.record("SuccessfulDelete", format!("Deleted job {name}")),
            Err(why) => self.controller.record(&self.cron_job, "FailedDelete", format!("Deleted job: {why}")),
        }
        result.is_ok()
    }

    fn job_path(&self, name: &str) -> String {
        let slash = if name.is_empty() { "" } else { "/" };
        format!("/apis/batch/v1/namespaces/{}/jobs{slash}{name}", self.controller.namespace)
    }

    /// Creates the job for a scheduled time. A job that exists already was created before a status was written.
    async fn start(&mut self, name: &str, due: Timestamp) -> Result<(), Refused> {
        let template = &self.cron_job["spec"]["jobTemplate"];
        let mut metadata = json!({"name": name, "namespace": self.controller.namespace,
            "labels": template["metadata"]["labels"], "annotations": template["metadata"]["annotations"],
            "ownerReferences": self.controller.owner_references(&self.cron_job)});
        if !metadata["annotations"].is_object() {
            metadata["annotations"] = json!({});
        }
        metadata["annotations"][SCHEDULED] = json!(self.zoned(due));
        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": template["spec"]});
        let reply = self.controller.agent.create(&self.job_path(""), &job).await;
        let created = if reply.is_ok() {
            self.record("SuccessfulCreate", format!("Created job {name}"));
            reply.body()
        } else if reply.has_reason("AlreadyExists") {
            // This is nothing to try again.
            self.controller.agent.take_refusal();
            let stored = self.controller.controlled_objects("batch", "jobs", &self.cron_job);
            let Some(own) = stored.into_iter().find(|job| metadata::name(job) == name) else { return Ok(()) };
            own
        } else {
            if !reply.is_for_ending_namespace() {
                let message = format!("Error creating job: {}", reply.message());
                self.controller.record(&self.cron_job, "FailedCreate", message);
            }
            return Err(Refused);
        };
        let mut active = self.active();
        active.push(
            json!({"kind": "Job", "apiVersion": "batch/v1", "namespace": self.controller.namespace, "name": name,
            "uid": metadata::uid(&created), "resourceVersion": metadata::resource_version(&created)}),
        );
        self.set_active(active);
        self.cron_job["status"]["lastScheduleTime"] = json!(format_time(due));
        Ok(())
    }

    /// Returns a time as the annotation of jobs shows it: in the time zone of the cron job.
    fn zoned(&self, due: Timestamp) -> String {
        let zone = self.cron_job["spec"]["timeZone"].as_str().filter(|zone| *zone != "UTC");
        match zone.and_then(|zone| due.in_tz(zone).ok()) {
            Some(zoned) => zoned.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
            None => format_time(due),
        }
    }

    /// Deletes the oldest finished jobs beyond the limits of the history.
    async fn remove_old(&mut self, jobs: Vec<Value>) {
        let finished = jobs.into_iter().filter(|job| job::finish_time(job).is_some());
        let (good, bad): (Vec<Value>, Vec<Value>) = finished.partition(has_succeeded);
        for (mut jobs, limit) in [(good, "successfulJobsHistoryLimit"), (bad, "failedJobsHistoryLimit")] {
            let Some(limit) = self.cron_job["spec"][limit].as_u64().and_then(|limit| usize::try_from(limit).ok())
            else {
                continue;
            };
            jobs.sort_by_key(|job| {
                let start = time_of(job, "/status/startTime");
                (start.is_none(), start, metadata::name(job).to_owned())
            });
            let surplus = jobs.len().saturating_sub(limit);
            for job in jobs.iter().take(surplus).filter(|job| !metadata::is_deleted(job)) {
                self.delete(job).await;
            }
        }
    }

    /// Writes the status, if it has changed.
    async fn write(&mut self) {
        if let Some(status) = self.cron_job["status"].as_object_mut() {
            status.retain(|_, value| !value.is_null());
        }
        if self.cron_job["status"] != self.before {
            let path = format!("{}/status", self.controller.path(metadata::name(&self.cron_job)));
            self.controller.agent.replace(&path, &self.cron_job).await;
        }
    }
}
