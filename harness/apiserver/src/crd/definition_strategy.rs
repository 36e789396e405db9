//! Strategy of `CustomResourceDefinition` objects: defaults, validation, immutable fields. Follows
//! `pkg/registry/customresourcedefinition/strategy.go` and `pkg/apis/apiextensions/validation/validation.go` in
//! `staging/src/k8s.io/apiextensions-apiserver` of Kubernetes 1.36. PURE.

use std::sync::LazyLock;

use regex::Regex;

use super::formats::format_of;
use super::root_schema::check_root;
use super::selectable_fields::validate_selectable;
use super::structural_schema::{SchemaOptions, has_extensions, is_structural, validate_schema};
use super::text_fields::text;
use super::version_fields::{internal_versions, is_shared, non_empty_field};
use super::{ca_bundle, names};
use crate::field_errors::{BadValue, ErrorList, Path};
use crate::go_url::Url;
use crate::json::fields::value_default;
use crate::json::{Value, json};
use crate::metadata;
use crate::registry::admissionregistration::webhooks::{client_config, review_versions};
use crate::registry::prepare::{copy_field, set_generation};
use crate::registry::{NameFormat, Strategy, StrategyContext, checks, meta, names as name_rules};
use crate::status::go_quote;

/// The strategy of definitions.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DefinitionStrategy;

impl Strategy for DefinitionStrategy {
    fn default(&self, object: &mut Value) {
        let stored = stored_versions(&object["spec"]);
        let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return };
        if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
            let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
            let is_empty = |value: &Value| value.as_str() == Some("");
            if !kind.is_empty() && names.get("singular").is_none_or(is_empty) {
                names.insert("singular", json!(kind.to_lowercase()));
            }
            if !kind.is_empty() && names.get("listKind").is_none_or(is_empty) {
                names.insert("listKind", json!(format!("{kind}List")));
            }
        }
        if spec.get("conversion").is_none_or(Value::is_null) {
            spec.insert("conversion", json!({"strategy": "None"}));
        }
        if let Some(Value::Object(service)) = object.pointer_mut("/spec/conversion/webhook/clientConfig/service") {
            value_default(service, "port", 443);
        }
        if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut)
            && status.get("storedVersions").and_then(Value::as_array).is_none_or(Vec::is_empty)
            && !stored.is_empty()
        {
            status.insert("storedVersions", json!(stored));
        }
    }

    fn prepare_for_create(&self, object: &mut Value, _ctx: &StrategyContext<'_>) {
        let stored = stored_versions(&object["spec"]);
        let stored = if stored.is_empty() { Value::Null } else { json!(stored) };
        if let Some(fields) = object.as_object_mut() {
            let status =
                json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored});
            fields.insert("status", status);
        }
        set_generation(object, 1);
    }

    fn validate(&self, object: &Value) -> ErrorList {
        validate_new(object, RequestVersion::V1)
    }

    fn warnings_on_create(&self, object: &Value) -> Vec<String> {
        unknown_formats(&object["spec"]).into_iter().map(warn_of_format).collect()
    }

    fn warnings_on_update(&self, new: &Value, old: &Value) -> Vec<String> {
        let known = unknown_formats(&old["spec"]);
        let added = unknown_formats(&new["spec"]).into_iter().filter(|format| !known.contains(format));
        added.map(warn_of_format).collect()
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value, _ctx: &StrategyContext<'_>) {
        copy_field(new, old, "status");
        let changed = new.get("spec") != old.get("spec");
        set_generation(new, metadata::generation(old) + i64::from(changed));
        let stored = stored_versions(&new["spec"]);
        if let Some(known) = new.pointer_mut("/status/storedVersions").and_then(Value::as_array_mut) {
            for version in stored {
                if !known.iter().any(|one| one.as_str() == Some(&version)) {
                    known.push(json!(version));
                }
            }
        }
    }

    fn validate_update(&self, new: &Value, old: &Value) -> ErrorList {
        validate_replacement(new, old, RequestVersion::V1)
    }

    fn validate_status_update(&self, new: &Value, _old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        validate_given_names(&new["status"]["acceptedNames"], "status.acceptedNames", &mut errors);
        errors
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }
}

/// The version of a request for definitions. Objects are in the form of `v1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestVersion {
    /// `v1`, with all rules.
    V1,
    /// `v1beta1`, with the rules of Kubernetes 1.21.
    V1Beta1,
}

/// Validates a new definition.
pub(super) fn validate_new(object: &Value, version: RequestVersion) -> ErrorList {
    let spec = &object["spec"];
    let wanted = format!("{}.{}", text(&spec["names"], "plural"), text(spec, "group"));
    let wrong = |name: &str, prefix| {
        let mut wrong = name_rules::object_name(NameFormat::Subdomain, name, prefix);
        if name != wanted {
            wrong.push("must be spec.names.plural+\".\"+spec.group".to_owned());
        }
        wrong
    };
    let mut errors = meta::validate_named(object, false, wrong, &Path::new("metadata"));
    validate_spec(spec, None, version, &mut errors);
    validate_stored_versions(object, &mut errors);
    if version == RequestVersion::V1 {
        validate_approval(object, &mut errors);
        validate_preserving(spec, &mut errors);
    }
    errors
}

/// Validates an update of a definition.
pub(super) fn validate_replacement(new: &Value, old: &Value, version: RequestVersion) -> ErrorList {
    let mut errors = meta::validate_update(new, old, &Path::new("metadata"));
    validate_spec(&new["spec"], Some(&old["spec"]), version, &mut errors);
    validate_ca_bundle(new, old, &mut errors);
    let mut immutable = |pointer: &str, field: &str| {
        checks::validate_immutable(new.pointer(pointer), old.pointer(pointer), &Path::new(field), &mut errors);
    };
    if names::is_established(old) {
        immutable("/spec/scope", "spec.scope");
        immutable("/spec/names/kind", "spec.names.kind");
    }
    immutable("/spec/group", "spec.group");
    immutable("/spec/names/plural", "spec.names.plural");
    validate_stored_versions(new, &mut errors);
    if version == RequestVersion::V1 && approval(new) != approval(old) {
        validate_approval(new, &mut errors);
    }
    if version == RequestVersion::V1 && !is_preserving(&old["spec"]) {
        validate_preserving(&new["spec"], &mut errors);
    }
    errors
}

/// Returns the storage version, as the initial value of `status.storedVersions`.
pub(super) fn stored_versions(spec: &Value) -> Vec<String> {
    let versions = spec["versions"].as_array().into_iter().flatten();
    versions
        .filter(|version| version["storage"] == json!(true))
        .map(|version| text(version, "name").to_owned())
        .take(1)
        .collect()
}

fn approval(object: &Value) -> Option<&str> {
    metadata::annotation(object, "api-approved.kubernetes.io")
}

/// Returns true for `k8s.io`, `kubernetes.io` and groups below them. Their definitions need an approval annotation: the
/// URL of a review, or a text that begins with `unapproved`.
pub(super) fn is_protected(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"].iter().any(|suffix| group == *suffix || group.ends_with(&format!(".{suffix}")))
}

fn validate_approval(object: &Value, errors: &mut ErrorList) {
    const WHERE: &str = "metadata.annotations[api-approved.kubernetes.io]";
    const HELP: &str = "see https://github.com/kubernetes/enhancements/pull/1111";
    const MUST: &str = "protected groups must have approval annotation \"api-approved.kubernetes.io\"";
    if !is_protected(text(&object["spec"], "group")) {
        return;
    }
    match approval(object).unwrap_or_default() {
        "" => errors.required(&Path::new(WHERE), format!("{MUST}, {HELP}")),
        value if value.starts_with("unapproved") || is_url(value) => {}
        value => {
            let why = format!("{MUST} with either a URL or a reason starting with \"unapproved\", {HELP}");
            errors.invalid(&Path::new(WHERE), value, why);
        }
    }
}

fn is_url(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| !url.host.is_empty() && !url.scheme.is_empty())
}

/// Returns true if a schema declares a default at any depth.
fn has_default(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => {
            fields.get("default").is_some_and(|default| !default.is_null()) && fields.contains_key("type")
                || fields.values().any(has_default)
        }
        Value::Array(items) => items.iter().any(has_default),
        _ => false,
    }
}

/// Returns true if custom resources keep fields that their schema does not have.
pub(super) fn is_preserving(spec: &Value) -> bool {
    spec["preserveUnknownFields"] == json!(true)
}

fn validate_preserving(spec: &Value, errors: &mut ErrorList) {
    if is_preserving(spec) {
        let why =
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.invalid(&Path::new("spec.preserveUnknownFields"), true, why);
    }
}

fn validate_stored_versions(object: &Value, errors: &mut ErrorList) {
    let path = Path::new("status.storedVersions");
    let stored = object.pointer("/status/storedVersions").filter(|stored| !stored.is_null());
    let mut left: Vec<&str> =
        stored.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    if left.is_empty() {
        errors.invalid(&path, stored, "must have at least one stored version");
        return;
    }
    let all = left.clone();
    for version in object["spec"]["versions"].as_array().into_iter().flatten() {
        let name = text(version, "name");
        let known = left.contains(&name);
        if version["storage"] == json!(true) && !known {
            errors.invalid(&path, stored, format!("must have the storage version {name}"));
        }
        left.retain(|one| *one != name);
    }
    for (index, name) in all.iter().enumerate().filter(|(_, name)| left.contains(name)) {
        let why = format!(
            "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
        );
        errors.invalid(&path.index(index), *name, why);
    }
}

/// The rules for the versions of a definition.
#[derive(Debug, Clone, Copy)]
struct SpecRules<'a> {
    schemas: SchemaOptions,
    /// Each version needs a schema.
    schema_required: bool,
    /// Custom resources keep unknown fields although a schema has defaults.
    keeps_with_defaults: bool,
    /// True if the status is a subresource in a version.
    status: bool,
    /// The spec before an update.
    old: Option<&'a Value>,
}

impl<'a> SpecRules<'a> {
    fn new(spec: &Value, old: Option<&'a Value>, version: RequestVersion) -> Self {
        let is_v1 = version == RequestVersion::V1;
        let stored = old.map_or(SchemaOptions::ALL, |old| SchemaOptions::for_update(schemas_of(old)));
        let defaults = is_v1 || old.is_some_and(|old| schemas_of(old).any(has_default));
        let keeps_with_defaults = is_preserving(spec) && defaults && schemas_of(spec).any(has_default);
        let structural = !is_preserving(spec)
            || keeps_with_defaults
            || schemas_of(spec).any(has_extensions)
            || is_v1 && old.is_none_or(|old| schemas_of(old).all(is_structural));
        let has_status = |version: &Value| version.pointer("/subresources/status").is_some_and(|one| !one.is_null());
        let has_schemas = |old: &Value| schemas_of(old).count() == versions_of(old).len();
        Self {
            schemas: SchemaOptions { structural, defaults, known_types: is_v1 && stored.known_types, ..stored },
            schema_required: is_v1 && old.is_none_or(has_schemas),
            keeps_with_defaults,
            status: versions_of(spec).iter().any(has_status),
            old,
        }
    }
}

/// Returns the schemas of a definition's versions.
fn schemas_of(spec: &Value) -> impl Iterator<Item = &Value> + Clone {
    versions_of(spec)
        .iter()
        .filter_map(|version| version.pointer("/schema/openAPIV3Schema").filter(|one| !one.is_null()))
}

fn validate_spec(spec: &Value, old: Option<&Value>, version: RequestVersion, errors: &mut ErrorList) {
    let rules = SpecRules::new(spec, old, version);
    let group = text(spec, "group");
    let malformed = name_rules::dns1123_subdomain(group);
    if group.is_empty() {
        errors.required(&Path::new("spec.group"), "");
    } else if !malformed.is_empty() {
        errors.invalid(&Path::new("spec.group"), group, malformed.join(","));
    } else if !group.contains('.') {
        errors.invalid(&Path::new("spec.group"), group, "should be a domain with at least one dot");
    }
    match text(spec, "scope") {
        "" => errors.required(&Path::new("spec.scope"), ""),
        "Cluster" | "Namespaced" => {}
        other => errors.not_supported(&Path::new("spec.scope"), other, &["Cluster", "Namespaced"]),
    }
    validate_versions(spec, &rules, errors);
    validate_names(&spec["names"], errors);
    validate_shared(spec, &rules, errors);
    let strategy = text(&spec["conversion"], "strategy");
    if is_preserving(spec) && strategy != "None" {
        let why = "must be None if spec.preserveUnknownFields is true";
        errors.invalid(&Path::new("spec.conversion.strategy"), strategy, why);
    }
    validate_conversion(&spec["conversion"], errors);
}

fn versions_of(spec: &Value) -> &[Value] {
    spec["versions"].as_array().map_or(&[], Vec::as_slice)
}

fn has_schema(version: &Value) -> bool {
    version.pointer("/schema/openAPIV3Schema").is_some_and(|schema| !schema.is_null())
}

fn validate_shared(spec: &Value, rules: &SpecRules<'_>, errors: &mut ErrorList) {
    let versions = versions_of(spec);
    let Some(first) = versions.first() else { return };
    if is_shared(versions, "schema") {
        validate_schema_of(first, "spec.validation.openAPIV3Schema", rules, errors);
    }
    if is_shared(versions, "subresources") {
        validate_subresources(first, "spec", errors);
    }
    if is_shared(versions, "additionalPrinterColumns") {
        validate_columns(first, "spec", errors);
    }
    if is_shared(versions, "selectableFields") {
        let has_schema = is_shared(versions, "schema") && has_schema(first);
        if has_schema {
            validate_selectable(first, "spec", rules.old, errors);
        } else if non_empty_field(first, "selectableFields").is_some() {
            let why = "may only be set when validations.schema is included";
            errors.invalid(&Path::new("spec.selectableFields"), "", why);
        }
    }
}

fn validate_versions(spec: &Value, rules: &SpecRules<'_>, errors: &mut ErrorList) {
    let versions = versions_of(spec);
    for (index, version) in versions.iter().enumerate() {
        if version.pointer("/schema/openAPIV3Schema").is_none_or(Value::is_null) {
            let path = format!("spec.versions[{index}].schema.openAPIV3Schema");
            if rules.schema_required {
                errors.required(&Path::new(&path), "");
            } else if !is_preserving(spec) && version["served"] == json!(true) {
                errors.required(&Path::new(&path), "because otherwise all fields are pruned");
            }
        }
    }
    if rules.keeps_with_defaults {
        let why = "must be false in order to use defaults in the schema";
        errors.invalid(&Path::new("spec.preserveUnknownFields"), true, why);
    }
    for (index, version) in versions.iter().enumerate() {
        let prefix = format!("spec.versions[{index}]");
        let malformed = name_rules::dns1035_label(text(version, "name"));
        if !malformed.is_empty() {
            errors.invalid(&Path::new(&format!("{prefix}.name")), text(version, "name"), malformed.join(","));
        }
        validate_deprecation(version, &prefix, errors);
        if !is_shared(versions, "schema") {
            validate_schema_of(version, &format!("{prefix}.schema.openAPIV3Schema"), rules, errors);
        }
        if !is_shared(versions, "subresources") {
            validate_subresources(version, &prefix, errors);
        }
        if !is_shared(versions, "additionalPrinterColumns") {
            validate_columns(version, &prefix, errors);
        }
        if !is_shared(versions, "selectableFields") {
            // Upstream looks for the schema where it has moved a common one away from: its message has it backwards.
            let has_schema = !is_shared(versions, "schema") && has_schema(version);
            if has_schema {
                validate_selectable(version, &prefix, rules.old, errors);
            } else if non_empty_field(version, "selectableFields").is_some() {
                let why = "may only be set when `version.schema.openAPIV3Schema` is not included";
                errors.invalid(&Path::new(&format!("{prefix}.selectableFields")), "", why);
            }
        }
    }
    let path = Path::new("spec.versions");
    let given = spec.get("versions").filter(|versions| !versions.is_null());
    let shown = || match given {
        Some(_) => BadValue::Raw(internal_versions(versions)),
        None => BadValue::from(given),
    };
    let mut version_names: Vec<&str> = versions.iter().map(|version| text(version, "name")).collect();
    version_names.sort_unstable();
    if version_names.windows(2).any(|pair| pair[0] == pair[1]) {
        errors.invalid(&path, shown(), "must contain unique version names");
    }
    if versions.iter().filter(|version| version["storage"] == json!(true)).count() != 1 {
        errors.invalid(&path, shown(), "must have exactly one version marked as storage version");
    }
    // The first version is also validated as `spec.version`, its name in v1beta1.
    if let Some(name) = versions.first().map(|version| text(version, "name")).filter(|name| !name.is_empty()) {
        let malformed = name_rules::dns1035_label(name);
        if !malformed.is_empty() {
            errors.invalid(&Path::new("spec.version"), name, malformed.join(","));
        }
    }
}

fn validate_deprecation(version: &Value, prefix: &str, errors: &mut ErrorList) {
    let Some(warning) = version.get("deprecationWarning").and_then(Value::as_str) else { return };
    let at = format!("{prefix}.deprecationWarning");
    let at = Path::new(&at);
    if version["deprecated"] != json!(true) {
        return errors.invalid(&at, warning, "can only be set for deprecated versions");
    }
    if warning.len() > 256 {
        errors.invalid(&at, warning, "must be <= 256 characters long");
    }
    if warning.is_empty() {
        errors.invalid(&at, warning, "must not be an empty string");
    }
    if let Some(index) = first_unprintable(warning) {
        let why =
            format!("must only contain printable UTF-8 characters; non-printable character found at index {index}");
        errors.invalid(&at, warning, why);
    }
}

/// Returns the index of the first character that Go's `unicode.IsPrint` refuses.
fn first_unprintable(text: &str) -> Option<usize> {
    const UNPRINTABLE: &str = r"[^\p{L}\p{M}\p{N}\p{P}\p{S} ]";
    static PATTERN: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(UNPRINTABLE).ok());
    PATTERN.as_ref()?.find(text).map(|found| found.start())
}

fn validate_conversion(conversion: &Value, errors: &mut ErrorList) {
    let path = Path::new("spec.conversion");
    let strategy = text(conversion, "strategy");
    match strategy {
        "" => errors.required(&path.child("strategy"), ""),
        "None" | "Webhook" => {}
        other => errors.not_supported(&path.child("strategy"), other, &["None", "Webhook"]),
    }
    let config = path.child("webhookClientConfig");
    let versions = path.child("conversionReviewVersions");
    let client = conversion.pointer("/webhook/clientConfig").filter(|client| !client.is_null());
    let listed = conversion.pointer("/webhook/conversionReviewVersions").and_then(Value::as_array);
    let listed = listed.filter(|listed| !listed.is_empty());
    if strategy != "Webhook" {
        if client.is_some() {
            errors.forbidden(&config, "should not be set when strategy is not set to Webhook");
        }
        if listed.is_some() {
            errors.forbidden(&versions, "should not be set when strategy is not set to Webhook");
        }
        return;
    }
    let given = |client: &Value, field: &str| client.get(field).is_some_and(|value| !value.is_null());
    match client {
        None => errors.required(&config, "required when strategy is set to Webhook"),
        Some(client) if given(client, "url") == given(client, "service") => {
            errors.required(&config, "exactly one of url or service is required");
        }
        Some(client) => {
            client_config(client, &config, errors);
        }
    }
    match listed {
        None => errors.required(&versions, ""),
        Some(listed) => review_versions(listed, &versions, errors),
    }
}

/// Requires an update to have usable certificates, unless it is of a definition that never had them.
fn validate_ca_bundle(new: &Value, old: &Value, errors: &mut ErrorList) {
    if !names::is_established(old) || ca_bundle::error_in(old).is_some() {
        return;
    }
    if let Some(why) = ca_bundle::error_in(new) {
        let shown = new.pointer("/spec/conversion/webhook/clientConfig/caBundle").unwrap_or(&Value::Null);
        errors.invalid(&Path::new("spec.conversion.webhookClientConfig.caBundle"), shown, why);
    }
}

fn warn_of_format(format: &str) -> String {
    format!("unrecognized format {}", go_quote(format))
}

/// Returns the formats in the versions' schemas that no validator checks.
fn unknown_formats(spec: &Value) -> Vec<&str> {
    let mut found = Vec::new();
    for version in spec["versions"].as_array().into_iter().flatten() {
        schema_formats(&version["schema"]["openAPIV3Schema"], &mut found);
    }
    found
}

fn schema_formats<'a>(schema: &'a Value, found: &mut Vec<&'a str>) {
    let format = text(schema, "format");
    if !format.is_empty() && format_of(schema).is_none() {
        found.push(format);
    }
    for part in ["items", "not", "additionalProperties"] {
        if schema[part].is_object() {
            schema_formats(&schema[part], found);
        }
    }
    for part in ["allOf", "anyOf", "oneOf"] {
        schema[part].as_array().into_iter().flatten().for_each(|schema| schema_formats(schema, found));
    }
    schema["properties"].as_object().into_iter().flatten().for_each(|(_, schema)| schema_formats(schema, found));
}

fn validate_names(names: &Value, errors: &mut ErrorList) {
    for field in ["plural", "singular", "kind", "listKind"] {
        if text(names, field).is_empty() {
            errors.required(&Path::new(&format!("spec.names.{field}")), "");
        }
    }
    validate_given_names(names, "spec.names", errors);
}

/// Validates the names that are not empty: `ValidateCustomResourceDefinitionNames`.
fn validate_given_names(names: &Value, path: &str, errors: &mut ErrorList) {
    let label = |errors: &mut ErrorList, field: &str, value: &str, mixed_case: bool| {
        let malformed = name_rules::dns1035_label(&if mixed_case { value.to_lowercase() } else { value.to_owned() });
        // Empty names are reported elsewhere, except in lists.
        if (!value.is_empty() || field.ends_with(']')) && !malformed.is_empty() {
            let prefix = if mixed_case { "may have mixed case, but should otherwise match: " } else { "" };
            errors.invalid(&Path::new(&format!("{path}.{field}")), value, format!("{prefix}{}", malformed.join(",")));
        }
    };
    label(errors, "plural", text(names, "plural"), false);
    label(errors, "singular", text(names, "singular"), false);
    label(errors, "kind", text(names, "kind"), true);
    label(errors, "listKind", text(names, "listKind"), true);
    let kind = text(names, "kind");
    for list in ["shortNames", "categories"] {
        if list == "categories" && !kind.is_empty() && kind == text(names, "listKind") {
            let path = format!("{path}.listKind");
            errors.invalid(&Path::new(&path), kind, "kind and listKind may not be the same");
        }
        for (index, name) in names[list].as_array().into_iter().flatten().filter_map(Value::as_str).enumerate() {
            label(errors, &format!("{list}[{index}]"), name, false);
        }
    }
}

fn validate_schema_of(version: &Value, path: &str, rules: &SpecRules<'_>, errors: &mut ErrorList) {
    if let Some(schema) = version.pointer("/schema/openAPIV3Schema").filter(|schema| schema.is_object()) {
        if rules.status {
            check_root(schema, path, errors);
        }
        validate_schema(schema, path, rules.schemas, errors);
    }
}

fn validate_subresources(version: &Value, prefix: &str, errors: &mut ErrorList) {
    if let Some(scale) = version.pointer("/subresources/scale").filter(|scale| scale.is_object()) {
        validate_scale(scale, &format!("{prefix}.subresources.scale"), errors);
    }
}

fn validate_columns(version: &Value, prefix: &str, errors: &mut ErrorList) {
    for (index, column) in version["additionalPrinterColumns"].as_array().into_iter().flatten().enumerate() {
        validate_column(column, &format!("{prefix}.additionalPrinterColumns[{index}]"), errors);
    }
}

fn validate_scale(scale: &Value, path: &str, errors: &mut ErrorList) {
    let rules = [
        ("specReplicasPath", ".spec", true),
        ("statusReplicasPath", ".status", true),
        ("labelSelectorPath", "", false),
    ];
    for (field, root, required) in rules {
        let value = text(scale, field);
        let at = format!("{path}.{field}");
        if value.is_empty() {
            if required {
                errors.required(&Path::new(&at), "");
            }
        } else if !value.starts_with('.') {
            errors.invalid(&Path::new(&at), value, "must be a simple json path starting with .");
        } else if !root.is_empty() && !value.starts_with(&format!("{root}.")) {
            errors.invalid(&Path::new(&at), value, format!("should be a json path under {root}"));
        } else if root.is_empty() && !value.starts_with(".spec.") && !value.starts_with(".status.") {
            errors.invalid(&Path::new(&at), value, "should be a json path under either .spec or .status");
        }
    }
}

fn validate_column(column: &Value, path: &str, errors: &mut ErrorList) {
    const KINDS: &str = "boolean,date,integer,number,string";
    const FORMATS: &str = "byte,date,date-time,double,float,int32,int64,password";
    if text(column, "name").is_empty() {
        errors.required(&Path::new(&format!("{path}.name")), "");
    }
    match text(column, "type") {
        "" => errors.required(&Path::new(&format!("{path}.type")), format!("must be one of {KINDS}")),
        kind if !KINDS.split(',').any(|known| known == kind) => {
            errors.invalid(&Path::new(&format!("{path}.type")), kind, format!("must be one of {KINDS}"));
        }
        _ => {}
    }
    let format = text(column, "format");
    if !format.is_empty() && !FORMATS.split(',').any(|known| known == format) {
        errors.invalid(&Path::new(&format!("{path}.format")), format, format!("must be one of {FORMATS}"));
    }
    match text(column, "jsonPath") {
        "" => errors.required(&Path::new(&format!("{path}.JSONPath")), ""),
        value if !value.starts_with('.') => {
            errors.invalid(
                &Path::new(&format!("{path}.JSONPath")),
                value,
                "must be a simple json path starting with .",
            );
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crd::tests::widgets;
    use rstest::rstest;

    fn errors(object: &Value) -> Vec<String> {
        let mut object = object.clone();
        object["status"] = json!({"storedVersions": stored_versions(&object["spec"])});
        DefinitionStrategy
            .validate(&object)
            .iter()
            .map(|error| format!("{}: {}", error.cause().field, error.cause().message))
            .collect()
    }

    /// A schema that all versions have is one of the spec, which no version can then select fields of; recorded from
    /// kube-apiserver 1.36.2.
    #[test]
    fn fields_of_a_common_schema_are_selected_by_all_versions() {
        let mut object = widgets();
        let mut first = object["spec"]["versions"][1].clone();
        first["name"] = "v2".into();
        first["storage"] = false.into();
        first["schema"]["openAPIV3Schema"]["properties"]["a"] = json!({"type": "string"});
        let mut second = first.clone();
        second["name"] = "v1".into();
        second["storage"] = true.into();
        first["selectableFields"] = json!([{"jsonPath": ".a"}]);
        object["spec"]["versions"] = json!([first, second]);
        let why = "spec.versions[0].selectableFields: Invalid value: \"\": may only be set when `version.schema.openAPIV3Schema` is not included";
        assert_eq!(errors(&object), [why]);
    }

    #[test]
    fn a_good_definition_is_fine() {
        assert_eq!(errors(&widgets()), Vec::<String>::new());
    }

    #[rstest]
    #[case("/metadata/name", json!("x"), "metadata.name: Invalid value: \"x\": must be spec.names.plural+\".\"+spec.group")]
    #[case("/spec/scope", json!("Bad"), "spec.scope: Unsupported value: \"Bad\": supported values: \"Cluster\", \"Namespaced\"")]
    #[case("/spec/versions/1/storage", json!(false), "must have exactly one version marked as storage version")]
    #[case("/spec/versions/1/name", json!("v1beta1"), "must contain unique version names")]
    #[case("/spec/versions/1/schema/openAPIV3Schema/type", json!(""),
        "spec.versions[1].schema.openAPIV3Schema.type: Required value: must not be empty at the root")]
    #[case("/spec/versions/1/schema/openAPIV3Schema/properties/spec/type", json!("foo"), "Unsupported value: \"foo\"")]
    #[case("/spec/versions/1/subresources/scale/specReplicasPath", json!("spec.replicas"), "must be a simple json path starting with .")]
    #[case("/spec/versions/1/additionalPrinterColumns/0/type", json!("bad"), "must be one of boolean,date,integer,number,string")]
    #[case("/spec/names/shortNames", json!([""]), "spec.names.shortNames[0]: Invalid value: \"\": a DNS-1035 label")]
    #[case("/spec/names/kind", json!("a b"), "may have mixed case, but should otherwise match: ")]
    fn bad_definitions(#[case] pointer: &str, #[case] value: Value, #[case] expected: &str) {
        let mut object = widgets();
        *object.pointer_mut(pointer).unwrap() = value;
        let found = errors(&object);
        assert!(found.iter().any(|error| error.contains(expected)), "{found:?}");
    }

    #[rstest]
    #[case(json!({"deprecated": true, "deprecationWarning": "use v2"}), &[])]
    #[case(json!({"deprecated": true, "deprecationWarning": "a\tb"}),
        &["must only contain printable UTF-8 characters; non-printable character found at index 1"])]
    #[case(json!({"deprecated": true, "deprecationWarning": "ä\u{a0}"}),
        &["must only contain printable UTF-8 characters; non-printable character found at index 2"])]
    #[case(json!({"deprecated": true, "deprecationWarning": ""}), &["must not be an empty string"])]
    #[case(json!({"deprecationWarning": "\t"}), &["can only be set for deprecated versions"])]
    fn deprecation_warnings(#[case] version: Value, #[case] expected: &[&str]) {
        let mut errors = ErrorList::new();
        validate_deprecation(&version, "v", &mut errors);
        assert_eq!(errors.iter().map(|error| error.detail.as_str()).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn the_root_is_limited_if_the_status_is_a_subresource() {
        let mut object = widgets();
        for version in object.pointer_mut("/spec/versions").and_then(Value::as_array_mut).into_iter().flatten() {
            version["subresources"]["status"] = json!({});
            version["schema"]["openAPIV3Schema"]["maxProperties"] = json!(9);
        }
        let found = errors(&object);
        assert!(found.iter().any(|error| error.contains("fields are allowed at the root of the schema")), "{found:?}");
    }

    #[test]
    fn unknown_formats_are_warned_about_once() {
        let mut object = widgets();
        let format = "/spec/versions/1/schema/openAPIV3Schema/properties/spec";
        object.pointer_mut(format).unwrap()["properties"] =
            json!({"a": {"type": "string", "format": "bogus"}, "b": {"type": "string", "format": "date-time"}});
        assert_eq!(DefinitionStrategy.warnings_on_create(&object), ["unrecognized format \"bogus\""]);
        assert_eq!(DefinitionStrategy.warnings_on_update(&object, &object), Vec::<String>::new());
    }

    #[test]
    fn names_are_defaulted() {
        let mut object = json!({"spec": {"names": {"plural": "xs", "kind": "MyX"}}});
        DefinitionStrategy.default(&mut object);
        assert_eq!(object["spec"]["names"]["singular"], "myx");
        assert_eq!(object["spec"]["names"]["listKind"], "MyXList");
        assert_eq!(object["spec"]["conversion"]["strategy"], "None");
    }
}
