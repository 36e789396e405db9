//! Jobs and cron jobs on a server with kubelets, in virtual time.

use std::time::Duration;

use rstest::rstest;

use super::*;
use crate::ApiServerConfig;
use crate::clock::{Clock, epoch, run_virtual, settle};
use crate::controllers::{ControllerClient, MERGE_PATCH};
use crate::garbage_collector;
use crate::json::json;
use crate::kubelet::{self, KubeletOptions};
use crate::loop_tests::refuse;
use crate::workloads::controller_uid;

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const CRON_JOBS: &str = "/apis/batch/v1/namespaces/default/cronjobs";

struct Cluster {
    server: ApiServer,
    client: ControllerClient,
}

impl Cluster {
    fn start() -> Self {
        let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(epoch())));
        server.seed([json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})]).expect("a node");
        tokio::spawn(run_job_controllers(server.clone()));
        tokio::spawn(garbage_collector::collect_garbage(server.clone(), Duration::from_millis(1)));
        let heartbeat = Duration::from_hours(24);
        tokio::spawn(kubelet::run(server.clone(), KubeletOptions { heartbeat, ..KubeletOptions::default() }));
        Self { client: ControllerClient::new(&server, "user"), server }
    }

    async fn create(&self, path: &str, object: &Value) {
        let reply = self.client.create(path, object).await;
        assert!(reply.is_ok(), "{}", reply.body());
    }

    async fn pass(&self, seconds: u64) {
        self.server.clock().sleep(Duration::from_secs(seconds)).await;
        settle().await;
    }

    fn all(&self, group: &str, resource: &str) -> Vec<Value> {
        self.server.list(&ResourceId::new(group, resource), None).iter().map(|stored| stored.value()).collect()
    }

    fn names(&self, group: &str, resource: &str) -> Vec<String> {
        self.all(group, resource).iter().map(|object| metadata::name(object).to_owned()).collect()
    }

    fn status(&self, name: &str) -> Value {
        let stored = self.server.get(&ResourceId::new("batch", "jobs"), "default", name).expect("the job");
        stored.value()["status"].clone()
    }

    fn phases(&self, phase: &str) -> usize {
        self.all("", "pods").iter().filter(|pod| pod["status"]["phase"] == phase).count()
    }
}

/// A job whose pods run for two seconds in all, with `fields` of its spec.
fn job(fields: &Value, annotations: &Value) -> Value {
    let mut spec = json!({"template": {"metadata": {"annotations": annotations},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}});
    for (name, value) in fields.as_object().into_iter().flatten() {
        if name == "restartPolicy" {
            spec["template"]["spec"][name.clone()] = value.clone();
        } else {
            spec[name.clone()] = value.clone();
        }
    }
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec})
}

fn conditions(status: &Value) -> Vec<String> {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
    conditions.map(|c| format!("{}={} {}", text(&c["type"]), text(&c["status"]), text(&c["reason"]))).collect()
}

fn virtually(test: impl AsyncFnOnce(Cluster)) {
    run_virtual(async { test(Cluster::start()).await }).expect("a runtime");
}

#[test]
fn a_job_completes_with_as_many_pods_at_a_time_as_it_may() {
    virtually(async |cluster| {
        cluster.create(JOBS, &job(&json!({"completions": 3, "parallelism": 2}), &json!({}))).await;
        cluster.pass(1).await;
        let status = cluster.status("j");
        assert_eq!((&status["active"], &status["ready"]), (&json!(2), &json!(2)), "{status}");
        assert_eq!(cluster.all("", "pods").iter().filter(|pod| pods::is_tracked(pod)).count(), 2);
        cluster.pass(10).await;
        let status = cluster.status("j");
        assert_eq!(
            conditions(&status),
            ["SuccessCriteriaMet=True CompletionsReached", "Complete=True CompletionsReached"]
        );
        assert_eq!((&status["succeeded"], &status["terminating"]), (&json!(3), &json!(0)), "{status}");
        assert_eq!(
            (&status["startTime"], &status["completionTime"]),
            (&json!("2030-01-01T00:00:00Z"), &json!("2030-01-01T00:00:03Z"))
        );
        assert!(status.get("active").is_none() && status["uncountedTerminatedPods"] == json!({}), "{status}");
        assert_eq!((cluster.phases("Succeeded"), cluster.all("", "pods").len()), (3, 3));
        assert!(!cluster.all("", "pods").iter().any(pods::is_tracked), "all are counted");
    });
}

#[test]
fn nothing_is_written_when_nothing_happens() {
    virtually(async |cluster| {
        let annotations = json!({"plumbline.dev/run-for": "forever"});
        cluster.create(JOBS, &job(&json!({"activeDeadlineSeconds": 7200}), &annotations)).await;
        cluster
            .create(JOBS, &{
                let mut other = job(&json!({"suspend": true}), &json!({}));
                other["metadata"]["name"] = json!("other");
                other
            })
            .await;
        cluster.pass(10).await;
        let before = cluster.server.transcript().len();
        cluster.pass(3600).await;
        assert_eq!(cluster.server.transcript().len(), before);
    });
}

/// An orphan of the job is adopted with the finalizer; a pod with other labels is released without it and replaced.
#[test]
fn pods_are_adopted_and_released() {
    virtually(async |cluster| {
        cluster.create(JOBS, &job(&json!({}), &json!({"plumbline.dev/run-for": "forever"}))).await;
        cluster.pass(1).await;
        let pod = cluster.names("", "pods").remove(0);
        let path = format!("/api/v1/namespaces/default/pods/{pod}");
        let orphan = json!({"metadata": {"ownerReferences": null, "finalizers": null}});
        cluster.client.patch(&path, MERGE_PATCH, &orphan).await;
        cluster.pass(1).await;
        let pods = cluster.all("", "pods");
        assert_eq!(pods.len(), 1);
        assert!(controller_uid(&pods[0]).is_some() && pods::is_tracked(&pods[0]), "adopted: {}", pods[0]);

        cluster.client.patch(&path, MERGE_PATCH, &json!({"metadata": {"labels": null}})).await;
        cluster.pass(1).await;
        let pods = cluster.all("", "pods");
        let kept: Vec<(bool, bool, bool)> = pods
            .iter()
            .map(|other| (metadata::name(other) == pod, controller_uid(other).is_some(), pods::is_tracked(other)))
            .collect();
        assert_eq!(kept.len(), 2, "{kept:?}");
        assert!(kept.contains(&(true, false, false)) && kept.contains(&(false, true, true)), "{kept:?}");
    });
}

/// The back-off is 10 s after the first failure and 20 s after the second one.
#[test]
fn a_job_fails_beyond_its_limit_of_failures() {
    virtually(async |cluster| {
        cluster.create(JOBS, &job(&json!({"backoffLimit": 2}), &json!({"plumbline.dev/exit-code": "1"}))).await;
        for (until, failed) in [(3, 1), (13, 2), (30, 2), (36, 3)] {
            let elapsed = cluster.server.clock().elapsed().as_secs();
            cluster.pass(until - elapsed).await;
            assert_eq!(cluster.status("j")["failed"], failed, "at {until} s: {}", cluster.status("j"));
        }
        let status = cluster.status("j");
        assert_eq!(
            conditions(&status),
            ["FailureTarget=True BackoffLimitExceeded", "Failed=True BackoffLimitExceeded"]
        );
        assert!(status.get("completionTime").is_none() && status.get("active").is_none(), "{status}");
        cluster.pass(3600).await;
        assert_eq!(cluster.phases("Failed"), 3, "no pod follows");
    });
}

/// See `calculateFailedIndexes` and `addIndexFailureCountAnnotation` in `pkg/controller/job/indexed_job_utils.go`.
#[test]
fn each_index_has_failures_of_its_own() {
    virtually(async |cluster| {
        let fields =
            json!({"completionMode": "Indexed", "completions": 2, "parallelism": 2, "backoffLimitPerIndex": 1});
        cluster.create(JOBS, &job(&fields, &json!({"plumbline.dev/exit-code": "1"}))).await;
        cluster.pass(60).await;
        let status = cluster.status("j");
        assert_eq!(conditions(&status), ["FailureTarget=True FailedIndexes", "Failed=True FailedIndexes"]);
        assert_eq!((&status["failed"], &status["failedIndexes"]), (&json!(4), &json!("0,1")));
        let annotation = "batch.kubernetes.io/job-index-failure-count";
        let mut counts: Vec<String> = cluster
            .all("", "pods")
            .iter()
            .filter_map(|pod| metadata::annotation(pod, annotation).map(str::to_owned))
            .collect();
        counts.sort();
        assert_eq!(counts, ["0", "0", "1", "1"]);
    });
}

/// See `getFailJobMessage` and `matchSuccessPolicy` in `pkg/controller/job`.
#[test]
fn policies_end_a_job() {
    virtually(async |cluster| {
        let rule = json!({"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1]}});
        let fields = json!({"podFailurePolicy": {"rules": [rule]}});
        cluster.create(JOBS, &job(&fields, &json!({"plumbline.dev/exit-code": "1"}))).await;
        cluster.pass(30).await;
        let status = cluster.status("j");
        assert_eq!(conditions(&status), ["FailureTarget=True PodFailurePolicy", "Failed=True PodFailurePolicy"]);
        assert_eq!(status["failed"], 1, "{status}");
        let fields = json!({"completionMode": "Indexed", "completions": 3, "parallelism": 1,
            "successPolicy": {"rules": [{"succeededCount": 1}]}});
        let mut enough = job(&fields, &json!({}));
        metadata::set(&mut enough, "name", "k");
        cluster.create(JOBS, &enough).await;
        cluster.pass(60).await;
        let status = cluster.status("k");
        assert_eq!(conditions(&status), ["SuccessCriteriaMet=True SuccessPolicy", "Complete=True SuccessPolicy"]);
        assert_eq!((&status["succeeded"], &status["completedIndexes"]), (&json!(1), &json!("0")), "{status}");
    });
}

#[test]
fn restarts_of_containers_count_against_the_limit() {
    virtually(async |cluster| {
        let fields = json!({"backoffLimit": 2, "restartPolicy": "OnFailure"});
        cluster.create(JOBS, &job(&fields, &json!({"plumbline.dev/exit-code": "1"}))).await;
        cluster.pass(10).await;
        assert_eq!(cluster.all("", "pods")[0]["status"]["containerStatuses"][0]["restartCount"], 1);
        assert!(conditions(&cluster.status("j")).is_empty());
        cluster.pass(60).await;
        assert_eq!(
            conditions(&cluster.status("j")).last().map(String::as_str),
            Some("Failed=True BackoffLimitExceeded")
        );
        assert!(cluster.all("", "pods").is_empty(), "its pod is deleted");
    });
}

#[test]
fn a_deadline_ends_a_job_and_its_pods() {
    virtually(async |cluster| {
        let annotations = json!({"plumbline.dev/run-for": "1h"});
        cluster.create(JOBS, &job(&json!({"activeDeadlineSeconds": 60, "parallelism": 2}), &annotations)).await;
        cluster.pass(59).await;
        assert!(conditions(&cluster.status("j")).is_empty());
        cluster.pass(5).await;
        let status = cluster.status("j");
        assert_eq!(conditions(&status), ["FailureTarget=True DeadlineExceeded", "Failed=True DeadlineExceeded"]);
        assert_eq!(status["failed"], 2, "pods that were running count as failed: {status}");
        assert!(cluster.all("", "pods").is_empty());
    });
}

#[test]
fn an_indexed_job_has_one_success_for_each_index() {
    virtually(async |cluster| {
        let fields = json!({"completionMode": "Indexed", "completions": 3, "parallelism": 3});
        cluster.create(JOBS, &job(&fields, &json!({}))).await;
        settle().await;
        let pods = cluster.all("", "pods");
        let mut indexes: Vec<Option<i64>> = pods.iter().map(pods::index).collect();
        indexes.sort_unstable();
        assert_eq!(indexes, [Some(0), Some(1), Some(2)]);
        let third = pods.iter().find(|pod| pods::index(pod) == Some(2)).expect("there");
        assert!(metadata::name(third).starts_with("j-2-"), "{third}");
        assert_eq!(
            (&third["spec"]["hostname"], metadata::label(third, "batch.kubernetes.io/job-completion-index")),
            (&json!("j-2"), Some("2"))
        );
        assert_eq!(
            third["spec"]["containers"][0]["env"],
            json!([{"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef":
            {"apiVersion": "v1", "fieldPath": "metadata.labels['batch.kubernetes.io/job-completion-index']"}}}])
        );
        cluster.pass(5).await;
        let status = cluster.status("j");
        assert_eq!((&status["completedIndexes"], &status["succeeded"]), (&json!("0-2"), &json!(3)), "{status}");
        assert_eq!(conditions(&status).last().map(String::as_str), Some("Complete=True CompletionsReached"));
    });
}

#[test]
fn a_suspended_job_has_no_pods() {
    virtually(async |cluster| {
        let annotations = json!({"plumbline.dev/run-for": "30s"});
        cluster.create(JOBS, &job(&json!({}), &annotations)).await;
        cluster.pass(10).await;
        let suspend = async |value: bool| {
            cluster.client.patch(&format!("{JOBS}/j"), MERGE_PATCH, &json!({"spec": {"suspend": value}})).await;
        };
        suspend(true).await;
        cluster.pass(5).await;
        let status = cluster.status("j");
        assert_eq!(conditions(&status), ["Suspended=True JobSuspended"]);
        assert!(cluster.all("", "pods").is_empty() && status.get("failed").is_none(), "{status}");
        suspend(false).await;
        cluster.pass(60).await;
        let status = cluster.status("j");
        assert_eq!(conditions(&status)[0], "Suspended=False JobResumed");
        assert_eq!(
            (&status["startTime"], &status["succeeded"]),
            (&json!("2030-01-01T00:00:15Z"), &json!(1)),
            "{status}"
        );
    });
}

#[test]
fn a_finished_job_goes_after_its_time_to_live_with_its_pods() {
    virtually(async |cluster| {
        cluster.create(JOBS, &job(&json!({"ttlSecondsAfterFinished": 60}), &json!({}))).await;
        cluster.pass(60).await;
        assert_eq!((cluster.names("batch", "jobs").len(), cluster.phases("Succeeded")), (1, 1));
        cluster.pass(5).await;
        assert!(cluster.names("batch", "jobs").is_empty() && cluster.all("", "pods").is_empty());
    });
}

/// The controller of times to live does not ask who manages a job (`needsCleanup` in
/// `pkg/controller/ttlafterfinished/ttlafterfinished_controller.go`).
#[test]
fn a_finished_job_of_another_controller_goes_after_its_time_to_live() {
    virtually(async |cluster| {
        let fields = json!({"ttlSecondsAfterFinished": 60, "managedBy": "example.com/other"});
        cluster.create(JOBS, &job(&fields, &json!({}))).await;
        let now = "2030-01-01T00:00:00Z";
        let condition = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": now});
        let status = json!({"status": {"startTime": now, "completionTime": now, "succeeded": 1,
            "conditions": [condition("SuccessCriteriaMet"), condition("Complete")]}});
        assert!(cluster.client.patch(&format!("{JOBS}/j/status"), MERGE_PATCH, &status).await.is_ok());
        cluster.pass(50).await;
        assert_eq!(cluster.names("batch", "jobs").len(), 1);
        cluster.pass(15).await;
        assert!(cluster.names("batch", "jobs").is_empty());
    });
}

/// `DefaultJobApiBackOff` and `MaxJobApiBackOff` in `pkg/controller/job/job_controller.go`.
#[test]
fn a_job_that_is_refused_is_tried_again_up_to_once_a_minute() {
    virtually(async |cluster| {
        refuse(&cluster.server, &serde_json::json!({"verbs": ["create"], "resource": "pods"}), None, 500);
        cluster.create(JOBS, &job(&json!({}), &json!({}))).await;
        let hits = || cluster.server.faults().hits("refused");
        cluster.pass(200).await;
        let before = hits();
        assert!((8..12).contains(&before), "{before}");
        cluster.pass(600).await;
        assert_eq!(hits() - before, 10);
    });
}

/// `cronjob_controllerv2.go` has the usual rate limiter.
#[test]
fn a_cron_job_that_is_refused_is_tried_again_at_once() {
    virtually(async |cluster| {
        let on = serde_json::json!({"verbs": ["create"], "resource": "jobs", "userAgent": "cronjob"});
        refuse(&cluster.server, &on, Some(3), 500);
        every_minute(&cluster, "1s", json!({})).await;
        cluster.pass(61).await;
        assert_eq!(cluster.names("batch", "jobs").len(), 1);
    });
}

/// See `managedByExternalController` and `handleSingleOrphanPod` in `pkg/controller/job/job_controller.go`.
#[test]
fn what_others_manage_is_left_alone() {
    virtually(async |cluster| {
        tokio::spawn(crate::events::publish_events(cluster.server.clone()));
        settle().await;
        cluster.create(JOBS, &job(&json!({"managedBy": "example.com/other"}), &json!({}))).await;
        let uid = metadata::uid(&cluster.all("batch", "jobs")[0]).to_owned();
        for (name, version, uid) in [("a", "batch/v1", &*uid), ("b", "batch.volcano.sh/v1", "x"), ("c", "", "")] {
            let mut pod = json!({"metadata": {"name": name, "finalizers": [pods::FINALIZER]},
                "spec": {"containers": [{"name": "c", "image": "i"}]}});
            if !uid.is_empty() {
                let owner = json!({"apiVersion": version, "kind": "Job", "name": "j", "uid": uid, "controller": true});
                metadata::set(&mut pod, "ownerReferences", json!([owner]));
            }
            cluster.create("/api/v1/namespaces/default/pods", &pod).await;
        }
        let now = "2030-01-01T00:00:00Z";
        let condition = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": now});
        let status = json!({"status": {"startTime": now, "completionTime": now, "succeeded": 1,
            "conditions": [condition("SuccessCriteriaMet"), condition("Complete")]}});
        assert!(cluster.client.patch(&format!("{JOBS}/j/status"), MERGE_PATCH, &status).await.is_ok());
        cluster.pass(5).await;
        let tracked: Vec<(String, bool)> =
            cluster.all("", "pods").iter().map(|pod| (metadata::name(pod).to_owned(), pods::is_tracked(pod))).collect();
        assert_eq!(tracked, [("a", true), ("b", true), ("c", false)].map(|(name, is)| (name.to_owned(), is)));
        let events = cluster.all("", "events");
        let of_job =
            |event: &&Value| event["reportingComponent"] == "job-controller" && event["reason"] != "SuccessfulCreate";
        assert_eq!(events.iter().find(of_job), None);
        let creators = events.iter().filter(|event| event["reason"] == "SuccessfulCreate").count();
        assert_eq!(creators, 1, "only for the Job of batch/v1");
    });
}

#[test]
fn a_deleted_job_leaves_no_pod_behind() {
    virtually(async |cluster| {
        cluster.create(JOBS, &job(&json!({}), &json!({"plumbline.dev/run-for": "1h"}))).await;
        cluster.pass(5).await;
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"});
        assert!(cluster.client.delete(&format!("{JOBS}/j"), Some(&options)).await.is_ok());
        cluster.pass(5).await;
        assert!(cluster.all("", "pods").is_empty());
    });
}

/// Starts a cron job of every minute at 00:00:00; its jobs run for `run_for`.
async fn every_minute(cluster: &Cluster, run_for: &str, fields: Value) {
    let template = job(&json!({}), &json!({"plumbline.dev/run-for": run_for}))["spec"].clone();
    let mut spec = json!({"schedule": "* * * * *", "jobTemplate": {"spec": template}});
    for (name, value) in fields.as_object().into_iter().flatten() {
        spec[name.clone()] = value.clone();
    }
    let cron_job = json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c"}, "spec": spec});
    cluster.create(CRON_JOBS, &cron_job).await;
}

/// Minutes since 1970 at 2030-01-01T00:00:00Z, as in the names of jobs.
const FIRST: i64 = 31_557_600;

/// With the policy Forbid, the start that was missed is made up for when the job before it has ended.
#[rstest]
#[case::allow("Allow", &[1, 2, 3], 2)]
#[case::forbid("Forbid", &[1, 2], 1)]
#[case::replace("Replace", &[3], 1)]
fn jobs_start_every_minute(#[case] policy: &str, #[case] minutes: &[i64], #[case] active: usize) {
    virtually(async |cluster| {
        // A job ends 90.6 s after its start.
        every_minute(&cluster, "90s", json!({"concurrencyPolicy": policy})).await;
        cluster.pass(60).await;
        assert!(cluster.names("batch", "jobs").is_empty(), "jobs start 100 ms after their time");
        cluster.pass(121).await;
        let names: Vec<String> = minutes.iter().map(|minute| format!("c-{}", FIRST + minute)).collect();
        assert_eq!(cluster.names("batch", "jobs"), names);
        let last = format!("2030-01-01T00:0{}:00Z", minutes[minutes.len() - 1]);
        let cron_job = &cluster.all("batch", "cronjobs")[0];
        assert_eq!(cron_job["status"]["lastScheduleTime"], last, "{cron_job}");
        assert_eq!(cron_job["status"]["active"].as_array().map_or(0, Vec::len), active, "{cron_job}");
        let job = cluster.all("batch", "jobs").pop().expect("a job");
        let annotation = "batch.kubernetes.io/cronjob-scheduled-timestamp";
        assert_eq!(metadata::annotation(&job, annotation), Some(&*last));
    });
}

#[test]
fn a_job_that_goes_missing_has_an_event() {
    virtually(async |cluster| {
        tokio::spawn(crate::events::publish_events(cluster.server.clone()));
        every_minute(&cluster, "forever", json!({"concurrencyPolicy": "Forbid"})).await;
        cluster.pass(61).await;
        let job = cluster.names("batch", "jobs").pop().expect("a job");
        let events = || -> Vec<String> {
            let all = cluster.all("", "events");
            let own = all.iter().filter(|event| event["involvedObject"]["kind"] == "CronJob");
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            own.map(|event| format!("{}: {}", text(&event["reason"]), text(&event["message"]))).collect()
        };
        assert_eq!(events(), [format!("SuccessfulCreate: Created job {job}")]);
        cluster.client.delete(&format!("/apis/batch/v1/namespaces/default/jobs/{job}"), None).await;
        cluster.pass(1).await;
        assert_eq!(events()[1..], [format!("MissingJob: Active job went missing: {job}")]);
        assert!(cluster.all("batch", "cronjobs")[0]["status"].get("active").is_none());
    });
}

#[test]
fn old_jobs_are_removed_and_the_last_success_is_noted() {
    virtually(async |cluster| {
        every_minute(&cluster, "1s", json!({"successfulJobsHistoryLimit": 2})).await;
        cluster.pass(10 * 60 + 30).await;
        let names: Vec<String> = [9, 10].iter().map(|minute| format!("c-{}", FIRST + minute)).collect();
        assert_eq!(cluster.names("batch", "jobs"), names);
        assert_eq!(cluster.all("", "pods").len(), 2, "with their pods");
        let cron_job = &cluster.all("batch", "cronjobs")[0];
        assert_eq!(cron_job["status"]["lastSuccessfulTime"], "2030-01-01T00:10:01Z", "{cron_job}");
        assert!(cron_job["status"].get("active").is_none(), "{cron_job}");
    });
}

#[rstest]
#[case::in_time(json!({"startingDeadlineSeconds": 120}), 1)]
#[case::too_late(json!({"startingDeadlineSeconds": 20}), 0)]
#[case::no_deadline(json!({}), 1)]
fn a_missed_start_is_made_up_for_until_its_deadline(#[case] fields: Value, #[case] jobs: usize) {
    virtually(async |cluster| {
        let mut fields = fields;
        fields["suspend"] = json!(true);
        fields["schedule"] = json!("*/10 * * * *");
        every_minute(&cluster, "1s", fields).await;
        cluster.pass(10 * 60 + 30).await;
        assert!(cluster.names("batch", "jobs").is_empty(), "it is suspended");
        cluster.client.patch(&format!("{CRON_JOBS}/c"), MERGE_PATCH, &json!({"spec": {"suspend": false}})).await;
        cluster.pass(10).await;
        assert_eq!(cluster.names("batch", "jobs").len(), jobs);
    });
}
