//! Validation and warnings of jobs and cron jobs.
//!
//! See `pkg/apis/batch/validation/validation.go`; the schedule parser agrees with `github.com/robfig/cron/v3`.

use super::label_selector;
use super::meta::{non_null, spec_of};
use super::{job_rules, meta, names, pod};
use crate::field_errors::{BadValue, ErrorList, Path};
use crate::json::{Map, Value, json};

const SPEC: Path<'static> = Path::new("spec");

/// Maximum length of a cron job's name.
const MAX_NAME: usize = 52;

/// Job fields that must not be negative, in upstream's order.
const COUNTS: [&str; 7] = [
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
];

/// Defaults of a job's spec that depend on other fields.
pub(super) fn default_failure_policy(spec: &mut Map) {
    let per_index = spec.get("backoffLimitPerIndex").is_some_and(|limit| !limit.is_null());
    if spec.get("backoffLimit").is_none_or(Value::is_null) {
        spec.insert("backoffLimit", if per_index { i32::MAX.into() } else { 6.into() });
    }
    let rules = spec.get_mut("podFailurePolicy").and_then(|policy| policy.get_mut("rules"));
    for rule in rules.and_then(Value::as_array_mut).into_iter().flatten() {
        let patterns = rule.get_mut("onPodConditions").and_then(Value::as_array_mut);
        for pattern in patterns.into_iter().flatten() {
            if meta::is_empty_value(pattern.get("status")) {
                pattern["status"] = "True".into();
            }
        }
    }
}

/// Validates a job, except for its metadata.
pub(super) fn validate_job(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let spec = spec_of(object);
    job_spec(spec, &SPEC, &mut errors);
    let selector = non_null(spec, "selector");
    let path = SPEC.child("selector");
    if selector.is_none() {
        errors.required(&path, "");
    }
    errors.append(label_selector::validate(selector, false, &path));
    let labels = spec.pointer("/template/metadata/labels");
    if label_selector::matches(selector, labels) == Some(false) {
        let path = SPEC.child("template");
        let path = path.child("metadata");
        let shown = labels.map_or_else(|| BadValue::Raw("null".to_owned()), BadValue::from);
        errors.invalid(&path.child("labels"), shown, "`selector` does not match template `labels`");
    }
    errors
}

/// Validates an update of a job.
pub(super) fn validate_job_update(new: &Value, old: &Value) -> ErrorList {
    let mut errors = validate_job(new);
    let (now, before) = (spec_of(new), spec_of(old));
    let mut keep =
        |field: &str| meta::validate_immutable(now.get(field), before.get(field), &SPEC.child(field), &mut errors);
    let indexed = meta::str_field(now, "completionMode") == "Indexed";
    if !indexed {
        keep("completions");
    }
    keep("selector");
    if before.get("suspend") != Some(&Value::Bool(true)) && now.get("template") != before.get("template") {
        let shown = BadValue::Raw(pod::template_text(now.get("template").unwrap_or(&Value::Null)));
        errors.invalid(&SPEC.child("template"), shown, meta::IMMUTABLE_MESSAGE);
    }
    let mut keep =
        |field: &str| meta::validate_immutable(now.get(field), before.get(field), &SPEC.child(field), &mut errors);
    for field in ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"] {
        keep(field);
    }
    let completions = non_null(now, "completions");
    let moved = indexed && completions.is_some() && completions != before.get("completions");
    if moved && completions != now.get("parallelism") {
        let why = "can only be modified in tandem with spec.parallelism";
        errors.invalid(&SPEC.child("completions"), BadValue::from(completions), why);
    }
    errors
}

fn job_spec(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    for field in COUNTS {
        meta::validate_non_negative(spec.get(field), &path.child(field), errors);
    }
    if non_null(spec, "maxFailedIndexes").is_some() && non_null(spec, "backoffLimitPerIndex").is_none() {
        errors.required(&path.child("backoffLimitPerIndex"), "when maxFailedIndexes is specified");
    }
    job_rules::managed_by(spec, path, errors);
    job_rules::completion_mode(spec, path, errors);
    job_rules::policies(spec, path, errors);
    let template = spec.get("template").unwrap_or(&Value::Null);
    let path = path.child("template");
    pod::validation::template(template, &path, errors);
    let policy = template.pointer("/spec/restartPolicy").and_then(Value::as_str).unwrap_or_default();
    let path = path.child("spec");
    let path = path.child("restartPolicy");
    match policy {
        "" | "Always" => errors.required(&path, "valid values: \"OnFailure\", \"Never\""),
        "OnFailure" if non_null(spec, "podFailurePolicy").is_some() => {
            errors.invalid(&path, policy, "only \"Never\" is supported when podFailurePolicy is specified");
        }
        "OnFailure" | "Never" => {}
        _ => errors.not_supported(&path, policy, &["OnFailure", "Never"]),
    }
}

/// Validates a cron job, except for its metadata.
pub(super) fn validate_cron_job(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let spec = spec_of(object);
    let schedule = meta::str_field(spec, "schedule");
    let path = SPEC.child("schedule");
    if schedule.is_empty() {
        errors.required(&path, "");
    } else {
        if let Err(why) = read_schedule(schedule) {
            errors.invalid(&path, schedule, why);
        }
        if schedule.contains("TZ") {
            errors.invalid(&path, schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead");
        }
    }
    meta::validate_non_negative(
        spec.get("startingDeadlineSeconds"),
        &SPEC.child("startingDeadlineSeconds"),
        &mut errors,
    );
    if let Some(zone) = non_null(spec, "timeZone").and_then(Value::as_str) {
        time_zone(zone, &SPEC.child("timeZone"), &mut errors);
    }
    let policy = meta::str_field(spec, "concurrencyPolicy");
    if !matches!(policy, "Allow" | "Forbid" | "Replace") {
        errors.not_supported(&SPEC.child("concurrencyPolicy"), policy, &["Allow", "Forbid", "Replace"]);
    }
    let path = SPEC.child("jobTemplate");
    let path = path.child("spec");
    let job = spec.pointer("/jobTemplate/spec").unwrap_or(&Value::Null);
    job_spec(job, &path, &mut errors);
    if let Some(selector) = non_null(job, "selector") {
        let shown = BadValue::Raw(meta::selector_json(Some(selector)));
        errors.invalid(&path.child("selector"), shown, "`selector` will be auto-generated");
    }
    if job.get("manualSelector") == Some(&json!(true)) {
        errors.not_supported(&path.child("manualSelector"), true, &["nil", "false"]);
    }
    for field in ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        meta::validate_non_negative(spec.get(field), &SPEC.child(field), &mut errors);
    }
    // The names of its jobs end with a time.
    let name = meta::name(object);
    if name.len() > MAX_NAME {
        errors.invalid(&Path::new("metadata").child("name"), name, "must be no more than 52 characters");
    }
    errors
}

/// Returns the warnings for a new job, or for an update that increments the generation.
pub(super) fn job_warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    warnings((new, old), spec_of(new), "spec")
}

/// Like [`job_warnings`] for the template of a cron job, and for updates with a time zone in the schedule.
pub(super) fn cron_job_warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    let spec = spec_of(new);
    let job = spec.pointer("/jobTemplate/spec").unwrap_or(&Value::Null);
    let mut warnings = warnings((new, old), job, "spec.jobTemplate.spec");
    if old.is_some() && meta::str_field(spec, "schedule").contains("TZ") {
        // The path is wrong in upstream's message too.
        let why = "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details";
        warnings.push(why.to_owned());
    }
    warnings
}

fn warnings((new, old): (&Value, Option<&Value>), job: &Value, path: &str) -> Vec<String> {
    /// Limits of completions and parallelism above which the status of an indexed job may grow too large.
    const MOST: (i64, i64) = (100_000, 10_000);
    if old.is_some_and(|old| meta::generation(old) == meta::generation(new)) {
        return Vec::new();
    }
    let mut warnings = Vec::from_iter(pod::warnings::name_warning(new).filter(|_| old.is_none()));
    let number = |field: &str| job.get(field).and_then(Value::as_i64).unwrap_or(0);
    let many = number("completions") > MOST.0 && number("parallelism") > MOST.1;
    if meta::str_field(job, "completionMode") == "Indexed" && many {
        warnings.push(format!(
            "{path}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
        ));
    }
    let template = job.get("template").unwrap_or(&Value::Null);
    warnings.extend(pod::warnings::pod_warnings(template, &format!("{path}.template")));
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

/// Names of months and days in schedules: field index, first number, names.
const NAMES: [(usize, i64, &[&str]); 2] = [
    (3, 1, &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]),
    (4, 0, &["sun", "mon", "tue", "wed", "thu", "fri", "sat"]),
];

/// Parses a schedule; only the error is of interest.
fn read_schedule(schedule: &str) -> Result<(), String> {
    const BOUNDS: [(i64, i64); 5] = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 6)];
    let plain = match schedule.split_once(' ') {
        Some((zone, rest)) if zone.starts_with("TZ=") || zone.starts_with("CRON_TZ=") => rest.trim(),
        _ => schedule,
    };
    if let Some(name) = plain.strip_prefix('@') {
        let known = ["yearly", "annually", "monthly", "weekly", "daily", "midnight", "hourly"].contains(&name);
        let known = known || name.starts_with("every ");
        return if known { Ok(()) } else { Err(format!("unrecognized descriptor: {plain}")) };
    }
    let fields: Vec<&str> = plain.split_whitespace().collect();
    if fields.len() != BOUNDS.len() {
        return Err(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
    }
    for (i, (field, bounds)) in fields.iter().zip(BOUNDS).enumerate() {
        field.split(',').filter(|part| !part.is_empty()).try_for_each(|part| read_range(part, i, bounds))?;
    }
    Ok(())
}

fn read_range(part: &str, field: usize, (least, most): (i64, i64)) -> Result<(), String> {
    let (range, step) = part.split_once('/').map_or((part, None), |(range, step)| (range, Some(step)));
    if step.is_some_and(|step| step.contains('/')) {
        return Err(format!("too many slashes: {part}"));
    }
    let number = |text: &str| {
        let lower = text.to_lowercase();
        let named = NAMES.iter().find(|(of, _, _)| *of == field).and_then(|(_, first, names)| {
            let at = names.iter().position(|name| *name == lower)?;
            Some(first + i64::try_from(at).ok()?)
        });
        named.map_or_else(|| parse_uint(text), Ok)
    };
    let (from, to) = match range.split_once('-') {
        _ if matches!(range, "*" | "?") => (least, most),
        Some((_, to)) if to.contains('-') => return Err(format!("too many hyphens: {part}")),
        Some((from, to)) => (number(from)?, number(to)?),
        None => {
            let from = number(range)?;
            (from, if step.is_some() { most } else { from })
        }
    };
    if step.map(parse_uint).transpose()? == Some(0) {
        return Err(format!("step of range should be a positive number: {part}"));
    }
    if from < least {
        return Err(format!("beginning of range ({from}) below minimum ({least}): {part}"));
    }
    if to > most {
        return Err(format!("end of range ({to}) above maximum ({most}): {part}"));
    }
    if from > to {
        return Err(format!("beginning of range ({from}) beyond end of range ({to}): {part}"));
    }
    Ok(())
}

fn parse_uint(text: &str) -> Result<i64, String> {
    match text.parse::<i64>() {
        Ok(number) if number >= 0 => Ok(number),
        Ok(number) => Err(format!("negative number ({number}) not allowed: {text}")),
        Err(_) => Err(format!("failed to parse int from {text}: strconv.Atoi: parsing \"{text}\": invalid syntax")),
    }
}

/// Validates the name of an indexed job: the pod name with the last index must be a DNS label.
pub(super) fn validate_indexed_job_name(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let spec = spec_of(object);
    let count = spec.get("completions").and_then(Value::as_i64).unwrap_or(0);
    if meta::str_field(spec, "completionMode") == "Indexed" && count > 0 {
        let (name, last) = (meta::name(object), format!("{}-{}", meta::name(object), count - 1));
        if !names::dns1123_label(&last).is_empty() {
            let why = format!("will not able to create pod with invalid DNS label: {last}");
            errors.invalid(&Path::new("metadata").child("name"), name, why);
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::hours("*/5 0-6 1,15 jan-mar sun", Ok(()))]
    #[case::descriptor("@hourly", Ok(()))]
    #[case::no_descriptor("@never", Err("unrecognized descriptor: @never"))]
    #[case::fields("bad", Err("expected exactly 5 fields, found 1: [bad]"))]
    #[case::above("60 * * * *", Err("end of range (60) above maximum (59): 60"))]
    #[case::no_number("x * * * *", Err("failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax"))]
    fn schedules(#[case] schedule: &str, #[case] expected: Result<(), &str>) {
        assert_eq!(read_schedule(schedule), expected.map_err(str::to_owned));
    }

    fn spec() -> Value {
        json!({"parallelism": 1, "completions": 1, "completionMode": "NonIndexed",
            "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {
            "containers": [{"name": "c", "image": "i", "imagePullPolicy": "Always", "terminationMessagePolicy": "File",
                "terminationMessagePath": "/dev/termination-log", "resources": {}}],
            "dnsPolicy": "ClusterFirst", "restartPolicy": "Never"}}})
    }

    #[rstest]
    #[case::fine("/parallelism", json!(2), &[])]
    #[case::negative("/parallelism", json!(-1), &["spec.parallelism: Invalid value: -1: must be greater than or equal to 0"])]
    #[case::mode("/completionMode", json!("Foo"), &["spec.completionMode: Unsupported value: \"Foo\": supported values: \"NonIndexed\", \"Indexed\""])]
    #[case::restarts("/template/spec/restartPolicy", json!("Always"),
        &["spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\""])]
    #[case::selector("/selector/matchLabels/a", json!("c"),
        &["spec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match template `labels`"])]
    fn jobs_are_refused(#[case] pointer: &str, #[case] value: Value, #[case] expected: &[&str]) {
        let mut spec = spec();
        *spec.pointer_mut(pointer).expect("there") = value;
        let errors = validate_job(&json!({"spec": spec}));
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_job_keeps_what_it_completes() {
        let (old, mut new) = (json!({"spec": spec()}), json!({"spec": spec()}));
        new["spec"]["completions"] = 5.into();
        let errors = validate_job_update(&new, &old);
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["spec.completions: Invalid value: 5: field is immutable"]);
    }

    #[test]
    fn limits_per_index_lift_the_limit_of_the_job() {
        let mut spec = Map::new();
        spec.insert("backoffLimitPerIndex", 1.into());
        default_failure_policy(&mut spec);
        assert_eq!(spec["backoffLimit"], i32::MAX);
    }
}
