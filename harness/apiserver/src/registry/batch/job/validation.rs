//! Validation and warnings of jobs, and of the job templates of cron jobs. See
//! `pkg/apis/batch/validation/validation.go`. PURE.

use crate::field_errors::{BadValue, ErrorList, Path};
use crate::json::fields::{
    array_field, is_empty_value, non_null, object_or_insert, semantic_equal, spec_of, str_field,
};
use crate::json::{Value, json};
use crate::metadata;
use crate::registry::batch::job::policies;
use crate::registry::core::internal_json;
use crate::registry::core::pod::{self, validation, warnings};
use crate::registry::{checks, conditions, label_selector, names};

const SPEC: Path<'static> = Path::new("spec");

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

/// Validates an update of a job, except for its metadata. See `ValidateJobSpecUpdate`.
pub(super) fn validate_job_update(new: &Value, old: &Value) -> ErrorList {
    let mut errors = validate_job(new);
    let now = spec_of(new);
    let before = spec_of(old);
    let keep = |field: &str, errors: &mut ErrorList| {
        checks::validate_immutable(now.get(field), before.get(field), &SPEC.child(field), errors);
    };
    // Policies are shown as the internal type that they become.
    let keep_policy = |field: &str, kind: &str, errors: &mut ErrorList| {
        internal_json::immutable(kind, now.get(field), before.get(field), &SPEC.child(field), errors);
    };
    let completions = non_null(now, "completions");
    if str_field(now, "completionMode") != "Indexed" {
        keep("completions", &mut errors);
    } else if completions.is_some() && completions != before.get("completions") && completions != now.get("parallelism")
    {
        let why = "can only be modified in tandem with spec.parallelism";
        errors.invalid(&SPEC.child("completions"), BadValue::from(completions), why);
    }
    keep("selector", &mut errors);
    template_update(now, old, &mut errors);
    keep("completionMode", &mut errors);
    keep_policy("podFailurePolicy", "*PodFailurePolicy", &mut errors);
    keep("backoffLimitPerIndex", &mut errors);
    keep("managedBy", &mut errors);
    keep_policy("successPolicy", "*SuccessPolicy", &mut errors);
    errors
}

/// Validates the change of a job's template: it may be scheduled in another way and have other resources while the job
/// is suspended and has no pods, and is immutable otherwise. See `validatePodTemplateUpdate` and, in the strategy,
/// `shouldAllowMutablePodTemplate`.
fn template_update(now: &Value, old: &Value, errors: &mut ErrorList) {
    let before = spec_of(old);
    let status = old.get("status").unwrap_or(&Value::Null);
    let suspended = before["suspend"] == true;
    let idle = non_null(status, "startTime").is_none() || conditions::is_true(status, "Suspended");
    let mutable = suspended && idle && status.get("active").and_then(Value::as_i64).unwrap_or(0) == 0;
    let template = now.get("template").unwrap_or(&Value::Null);
    let mut expected = before.get("template").cloned().unwrap_or_default();
    if mutable {
        take_scheduling(&mut expected, template);
        take_resources(&mut expected["spec"], &template["spec"]);
        if !semantic_equal(template.get("spec"), expected.get("spec")) {
            let shown = BadValue::Raw(internal_json::compact("PodSpec", &template["spec"]));
            errors.invalid(&SPEC.child("template.spec"), shown, checks::IMMUTABLE_MESSAGE);
        }
    } else if !semantic_equal(Some(template), Some(&expected)) {
        let shown = BadValue::Raw(pod::template_text(template));
        errors.invalid(&SPEC.child("template"), shown, checks::IMMUTABLE_MESSAGE);
    }
}

/// Replaces the affinity to nodes and other directives of a template by those of another.
fn take_scheduling(template: &mut Value, other: &Value) {
    const NODES: &str = "nodeAffinity";
    let wanted = non_null(&other["spec"], "affinity");
    let affinity = match (wanted, non_null(&template["spec"], "affinity")) {
        (None, None) => None,
        (Some(wanted), None) => Some(wanted.get(NODES).map_or_else(|| json!({}), |nodes| json!({NODES: nodes}))),
        (wanted, Some(known)) => {
            let mut known = known.clone();
            match (wanted.and_then(|wanted| wanted.get(NODES)), known.as_object_mut()) {
                (Some(nodes), Some(known)) => drop(known.insert(NODES, nodes.clone())),
                (None, Some(known)) => drop(known.remove(NODES)),
                (_, None) => {}
            }
            Some(known).filter(|known| wanted.is_some() || !is_empty_value(Some(known)))
        }
    };
    let mut set = |part: &str, field: &str, value: Option<Value>| {
        let Some(part) = object_or_insert(template, part) else { return };
        match value {
            Some(value) => drop(part.insert(field.to_owned(), value)),
            None => drop(part.remove(field)),
        }
    };
    set("spec", "affinity", affinity);
    for (part, field) in [
        ("spec", "nodeSelector"),
        ("spec", "tolerations"),
        ("spec", "schedulingGates"),
        ("metadata", "annotations"),
        ("metadata", "labels"),
    ] {
        set(part, field, other[part].get(field).cloned());
    }
}

/// Replaces the resources of containers by those of the containers with the same names and places in another spec.
fn take_resources(spec: &mut Value, other: &Value) {
    for list in ["containers", "initContainers"] {
        let wanted = array_field(other, list);
        let Some(known) = spec.get_mut(list).and_then(Value::as_array_mut) else { continue };
        if known.len() != wanted.len() {
            continue;
        }
        for (known, wanted) in known.iter_mut().zip(wanted).filter(|(known, wanted)| known["name"] == wanted["name"]) {
            known["resources"] = wanted["resources"].clone();
        }
    }
}

/// Validates the selector and the labels of a job, unless it has its own selector: `validateGeneratedSelector`. Jobs
/// whose template was without the prefixed labels need none: `validationOptionsForJob`.
pub(super) fn validate_generated_selector(job: &Value, old: Option<&Value>) -> ErrorList {
    let mut errors = ErrorList::new();
    let spec = spec_of(job);
    if spec["manualSelector"] == true || non_null(spec, "selector").is_none() {
        return errors;
    }
    let (uid, name) = (metadata::uid(job), metadata::name(job));
    let expected = [
        ("controller-uid", uid),
        ("job-name", name),
        ("batch.kubernetes.io/controller-uid", uid),
        ("batch.kubernetes.io/job-name", name),
    ];
    let labels = spec.pointer("/template/metadata/labels");
    let before = old.map(|old| &spec_of(old)["template"]["metadata"]["labels"]);
    let has_prefixed = |labels: &Value| expected[2..].iter().all(|(key, _)| labels.get(*key).is_some());
    let required = if before.is_none_or(has_prefixed) { &expected[..] } else { &expected[..2] };
    let path = SPEC.child("template");
    let path = path.child("metadata");
    let path = path.child("labels");
    for (key, value) in required.iter().copied() {
        let why = format!("must be '{value}'");
        match labels.and_then(|labels| labels.get(key)) {
            None => errors.required(&path.key(key), why),
            Some(found) if found != value => errors.invalid(&path.key(key), BadValue::from(labels), why),
            Some(_) => {}
        }
    }
    let generated: Value = required.iter().copied().map(|(key, value)| (key.to_owned(), Value::from(value))).collect();
    if label_selector::matches(spec.get("selector"), Some(&generated)) == Some(false) {
        let shown = BadValue::Raw(label_selector::selector_json(spec.get("selector")));
        errors.invalid(&SPEC.child("selector"), shown, "`selector` not auto-generated");
    }
    errors
}

/// Validates the spec of a job or of a job template.
pub(in crate::registry) fn job_spec(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    for field in COUNTS {
        checks::validate_non_negative(spec.get(field), &path.child(field), errors);
    }
    if non_null(spec, "maxFailedIndexes").is_some() && non_null(spec, "backoffLimitPerIndex").is_none() {
        errors.required(&path.child("backoffLimitPerIndex"), "when maxFailedIndexes is specified");
    }
    policies::managed_by(spec, path, errors);
    policies::completion_mode(spec, path, errors);
    policies::policies(spec, path, errors);
    let template = spec.get("template").unwrap_or(&Value::Null);
    let path = path.child("template");
    validation::template(template, &path, errors);
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

/// Returns the warnings for a new job, or for an update that increments the generation.
pub(super) fn job_warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    template_warnings((new, old), spec_of(new), "spec")
}

/// Returns the warnings for a job or a job template at `path`: for a new object, or an update that increments the
/// generation.
pub(in crate::registry) fn template_warnings(
    (new, old): (&Value, Option<&Value>),
    job: &Value,
    path: &str,
) -> Vec<String> {
    /// Limits of completions and parallelism above which the status of an indexed job may grow too large.
    const MOST: (i64, i64) = (100_000, 10_000);
    if old.is_some_and(|old| metadata::generation(old) == metadata::generation(new)) {
        return Vec::new();
    }
    let mut warnings = Vec::from_iter(warnings::name_warning(new).filter(|_| old.is_none()));
    let number = |field: &str| job.get(field).and_then(Value::as_i64).unwrap_or(0);
    let many = number("completions") > MOST.0 && number("parallelism") > MOST.1;
    if str_field(job, "completionMode") == "Indexed" && many {
        warnings.push(format!(
            "{path}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
        ));
    }
    let template = job.get("template").unwrap_or(&Value::Null);
    warnings.extend(warnings::pod_warnings(template, &format!("{path}.template")));
    warnings
}

/// Validates the name of an indexed job: the pod name with the last index must be a DNS label.
pub(super) fn validate_indexed_job_name(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let spec = spec_of(object);
    let count = spec.get("completions").and_then(Value::as_i64).unwrap_or(0);
    if str_field(spec, "completionMode") == "Indexed" && count > 0 {
        let name = metadata::name(object);
        let last = format!("{}-{}", metadata::name(object), count - 1);
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
    use crate::registry::batch::job::Job;
    use crate::registry::strategy::Strategy as _;

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
        let old = json!({"spec": spec()});
        let mut new = json!({"spec": spec()});
        new["spec"]["completions"] = 5.into();
        let errors = validate_job_update(&new, &old);
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["spec.completions: Invalid value: 5: field is immutable"]);
    }

    /// The texts of a kube-apiserver 1.36.2; an invalid spec is reported twice.
    #[rstest]
    #[case::another_failure_policy(json!({"podFailurePolicy": {"rules": [{"action": "Ignore",
        "onExitCodes": {"operator": "In", "values": [1, 2]}}]}}), &["spec.podFailurePolicy: Invalid value: \
        {\"Rules\":[{\"Action\":\"Ignore\",\"OnExitCodes\":{\"ContainerName\":null,\"Operator\":\"In\",\"Values\":[1,2]},\
        \"OnPodConditions\":null}]}: field is immutable"])]
    #[case::no_failure_policy(json!({"podFailurePolicy": null, "completions": 3}), &[
        "spec.completions: Invalid value: 3: can only be modified in tandem with spec.parallelism",
        "spec.podFailurePolicy: Invalid value: null: field is immutable"])]
    #[case::another_success_policy(json!({"parallelism": -1, "successPolicy": {"rules": [{"succeededIndexes": "0"},
        {"succeededCount": 1}]}}), &[
        "spec.parallelism: Invalid value: -1: must be greater than or equal to 0",
        "spec.parallelism: Invalid value: -1: must be greater than or equal to 0",
        "spec.successPolicy: Invalid value: {\"Rules\":[{\"SucceededIndexes\":\"0\",\"SucceededCount\":null},\
        {\"SucceededIndexes\":null,\"SucceededCount\":1}]}: field is immutable"])]
    #[case::another_mode(json!({"completionMode": "NonIndexed", "managedBy": "example.com/x"}), &[
        "spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode",
        "spec.successPolicy: Invalid value: {\"Rules\":[{\"SucceededIndexes\":\"0\",\"SucceededCount\":null}]}: requires \
        indexed completion mode",
        "spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode",
        "spec.successPolicy: Invalid value: {\"Rules\":[{\"SucceededIndexes\":\"0\",\"SucceededCount\":null}]}: requires \
        indexed completion mode",
        "spec.completionMode: Invalid value: \"NonIndexed\": field is immutable",
        "spec.managedBy: Invalid value: \"example.com/x\": field is immutable"])]
    fn an_indexed_job_keeps_its_policies(#[case] change: Value, #[case] expected: &[&str]) {
        let mut old = json!({"metadata": {"name": "upd", "namespace": "n", "uid": "u", "resourceVersion": "1"},
            "spec": spec()});
        let policies = json!({"completions": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 1,
            "manualSelector": true, "successPolicy": {"rules": [{"succeededIndexes": "0"}]}, "podFailurePolicy": {"rules":
            [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]}});
        let put = |object: &mut Value, changed: &Value| {
            for (field, value) in changed.as_object().expect("fields") {
                object["spec"][field.as_str()] = value.clone();
            }
        };
        put(&mut old, &policies);
        let mut new = old.clone();
        put(&mut new, &change);
        let errors = Job.validate_update(&new, &old);
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
    }

    /// `TestValidateJobUpdate` next to upstream's file.
    #[rstest]
    #[case::scheduling("/nodeSelector", json!({"a": "b"}), json!({}), true, &[])]
    #[case::affinity("/affinity", json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}), json!({}), true, &[])]
    #[case::affinity_to_pods("/affinity", json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}),
        json!({}), true, &["spec.template.spec"])]
    #[case::resources("/containers/0/resources", json!({"limits": {"cpu": "1"}}), json!({}), true, &[])]
    #[case::image("/containers/0/image", json!("j"), json!({}), true, &["spec.template.spec"])]
    #[case::stopped("/nodeSelector", json!({"a": "b"}),
        json!({"startTime": "x", "conditions": [{"type": "Suspended", "status": "True"}]}), true, &[])]
    #[case::stopping("/nodeSelector", json!({"a": "b"}), json!({"startTime": "x"}), true, &["spec.template"])]
    #[case::running("/nodeSelector", json!({"a": "b"}), json!({}), false, &["spec.template"])]
    fn the_template_of_a_suspended_job_changes(
        #[case] pointer: &str,
        #[case] value: Value,
        #[case] status: Value,
        #[case] suspend: bool,
        #[case] expected: &[&str],
    ) {
        let mut before = spec();
        before["suspend"] = suspend.into();
        let mut after = before.clone();
        let mut place = &mut after["template"]["spec"];
        for step in pointer.split('/').skip(1) {
            place = match step.parse::<usize>() {
                Ok(index) => &mut place[index],
                Err(_) => &mut place[step],
            };
        }
        *place = value;
        let mut errors = ErrorList::new();
        template_update(&after, &json!({"spec": before, "status": status}), &mut errors);
        assert_eq!(errors.iter().map(|error| error.field.as_str()).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn selectors_are_generated() {
        let labels = json!({"a": "b", "controller-uid": "u", "job-name": "x"});
        let job = json!({"metadata": {"name": "j", "uid": "u"}, "spec": {"selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": labels}}}});
        let errors: Vec<String> = validate_generated_selector(&job, None).iter().map(ToString::to_string).collect();
        assert_eq!(
            errors,
            [
                "spec.template.metadata.labels[job-name]: Invalid value: {\"a\":\"b\",\"controller-uid\":\"u\",\"job-name\":\"x\"}: must be 'j'",
                "spec.template.metadata.labels[batch.kubernetes.io/controller-uid]: Required value: must be 'u'",
                "spec.template.metadata.labels[batch.kubernetes.io/job-name]: Required value: must be 'j'",
                "spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"b\"}}: `selector` not auto-generated",
            ]
        );
        let of_old_labels = validate_generated_selector(&job, Some(&job));
        let fields: Vec<&str> = of_old_labels.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(fields, ["spec.template.metadata.labels[job-name]", "spec.selector"]);
    }
}
