//! `batch/v1` Job. The generated selector matches a pod label with the job's uid.
//! See `pkg/registry/batch/job/strategy.go`.

pub(super) mod defaults;
mod policies;
mod status;
pub(super) mod validation;

use jiff::Timestamp;

use crate::field_errors::ErrorList;
use crate::json::fields::{is_empty_value, object_or_default, object_or_insert, str_field, value_default};
use crate::json::{Map, Value, json};
use crate::metadata;
use crate::printers::column::{AGE, CellSource, Column, Description, NAME, containers, images};
use crate::printers::duration;
use crate::printers::format::{condition_is_true, number, text};
use crate::registry::batch::job::defaults::job_template;
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::core::workload::CONTAINERS;
use crate::registry::generic::{Generation, Generic};
use crate::registry::strategy::{Strategy, StrategyContext};

/// The resource `jobs` of `batch/v1`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource("batch", "v1", "jobs", "Job", "io.k8s.api.batch.v1.Job")
        .categories(&["all"])
        .status()
        .hash("mudhfqk/qZY=")
        .fields(&[("status.successful", "0")])
        .rules(Job)
        .columns(COLUMNS)
}

fn defaults(map: &mut Map) {
    let Some(spec) = object_or_default(map, "spec") else { return };
    if spec.get("completions").is_none_or(Value::is_null) && spec.get("parallelism").is_none_or(Value::is_null) {
        spec.insert("completions", 1.into());
    }
    value_default(spec, "parallelism", 1);
    default_failure_policy(spec);
    value_default(spec, "completionMode", "NonIndexed");
    value_default(spec, "suspend", false);
    value_default(spec, "manualSelector", false);
    let replacement = if is_empty_value(spec.get("podFailurePolicy")) { "TerminatingOrFailed" } else { "Failed" };
    value_default(spec, "podReplacementPolicy", replacement);
    job_template(spec);
    let labels = spec.get("template").and_then(|t| t.pointer("/metadata/labels")).cloned();
    if let (Some(labels), Some(metadata)) = (labels, object_or_default(map, "metadata"))
        && is_empty_value(metadata.get("labels"))
    {
        metadata.insert("labels", labels);
    }
}

/// `batch/v1` Job. The generated selector matches a pod label with the job's uid.
#[derive(Debug, Clone, Copy)]
struct Job;

const STRATEGY: Generic = Generic { generation: Generation::Spec, status: true, ..Generic::NEW };

impl Strategy for Job {
    fn default(&self, object: &mut Value) {
        if let Some(map) = object.as_object_mut() {
            defaults(map);
        }
    }

    fn prepare_for_create(&self, object: &mut Value, ctx: &StrategyContext<'_>) {
        STRATEGY.prepare_for_create(object, ctx);
        if object.pointer("/spec/manualSelector") == Some(&Value::Bool(true)) {
            return;
        }
        let metadata = object.get("metadata").unwrap_or(&Value::Null);
        let uid = str_field(metadata, "uid").to_owned();
        let name = str_field(metadata, "name").to_owned();
        let own = metadata.get("labels").cloned();
        let template = object.pointer("/spec/template/metadata/labels").cloned();
        let shared = own.is_some() && own == template;
        let labels = [
            ("batch.kubernetes.io/controller-uid", uid.as_str()),
            ("batch.kubernetes.io/job-name", name.as_str()),
            ("controller-uid", uid.as_str()),
            ("job-name", name.as_str()),
        ];
        let add = |target: &mut Value| {
            let Some(map) = object_or_insert(target, "labels") else { return };
            for (key, value) in labels {
                // Validation refuses other values.
                map.entry(key).or_insert_with(|| value.into());
            }
        };
        if let Some(metadata) = object.pointer_mut("/spec/template/metadata") {
            add(metadata);
        }
        if let Some(metadata) = object.get_mut("metadata").filter(|_| shared) {
            // Upstream's defaulting shares the template's map with the job's labels, so both get the additions.
            add(metadata);
        }
        if own.is_none()
            && let Some(labels) = object.pointer("/spec/template/metadata/labels").cloned()
        {
            metadata::set(object, "labels", labels);
        }
        if let Some(spec) = object_or_insert(object, "spec") {
            let selector = spec.entry("selector").or_insert_with(|| json!({}));
            if let Some(labels) = object_or_insert(selector, "matchLabels") {
                labels.entry("batch.kubernetes.io/controller-uid").or_insert_with(|| uid.into());
            }
        }
    }

    fn validate(&self, object: &Value) -> ErrorList {
        validate(object, None)
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value, ctx: &StrategyContext<'_>) {
        STRATEGY.prepare_for_update(new, old, ctx);
    }

    fn validate_update(&self, new: &Value, old: &Value) -> ErrorList {
        // Upstream validates what was written as a new job, and its spec once more as a change of one.
        let mut errors = validate(new, Some(old));
        errors.append(STRATEGY.validate_update(new, old));
        errors.append(validation::validate_job_update(new, old));
        errors
    }

    fn validate_status_update(&self, new: &Value, old: &Value) -> ErrorList {
        status::validate(new, old)
    }

    fn warnings_on_create(&self, object: &Value) -> Vec<String> {
        validation::job_warnings(object, None)
    }

    fn warnings_on_update(&self, new: &Value, old: &Value) -> Vec<String> {
        validation::job_warnings(new, Some(old))
    }

    fn orphans_by_default(&self) -> bool {
        true
    }
}

/// Validates a new job, or one that was another before.
fn validate(object: &Value, old: Option<&Value>) -> ErrorList {
    let mut errors = STRATEGY.validate(object);
    errors.append(validation::validate_generated_selector(object, old));
    errors.append(validation::validate_job(object));
    errors.append(validation::validate_indexed_job_name(object));
    errors
}

/// Defaults of a job's spec that depend on other fields.
fn default_failure_policy(spec: &mut Map) {
    let per_index = spec.get("backoffLimitPerIndex").is_some_and(|limit| !limit.is_null());
    if spec.get("backoffLimit").is_none_or(Value::is_null) {
        spec.insert("backoffLimit", if per_index { i32::MAX.into() } else { 6.into() });
    }
    let rules = spec.get_mut("podFailurePolicy").and_then(|policy| policy.get_mut("rules"));
    for rule in rules.and_then(Value::as_array_mut).into_iter().flatten() {
        let patterns = rule.get_mut("onPodConditions").and_then(Value::as_array_mut);
        for pattern in patterns.into_iter().flatten() {
            if is_empty_value(pattern.get("status")) {
                pattern["status"] = "True".into();
            }
        }
    }
}

/// The columns of `jobs`.
const COLUMNS: &[Column] = &[
    NAME,
    Column::string(
        "Status",
        Description::Text("Status of the job."),
        CellSource::Custom(|job, _| json!(job_status(job))),
    ),
    Column::string(
        "Completions",
        Description::Field("api.batch.v1.JobStatus", "succeeded"),
        CellSource::Custom(|job, _| json!(completions(job))),
    ),
    Column::string(
        "Duration",
        Description::Text("Time required to complete the job."),
        CellSource::Custom(|job, now| json!(job_duration(job, now))),
    ),
    AGE,
    containers(CONTAINERS),
    images(CONTAINERS),
    Column::string(
        "Selector",
        Description::Field("api.batch.v1.JobSpec", "selector"),
        CellSource::Selector("/spec/selector"),
    )
    .wide(),
];

fn completions(job: &Value) -> String {
    let succeeded = number(job, "/status/succeeded");
    match (job.pointer("/spec/completions").and_then(Value::as_i64), number(job, "/spec/parallelism")) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

fn job_duration(job: &Value, now: Timestamp) -> String {
    let time = |pointer| text(job, pointer).parse::<Timestamp>().ok();
    match (time("/status/startTime"), time("/status/completionTime")) {
        (None, _) => String::new(),
        (Some(start), end) => duration::human_duration(duration::seconds_between(start, end.unwrap_or(now))),
    }
}

fn job_status(job: &Value) -> &'static str {
    let deleted = metadata::is_deleted(job);
    let conditions = ["Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet"];
    match conditions.into_iter().find(|condition| condition_is_true(job, condition)) {
        Some(ended @ ("Complete" | "Failed")) => ended,
        _ if deleted => "Terminating",
        Some(condition) => condition,
        None => "Running",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_per_index_lift_the_limit_of_the_job() {
        let mut spec = Map::new();
        spec.insert("backoffLimitPerIndex", 1.into());
        default_failure_policy(&mut spec);
        assert_eq!(spec["backoffLimit"], i32::MAX);
    }
}
