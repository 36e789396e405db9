//! `batch/v1` `CronJob`. See `pkg/registry/batch/cronjob/strategy.go` and `pkg/apis/batch/validation/validation.go`.

use crate::cron;
use crate::field_errors::{BadValue, ErrorList, Path};
use crate::json::fields::{non_null, object_mut, object_or_default, spec_of, str_field, text_default, value_default};
use crate::json::{Map, Value, json};
use crate::metadata;
use crate::printers::column::{AGE, CellSource, Column, Description, NAME, containers, images};
use crate::printers::duration;
use crate::printers::format::{NONE, UNSET};
use crate::registry::batch::job::defaults::job_template;
use crate::registry::batch::job::validation::{self, job_spec};
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::generic::{Generation, Generic};
use crate::registry::kind_strategy::KindStrategy;
use crate::registry::{checks, label_selector};

const SPEC: Path<'static> = Path::new("spec");

/// The resource `cronjobs` of `batch/v1`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource("batch", "v1", "cronjobs", "CronJob", "io.k8s.api.batch.v1.CronJob")
        .short(&["cj"])
        .categories(&["all"])
        .status()
        .hash("sd5LIXh4Fjs=")
        .rules(
            KindStrategy::new(Generic { generation: Generation::Spec, status: true, ..Generic::NEW }, defaults)
                .check_with(validate)
                .warn_with(warnings),
        )
        .columns(COLUMNS)
}

/// Defaults of `CronJob`.
fn defaults(map: &mut Map) {
    let Some(spec) = object_or_default(map, "spec") else { return };
    text_default(spec, "concurrencyPolicy", "Allow");
    value_default(spec, "suspend", false);
    value_default(spec, "successfulJobsHistoryLimit", 3);
    value_default(spec, "failedJobsHistoryLimit", 1);
    if let Some(job) = object_mut(spec, "jobTemplate").and_then(|t| object_mut(t, "spec")) {
        job_template(job);
    }
}

/// Maximum length of a cron job's name.
const MAX_NAME: usize = 52;

/// Validates a cron job, except for its metadata.
fn validate(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let spec = spec_of(object);
    let schedule = str_field(spec, "schedule");
    let path = SPEC.child("schedule");
    if schedule.is_empty() {
        errors.required(&path, "");
    } else {
        if let Err(why) = cron::validate(schedule) {
            errors.invalid(&path, schedule, why.to_string());
        }
        if schedule.contains("TZ") {
            errors.invalid(&path, schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead");
        }
    }
    checks::validate_non_negative(
        spec.get("startingDeadlineSeconds"),
        &SPEC.child("startingDeadlineSeconds"),
        &mut errors,
    );
    if let Some(zone) = non_null(spec, "timeZone").and_then(Value::as_str) {
        time_zone(zone, &SPEC.child("timeZone"), &mut errors);
    }
    let policy = str_field(spec, "concurrencyPolicy");
    if !matches!(policy, "Allow" | "Forbid" | "Replace") {
        errors.not_supported(&SPEC.child("concurrencyPolicy"), policy, &["Allow", "Forbid", "Replace"]);
    }
    let path = SPEC.child("jobTemplate");
    let path = path.child("spec");
    let job = spec.pointer("/jobTemplate/spec").unwrap_or(&Value::Null);
    job_spec(job, &path, &mut errors);
    if let Some(selector) = non_null(job, "selector") {
        let shown = BadValue::Raw(label_selector::selector_json(Some(selector)));
        errors.invalid(&path.child("selector"), shown, "`selector` will be auto-generated");
    }
    if job.get("manualSelector") == Some(&json!(true)) {
        errors.not_supported(&path.child("manualSelector"), true, &["nil", "false"]);
    }
    for field in ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        checks::validate_non_negative(spec.get(field), &SPEC.child(field), &mut errors);
    }
    // The names of its jobs end with a time.
    let name = metadata::name(object);
    if name.len() > MAX_NAME {
        errors.invalid(&Path::new("metadata").child("name"), name, "must be no more than 52 characters");
    }
    errors
}

/// Returns the warnings for the job template, and for updates with a time zone in the schedule.
fn warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    let spec = spec_of(new);
    let job = spec.pointer("/jobTemplate/spec").unwrap_or(&Value::Null);
    let mut warnings = validation::template_warnings((new, old), job, "spec.jobTemplate.spec");
    if old.is_some() && str_field(spec, "schedule").contains("TZ") {
        // The path is wrong in upstream's message too.
        let why = "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details";
        warnings.push(why.to_owned());
    }
    warnings
}

fn time_zone(zone: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let letters = |byte: u8| byte.is_ascii_alphanumeric() || b".-_+".contains(&byte);
    let part = |part: &str| {
        !matches!(part, "" | "." | "..") && !part.starts_with('-') && part.len() <= 14 && part.bytes().all(letters)
    };
    let known = || jiff::tz::db().available().next().is_none() || jiff::tz::TimeZone::get(zone).is_ok();
    if zone.is_empty() {
        errors.invalid(path, zone, "timeZone must be nil or non-empty string");
    } else if !zone.split('/').all(part) {
        errors.invalid(path, zone, format!("unknown time zone {zone}"));
    } else if zone.eq_ignore_ascii_case("Local") {
        let why = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        errors.invalid(path, zone, why);
    } else if !known() {
        errors.invalid(path, zone, format!("unknown time zone {zone}"));
    }
}

/// The columns of `cronjobs`.
const COLUMNS: &[Column] = &[
    NAME,
    Column::string(
        "Schedule",
        Description::Field("api.batch.v1.CronJobSpec", "schedule"),
        CellSource::Text("/spec/schedule", ""),
    ),
    Column::string(
        "Timezone",
        Description::Field("api.batch.v1.CronJobSpec", "timeZone"),
        CellSource::Optional("/spec/timeZone", NONE),
    ),
    Column::boolean(
        "Suspend",
        Description::Field("api.batch.v1.CronJobSpec", "suspend"),
        CellSource::Custom(|job, _| json!(suspended(job))),
    ),
    Column::integer(
        "Active",
        Description::Field("api.batch.v1.CronJobStatus", "active"),
        CellSource::Count("/status/active"),
    ),
    Column::string(
        "Last Schedule",
        Description::Field("api.batch.v1.CronJobStatus", "lastScheduleTime"),
        CellSource::Custom(|job, now| match job.pointer("/status/lastScheduleTime") {
            None | Some(Value::Null) => json!(NONE),
            time => json!(duration::since(time, now)),
        }),
    ),
    AGE,
    containers("/spec/jobTemplate/spec/template/spec/containers"),
    images("/spec/jobTemplate/spec/template/spec/containers"),
    Column::string(
        "Selector",
        Description::Field("api.batch.v1.JobSpec", "selector"),
        CellSource::Selector("/spec/jobTemplate/spec/selector"),
    )
    .wide(),
];

fn suspended(job: &Value) -> &'static str {
    match job.pointer("/spec/suspend").and_then(Value::as_bool) {
        Some(true) => "True",
        Some(false) => "False",
        None => UNSET,
    }
}
