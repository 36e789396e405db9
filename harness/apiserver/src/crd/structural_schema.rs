//! Validation of the schemas in definitions: supported keywords, structural schemas, valid defaults. PURE.
//!
//! Follows `pkg/apiserver/schema/validation.go`, `pkg/apiserver/schema/complete.go` and
//! `pkg/apis/apiextensions/validation/validation.go` in `staging/src/k8s.io/apiextensions-apiserver` of Kubernetes
//! 1.36.

use super::field_path::field_path;
use super::schema_defaults::{check_defaults, has_unpruned_default};
use super::text_fields::text;
use super::{cel, validate};
use crate::field_errors::{BadValue, ErrorList, FieldError, Path};
use crate::json::{Key, Map, Value, json};
use crate::registry::checks;

/// Deepest schema level that is visited.
const MAX_SCHEMA_DEPTH: usize = 100;
const TYPES: &[&str] = &["array", "boolean", "integer", "number", "object", "string"];
const UNSUPPORTED: [&str; 6] = ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"];
const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";
const LIST_TYPE: &str = "x-kubernetes-list-type";
const LIST_KEYS: &str = "x-kubernetes-list-map-keys";
const MAP_TYPE: &str = "x-kubernetes-map-type";

/// The position of a schema: the object itself, a list item or map value, or a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SchemaLevel {
    Root,
    Item,
    Field,
}

/// The reason why new definitions in `v1beta1` have no defaults.
const NO_DEFAULTS_IN_BETA: &str =
    "(cannot set default values in apiextensions.k8s.io/v1beta1 CRDs, must use apiextensions.k8s.io/v1)";

/// Rules that stored definitions, and those in `v1beta1`, may break: `validationOptions` of `validation.go`.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each is one of upstream's independent options")]
pub(super) struct SchemaOptions {
    /// Defaults must not have unknown fields.
    pub pruned_defaults: bool,
    /// Items of sets must be atomic.
    pub atomic_sets: bool,
    /// Items of sets and maps, and the keys of maps, must not be nullable; keys must be required or have a default.
    pub map_list_keys: bool,
    /// Types must be known.
    pub known_types: bool,
    /// Schemas must be structural.
    pub structural: bool,
    /// Defaults are allowed.
    pub defaults: bool,
}

impl SchemaOptions {
    /// All rules, as for new definitions.
    pub(super) const ALL: Self = Self {
        pruned_defaults: true,
        atomic_sets: true,
        map_list_keys: true,
        known_types: true,
        structural: true,
        defaults: true,
    };

    /// Returns the rules for an update of a definition: those that the schemas of its stored versions keep.
    pub(super) fn for_update<'s>(stored: impl Iterator<Item = &'s Value> + Clone) -> Self {
        let keeps = |broken: fn(&Value) -> bool| !stored.clone().any(|schema| schema_has(schema, 0, broken));
        Self {
            pruned_defaults: keeps(has_unpruned_default),
            atomic_sets: keeps(|schema| non_atomic_item(schema).is_some()),
            map_list_keys: keeps(|schema| {
                let mut errors = ErrorList::new();
                map_list_keys(schema, "", &mut errors);
                !errors.is_empty()
            }),
            known_types: keeps(has_unknown_type),
            ..Self::ALL
        }
    }
}

/// Returns true if a schema or a part of it is as given.
fn schema_has(schema: &Value, depth: usize, wanted: fn(&Value) -> bool) -> bool {
    let parts = ["items", "not", "additionalProperties"].into_iter().map(|field| &schema[field]);
    let lists = ["allOf", "anyOf", "oneOf"].into_iter().flat_map(|field| items(schema, field).map(|(_, part)| part));
    let mut all = parts.chain(lists).chain(properties(schema).map(|(_, part)| part));
    depth <= MAX_SCHEMA_DEPTH
        && schema.is_object()
        && (wanted(schema) || all.any(|part| schema_has(part, depth + 1, wanted)))
}

/// Returns true if a schema uses extensions of Kubernetes, which need a structural schema.
pub(super) fn has_extensions(schema: &Value) -> bool {
    const EXTENSIONS: [&str; 4] = [EMBEDDED, INT_OR_STRING, LIST_KEYS, "x-kubernetes-validations"];
    schema_has(schema, 0, |schema| {
        let is_given = |field: &str| !schema[field].is_null();
        is_given(PRESERVE) || is_given(LIST_TYPE) || EXTENSIONS.iter().any(|field| is_set(schema, field))
    })
}

/// Returns true if a schema is structural.
pub(super) fn is_structural(schema: &Value) -> bool {
    let mut errors = ErrorList::new();
    structural(schema, SchemaLevel::Root, "", 0, &mut errors);
    check_complete(schema, "", 0, &mut errors);
    is_convertible(schema, 0) && errors.is_empty()
}

fn has_unknown_type(schema: &Value) -> bool {
    let kind = text(schema, "type");
    !kind.is_empty() && !TYPES.contains(&kind)
}

/// Validates the schema of a version, whose path is `path`.
pub(super) fn validate_schema(schema: &Value, path: &str, options: SchemaOptions, errors: &mut ErrorList) {
    let no_defaults = (!options.defaults).then_some(NO_DEFAULTS_IN_BETA);
    let root = SchemaContext { options, depth: 0, root: true, inside_meta: false, no_defaults };
    if flag(schema, "nullable") {
        errors.forbidden(&Path::new(&format!("{path}.nullable")), "nullable cannot be true at the root");
    }
    let mut structure = ErrorList::new();
    if !options.structural || !is_convertible(schema, 0) {
        supported(schema, path, root, errors);
        return;
    }
    structural(schema, SchemaLevel::Root, path, 0, &mut structure);
    check_complete(schema, path, 0, &mut structure);
    if structure.is_empty() {
        check_defaults(schema, path, options.pruned_defaults, &mut structure);
    }
    let mut structure: Vec<_> = structure.into_iter().collect();
    structure.sort_by_cached_key(ToString::to_string);
    let sound = structure.is_empty();
    errors.extend(structure);
    let before = errors.len();
    supported(schema, path, root, errors);
    if sound && errors.len() == before {
        cel::check_schema(schema, path, errors);
    }
}

/// Returns true if a schema can be converted to a structural one; otherwise upstream reports no structural errors.
fn is_convertible(schema: &Value, depth: usize) -> bool {
    let unsupported = UNSUPPORTED.iter().chain(&["$schema"]).any(|field| is_unconvertible(schema, field));
    let parts = ["items", "not", "additionalProperties"].into_iter().map(|field| &schema[field]);
    let lists = ["allOf", "anyOf", "oneOf"].into_iter().flat_map(|field| items(schema, field).map(|(_, part)| part));
    let mut all = parts.chain(lists).chain(properties(schema).map(|(_, part)| part));
    depth > MAX_SCHEMA_DEPTH
        || !schema.is_object()
        || (!unsupported && items(schema, "items").next().is_none() && all.all(|part| is_convertible(part, depth + 1)))
}

fn flag(schema: &Value, field: &str) -> bool {
    schema[field] == json!(true)
}

fn properties(schema: &Value) -> impl Iterator<Item = (&Key, &Value)> + use<'_> {
    schema["properties"].as_object().into_iter().flatten()
}

fn members<'a>(schema: &'a Value, field: &str) -> impl Iterator<Item = (&'a Key, &'a Value)> + use<'a> {
    schema[field].as_object().into_iter().flatten()
}

fn items<'a>(schema: &'a Value, field: &str) -> impl Iterator<Item = (usize, &'a Value)> + use<'a> {
    schema[field].as_array().into_iter().flatten().enumerate()
}

/// Returns true if a keyword that is not supported is used. Some are used if they are empty.
fn is_used(schema: &Value, field: &str) -> bool {
    match field {
        "additionalItems" | "dependencies" | "$ref" => !schema[field].is_null(),
        _ => is_unconvertible(schema, field),
    }
}

/// Returns true if a keyword that is not supported has content: `validateUnsupportedFields` of upstream's conversion.
fn is_unconvertible(schema: &Value, field: &str) -> bool {
    match &schema[field] {
        Value::Object(map) => !map.is_empty() || field == "additionalItems",
        Value::Bool(_) => field == "additionalItems",
        _ => is_set(schema, field),
    }
}

fn is_set(schema: &Value, field: &str) -> bool {
    match &schema[field] {
        Value::Null => false,
        Value::Bool(set) => *set,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        _ => true,
    }
}

fn structural(schema: &Value, level: SchemaLevel, path: &str, depth: usize, errors: &mut ErrorList) {
    if depth > MAX_SCHEMA_DEPTH {
        return;
    }
    let at = |field: &str| format!("{path}.{field}");
    let kind = text(schema, "type");
    if kind == "array" && !schema["items"].is_object() {
        errors.required(&Path::new(&at("items")), "must be specified");
    }
    if schema["items"].is_object() {
        structural(&schema["items"], SchemaLevel::Item, &at("items"), depth + 1, errors);
    }
    for (name, property) in properties(schema) {
        structural(property, SchemaLevel::Field, &at(&format!("properties[{name}]")), depth + 1, errors);
    }
    let additional = &schema["additionalProperties"];
    if !additional.is_null() {
        if level == SchemaLevel::Root {
            errors.forbidden(&Path::new(&at("additionalProperties")), "must not be used at the root");
        }
        if additional.is_object() {
            structural(additional, SchemaLevel::Field, &at("additionalProperties"), depth + 1, errors);
        }
    }
    if flag(schema, INT_OR_STRING) {
        for other in [PRESERVE, EMBEDDED] {
            if flag(schema, other) {
                errors.invalid(&Path::new(&at(other)), true, "must be false if x-kubernetes-int-or-string is true");
            }
        }
    }
    let alternatives = json!([{"type": "integer"}, {"type": "string"}]);
    let first_all_of = schema["allOf"].get(0).is_some_and(|first| first["anyOf"] == alternatives);
    values(schema, schema["anyOf"] == alternatives, first_all_of, path, depth, errors);
    check_type(schema, level, path, errors);
    check_type_meta(schema, level, path, errors);
}

fn check_type(schema: &Value, level: SchemaLevel, path: &str, errors: &mut ErrorList) {
    let kind = text(schema, "type");
    let at = format!("{path}.type");
    let at = Path::new(&at);
    if flag(schema, EMBEDDED) && kind != "object" {
        let why = "must be object if x-kubernetes-embedded-resource is true";
        if kind.is_empty() { errors.required(&at, why) } else { errors.invalid(&at, kind, why) }
    } else if kind.is_empty() && !flag(schema, INT_OR_STRING) && !flag(schema, PRESERVE) {
        let why = match level {
            SchemaLevel::Root => "must not be empty at the root",
            SchemaLevel::Item => "must not be empty for specified array items",
            SchemaLevel::Field => "must not be empty for specified object fields",
        };
        errors.required(&at, why);
    }
    if level == SchemaLevel::Root && !kind.is_empty() && kind != "object" {
        errors.invalid(&at, kind, "must be object at the root");
    }
}

/// Checks the schemas of `kind`, `apiVersion` and `metadata` of the resource or of an embedded one.
fn check_type_meta(schema: &Value, level: SchemaLevel, path: &str, errors: &mut ErrorList) {
    let embedded = flag(schema, EMBEDDED);
    if embedded && !schema["additionalProperties"].is_null() {
        let why = "must not be used if x-kubernetes-embedded-resource is set";
        errors.forbidden(&Path::new(&format!("{path}.additionalProperties")), why);
    }
    let checked = level == SchemaLevel::Root || embedded;
    for (name, wanted) in [("kind", "string"), ("apiVersion", "string"), ("metadata", "object")] {
        let found = schema["properties"].get(name).map(|property| text(property, "type"));
        if let Some(found) = found.filter(|found| checked && *found != wanted) {
            let at = format!("{path}.properties[{name}].type");
            errors.invalid(&Path::new(&at), found, format!("must be {wanted}"));
        }
    }
    if let Some(metadata) = schema["properties"].get("metadata").filter(|_| level == SchemaLevel::Root) {
        let known = |name: &Key| name == "name" || name == "generateName";
        let named = metadata["properties"].as_object().is_none_or(|fields| fields.keys().all(known));
        let more = metadata.as_object().into_iter().flatten();
        let more = more.filter(|(field, _)| !matches!(field.as_str(), "type" | "properties" | "default"));
        if !named || more.filter(|(field, _)| is_set(metadata, field)).count() > 0 {
            errors.forbidden(
                &Path::new(&format!("{path}.properties[metadata]")),
                "must not specify anything other than name and generateName, but metadata is implicitly specified",
            );
        }
    }
    if embedded && !flag(schema, PRESERVE) && properties(schema).next().is_none() {
        let why =
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errors.required(&Path::new(&format!("{path}.properties")), why);
    }
}

/// Checks value validations: `allOf`, `anyOf`, `oneOf`, `not` and the pattern.
fn values(schema: &Value, skip_any: bool, skip_first: bool, path: &str, depth: usize, errors: &mut ErrorList) {
    if depth > MAX_SCHEMA_DEPTH {
        return;
    }
    for (index, one) in items(schema, "anyOf").filter(|_| !skip_any) {
        nested(one, false, &format!("{path}.anyOf[{index}]"), depth + 1, errors);
    }
    for (index, one) in items(schema, "allOf") {
        nested(one, skip_first && index == 0, &format!("{path}.allOf[{index}]"), depth + 1, errors);
    }
    for (index, one) in items(schema, "oneOf") {
        nested(one, false, &format!("{path}.oneOf[{index}]"), depth + 1, errors);
    }
    if schema["not"].is_object() {
        nested(&schema["not"], false, &format!("{path}.not"), depth + 1, errors);
    }
    if let Some(pattern) = schema["pattern"].as_str()
        && let Err(error) = validate::compile_pattern(pattern)
    {
        let why = format!("must be a valid regular expression, but isn't: {error}");
        errors.invalid(&Path::new(&format!("{path}.pattern")), pattern, why);
    }
}

/// Checks a schema inside `allOf`, `anyOf`, `oneOf` or `not`, which may only constrain values.
fn nested(schema: &Value, skip_any: bool, path: &str, depth: usize, errors: &mut ErrorList) {
    const RULES: [(&str, &str); 11] = [
        ("type", "must be empty to be structural"),
        ("default", "must be undefined to be structural"),
        ("title", "must be empty to be structural"),
        ("description", "must be empty to be structural"),
        ("nullable", "must be false to be structural"),
        (PRESERVE, "must be false to be structural"),
        (EMBEDDED, "must be false to be structural"),
        (INT_OR_STRING, "must be false to be structural"),
        (LIST_KEYS, "must be empty to be structural"),
        (LIST_TYPE, "must be undefined to be structural"),
        (MAP_TYPE, "must be undefined to be structural"),
    ];
    values(schema, skip_any, false, path, depth, errors);
    if depth > MAX_SCHEMA_DEPTH {
        return;
    }
    if schema["items"].is_object() {
        nested(&schema["items"], false, &format!("{path}.items"), depth + 1, errors);
    }
    for (name, property) in properties(schema) {
        nested(property, false, &format!("{path}.properties[{name}]"), depth + 1, errors);
    }
    for (field, why) in RULES {
        if is_set(schema, field) {
            errors.forbidden(&Path::new(&format!("{path}.{field}")), why);
        }
    }
    if !schema["additionalProperties"].is_null() {
        errors.forbidden(&Path::new(&format!("{path}.additionalProperties")), "must be undefined to be structural");
    }
    if is_set(schema, "x-kubernetes-validations") {
        errors.forbidden(&Path::new(&format!("{path}.x-kubernetes-validations")), "must be empty to be structural");
    }
    if schema["properties"].get("metadata").is_some() {
        errors.forbidden(
            &Path::new(&format!("{path}.properties[metadata]")),
            "must not be specified in a nested context",
        );
    }
}

/// Checks that every field constrained inside `allOf`, `anyOf`, `oneOf` or `not` is also declared outside of them.
fn check_complete(schema: &Value, path: &str, depth: usize, errors: &mut ErrorList) {
    if depth > MAX_SCHEMA_DEPTH {
        return;
    }
    quantifiers(schema, Some(schema), (path, path), depth, errors);
    if schema["items"].is_object() {
        check_complete(&schema["items"], &format!("{path}.items"), depth + 1, errors);
    }
    for (name, property) in properties(schema) {
        check_complete(property, &format!("{path}.properties[{name}]"), depth + 1, errors);
    }
    if schema["additionalProperties"].is_object() {
        check_complete(&schema["additionalProperties"], &format!("{path}.additionalProperties"), depth + 1, errors);
    }
}

fn quantifiers(said: &Value, declared: Option<&Value>, paths: (&str, &str), depth: usize, errors: &mut ErrorList) {
    for field in ["allOf", "anyOf", "oneOf"] {
        for (index, one) in items(said, field) {
            complete(one, declared, (paths.0, &format!("{}.{field}[{index}]", paths.1)), depth + 1, errors);
        }
    }
    if said["not"].is_object() {
        complete(&said["not"], declared, (paths.0, &format!("{}.not", paths.1)), depth + 1, errors);
    }
}

/// `paths` holds the path of the declaration and the path of the constraint.
fn complete(said: &Value, declared: Option<&Value>, paths: (&str, &str), depth: usize, errors: &mut ErrorList) {
    if depth > MAX_SCHEMA_DEPTH {
        return;
    }
    let Some(schema) = declared else {
        errors.required(&Path::new(paths.0), format!("because it is defined in {}", paths.1));
        return;
    };
    quantifiers(said, declared, paths, depth, errors);
    let mut below = |part: &Value, known: Option<&Value>, field: &str| {
        let at = (format!("{}.{field}", paths.0), format!("{}.{field}", paths.1));
        complete(part, known.filter(|known| known.is_object()), (&at.0, &at.1), depth + 1, errors);
    };
    if said["items"].is_object() {
        below(&said["items"], schema.get("items"), "items");
    }
    for (name, property) in properties(said) {
        below(property, schema["properties"].get(name), &format!("properties[{name}]"));
    }
}

/// The place of a schema, as far as it decides what is supported: `specStandardValidatorV3`.
#[derive(Debug, Clone, Copy)]
struct SchemaContext {
    options: SchemaOptions,
    depth: usize,
    root: bool,
    /// True for the apiVersion, kind and metadata of the resource or of an embedded one, and below them.
    inside_meta: bool,
    /// The place in which defaults are forbidden.
    no_defaults: Option<&'static str>,
}

impl SchemaContext {
    fn below(self) -> Self {
        Self { depth: self.depth + 1, root: false, ..self }
    }

    /// Returns the place of the values of a map.
    fn values(self) -> Self {
        let here = self.inside_meta.then_some("inside additionalProperties applying to object metadata");
        Self { no_defaults: here.or(self.no_defaults), ..self.below() }
    }

    fn property(self, schema: &Value, name: &str) -> Self {
        let reason = match name {
            "apiVersion" => "in top-level apiVersion",
            "kind" => "in top-level kind",
            "metadata" => "in top-level metadata",
            _ => return self.below(),
        };
        let inside_meta = self.inside_meta || self.root || flag(schema, EMBEDDED);
        let no_defaults = if self.root { Some(reason) } else { self.no_defaults };
        Self { inside_meta, no_defaults, ..self.below() }
    }
}

/// Rejects unsupported keywords and checks Kubernetes' extensions.
fn supported(schema: &Value, path: &str, context: SchemaContext, errors: &mut ErrorList) {
    if context.depth > MAX_SCHEMA_DEPTH || !schema.is_object() {
        return;
    }
    let at = |field: &str| format!("{path}.{field}");
    keywords(schema, path, context, errors);
    if flag(schema, "uniqueItems") {
        let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.forbidden(&Path::new(&at("uniqueItems")), why);
    }
    let additional = &schema["additionalProperties"];
    if properties(schema).next().is_some() && (additional.is_object() || additional == &json!(false)) {
        let why = "additionalProperties and properties are mutual exclusive";
        errors.forbidden(&Path::new(&at("additionalProperties")), why);
    }
    supported(additional, &at("additionalProperties"), context.values(), errors);
    for (name, property) in properties(schema) {
        supported(property, &at(&format!("properties[{name}]")), context.property(schema, name), errors);
    }
    supported(&schema["not"], &at("not"), context.below(), errors);
    for field in ["allOf", "oneOf", "anyOf"] {
        for (index, one) in items(schema, field) {
            supported(one, &at(&format!("{field}[{index}]")), context.below(), errors);
        }
    }
    for (name, one) in members(schema, "definitions") {
        supported(one, &at(&format!("definitions[{name}]")), context.below(), errors);
    }
    supported(&schema["items"], &at("items"), context.below(), errors);
    for (index, one) in items(schema, "items") {
        supported(one, &at(&format!("items[{index}]")), context.below(), errors);
    }
    for (name, one) in members(schema, "dependencies") {
        supported(one, &at(&format!("dependencies[{name}]")), context.below(), errors);
    }
    if schema[PRESERVE] == json!(false) {
        errors.invalid(&Path::new(&at(PRESERVE)), false, "must be true or undefined");
    }
    topology(schema, path, context.options, errors);
    rules(schema, path, errors);
}

/// Checks the keywords of a schema without its parts: `validate` of `specStandardValidatorV3`.
fn keywords(schema: &Value, path: &str, context: SchemaContext, errors: &mut ErrorList) {
    let at = |field: &str| format!("{path}.{field}");
    let kind = text(schema, "type");
    if context.options.known_types && has_unknown_type(schema) {
        errors.not_supported(&Path::new(&at("type")), kind, TYPES);
    }
    if let Some(place) = context.no_defaults
        && schema.get("default").is_some_and(|default| !default.is_null())
    {
        errors.forbidden(&Path::new(&at("default")), format!("must not be set {place}"));
    }
    for field in UNSUPPORTED {
        if is_used(schema, field) {
            errors.forbidden(&Path::new(&at(field)), format!("{field} is not supported"));
        }
    }
    if kind == "null" {
        errors.forbidden(&Path::new(&at("type")), "type cannot be set to null, use nullable as an alternative");
    }
    if items(schema, "items").next().is_some() {
        errors.forbidden(&Path::new(&at("items")), "items must be a schema object and not an array");
    }
    if context.inside_meta && flag(schema, EMBEDDED) {
        errors.forbidden(&Path::new(&at(EMBEDDED)), "must not be used inside of resource meta");
    }
}

/// Checks `x-kubernetes-list-type`, `x-kubernetes-list-map-keys` and `x-kubernetes-map-type`.
fn topology(schema: &Value, path: &str, options: SchemaOptions, errors: &mut ErrorList) {
    let at = |field: &str| format!("{path}.{field}");
    let kind = text(schema, "type");
    let known: [(&str, &str, &[&str]); 2] =
        [(MAP_TYPE, "object", &["atomic", "granular"]), (LIST_TYPE, "array", &["atomic", "set", "map"])];
    for (field, wanted, values) in known {
        let Some(value) = schema[field].as_str() else { continue };
        if kind != wanted {
            let why = format!("must be {wanted} if {field} is specified");
            let at = at("type");
            if kind.is_empty() {
                errors.required(&Path::new(&at), why);
            } else {
                errors.invalid(&Path::new(&at), kind, why);
            }
        }
        if !values.contains(&value) {
            errors.not_supported(&Path::new(&at(field)), value, values);
        }
    }
    if let Some(field) = non_atomic_item(schema).filter(|_| options.atomic_sets) {
        // Upstream shows the list type of the items for either field.
        let shown = BadValue::from(schema["items"][LIST_TYPE].as_str().unwrap_or("null"));
        let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
        errors.invalid(&Path::new(&at(&format!("items.{field}"))), shown, why);
    }
    let list = schema[LIST_TYPE].as_str();
    if is_set(schema, LIST_KEYS) && list != Some("map") {
        let why = "must be map if x-kubernetes-list-map-keys is non-empty";
        match list {
            None => errors.required(&Path::new(&at(LIST_TYPE)), why),
            Some(value) => errors.invalid(&Path::new(&at(LIST_TYPE)), value, why),
        }
    }
    if list == Some("map") {
        map_keys(schema, path, errors);
    }
    if options.map_list_keys {
        map_list_keys(schema, path, errors);
    }
}

/// Returns the field that makes the items of a set not atomic: `hasNonAtomicSetType`.
fn non_atomic_item(schema: &Value) -> Option<&'static str> {
    if text(schema, "type") != "array" || text(schema, LIST_TYPE) != "set" {
        return None;
    }
    let item = &schema["items"];
    match text(item, "type") {
        "array" => item[LIST_TYPE].as_str().filter(|list| *list != "atomic").map(|_| LIST_TYPE),
        "object" => (text(item, MAP_TYPE) != "atomic").then_some(MAP_TYPE),
        _ => None,
    }
}

/// Checks that items of sets and maps and the keys of maps are always there: `validateMapListKeysMapSet`.
fn map_list_keys(schema: &Value, path: &str, errors: &mut ErrorList) {
    let item = &schema["items"];
    let list = text(schema, LIST_TYPE);
    if !item.is_object() || !matches!(list, "set" | "map") {
        return;
    }
    if flag(item, "nullable") {
        let why = format!("cannot be nullable when x-kubernetes-list-type is {list}");
        errors.forbidden(&Path::new(&format!("{path}.items.nullable")), why);
    }
    for (_, key) in items(schema, LIST_KEYS).filter(|_| list == "map") {
        let Some((key, property)) = key.as_str().and_then(|key| Some((key, item["properties"].get(key)?))) else {
            continue;
        };
        let required = items(item, "required").any(|(_, name)| name == key);
        let at = |field: &str| format!("{path}.items.properties[{key}].{field}");
        if !required && property.get("default").is_none_or(Value::is_null) {
            let why =
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.required(&Path::new(&at("default")), why);
        }
        if flag(property, "nullable") {
            let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.forbidden(&Path::new(&at("nullable")), why);
        }
    }
}

fn map_keys(schema: &Value, path: &str, errors: &mut ErrorList) {
    let at = |field: &str| format!("{path}.{field}");
    let keys: Vec<&str> = items(schema, LIST_KEYS).filter_map(|(_, key)| key.as_str()).collect();
    if keys.is_empty() {
        errors.required(&Path::new(&at(LIST_KEYS)), "must not be empty if x-kubernetes-list-type is map");
    }
    let item = &schema["items"];
    if !item.is_object() {
        errors.required(&Path::new(&at("items")), "must have a schema if x-kubernetes-list-type is map");
        return;
    }
    if text(item, "type") != "object" {
        let why = "must be object if parent array's x-kubernetes-list-type is map";
        errors.invalid(&Path::new(&at("items.type")), text(item, "type"), why);
    }
    let shown = || BadValue::Raw(schema[LIST_KEYS].to_string());
    let refuse = |errors: &mut ErrorList, why: &str| {
        errors.push_with(|| FieldError::invalid(&Path::new(&at(LIST_KEYS)), shown(), why));
    };
    for (key, is_repeated) in keys.iter().zip(checks::repeated(&keys, |key| *key)) {
        match item["properties"].get(*key).map(|property| text(property, "type")) {
            None => refuse(errors, "entries must all be names of item properties"),
            Some("array" | "object") => errors.invalid(
                &Path::new(&at(&format!("items.properties[{key}].type"))),
                text(item, "type"),
                "must be a scalar type if parent array's x-kubernetes-list-type is map",
            ),
            Some(_) => {}
        }
        if is_repeated {
            refuse(errors, "must not contain duplicate entries");
        }
    }
}

/// Checks the form of `x-kubernetes-validations`; the module `cel` checks the expressions.
fn rules(schema: &Value, path: &str, errors: &mut ErrorList) {
    const REASONS: &[&str] = &["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
    let none = Map::new();
    for (index, rule) in items(schema, "x-kubernetes-validations") {
        let fields = rule.as_object().unwrap_or(&none);
        let at = |field: &str| format!("{path}.x-kubernetes-validations[{index}].{field}");
        let given = |field: &str| fields.get(field).and_then(Value::as_str).unwrap_or_default();
        let expression = given("rule");
        let message = given("message");
        let blank = |value: &str| value.trim().is_empty();
        let lines = |value: &str| value.trim().contains(['\n', '\r']);
        if blank(expression) {
            errors.required(&Path::new(&at("rule")), "rule is not specified");
        } else if !message.is_empty() && blank(message) {
            errors.invalid(&Path::new(&at("message")), message, "must be non-empty if specified");
        } else if lines(message) {
            errors.invalid(&Path::new(&at("message")), message, "must not contain line breaks");
        } else if lines(expression) && blank(message) {
            errors.required(&Path::new(&at("message")), "message must be specified if rule contains line breaks");
        }
        let expression = given("messageExpression");
        if !expression.is_empty() && blank(expression) {
            let why = "messageExpression must be non-empty if specified";
            errors.required(&Path::new(&at("messageExpression")), why);
        }
        if let Some(reason) = fields.get("reason").and_then(Value::as_str).filter(|one| !REASONS.contains(one)) {
            errors.not_supported(&Path::new(&at("reason")), reason, REASONS);
        }
        let target = given("fieldPath");
        if !target.is_empty() && blank(target) {
            errors.invalid(&Path::new(&at("fieldPath")), target, "must be non-empty if specified");
        }
        if target.contains(['\n', '\r']) {
            errors.invalid(&Path::new(&at("fieldPath")), target, "must not contain line breaks");
        }
        if !target.is_empty() && field_path(target, schema, true).is_err() {
            errors.invalid(&Path::new(&at("fieldPath")), target, "must be a valid path");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    // Messages as recorded from kube-apiserver 1.36.
    #[rstest]
    #[case(json!({"type": "string", "default": 5}), "s.properties[a].default: Invalid value: \"integer\":  in body must be of type string: \"integer\"")]
    #[case(json!({"type": "string", "enum": ["x"], "default": "y"}), "s.properties[a].default: Unsupported value: \"y\": supported values: \"x\"")]
    #[case(json!({"type": "string", "$ref": "#/x"}), "s.properties[a].$ref: Forbidden: $ref is not supported")]
    #[case(json!({"type": "string", "pattern": "a{1,2000}"}), "s.properties[a].pattern: Invalid value: \"a{1,2000}\": must be a valid regular expression, but isn't: error parsing regexp: invalid repeat count: `{1,2000}`")]
    #[case(json!({"type": "string", "pattern": "["}), "s.properties[a].pattern: Invalid value: \"[\": must be a valid regular expression, but isn't: error parsing regexp: missing closing ]: `[`")]
    #[case(json!({"$ref": "#/x"}), "s.properties[a].$ref: Forbidden: $ref is not supported")]
    #[case(json!({"type": "string", "$ref": ""}), "s.properties[a].$ref: Forbidden: $ref is not supported")]
    #[case(json!({"type": "object", "dependencies": {}}),
        "s.properties[a].dependencies: Forbidden: dependencies is not supported")]
    #[case(json!({"type": "array", "additionalItems": false}),
        "s.properties[a].additionalItems: Forbidden: additionalItems is not supported")]
    #[case(json!({"type": "array", "items": [{"type": "string"}]}), "s.properties[a].items: Forbidden: items must be a schema object and not an array")]
    #[case(json!({"type": "array"}), "s.properties[a].items: Required value: must be specified")]
    #[case(json!({"type": "array", "x-kubernetes-list-type": "bad", "items": {"type": "string"}}),
        "s.properties[a].x-kubernetes-list-type: Unsupported value: \"bad\": supported values: \"atomic\", \"set\", \"map\"")]
    #[case(json!({"type": "string", "x-kubernetes-list-type": "set"}), "s.properties[a].type: Invalid value: \"string\": must be array if x-kubernetes-list-type is specified")]
    #[case(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": false}),
        "s.properties[a].x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined")]
    #[case(json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "object"}}),
        "s.properties[a].items.x-kubernetes-map-type: Invalid value: \"null\": must be atomic as item of a list with x-kubernetes-list-type=set")]
    #[case(json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}}),
        "s.properties[a].items.x-kubernetes-list-type: Invalid value: \"set\": must be atomic as item of a list with x-kubernetes-list-type=set")]
    #[case(json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string", "nullable": true}}),
        "s.properties[a].items.nullable: Forbidden: cannot be nullable when x-kubernetes-list-type is set")]
    #[case(json!({"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"metadata": {"type": "object", "properties": {
        "b": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}}}}}),
        "s.properties[a].properties[metadata].properties[b].x-kubernetes-embedded-resource: Forbidden: must not be used inside of resource meta")]
    #[case(json!({"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"metadata": {"type": "object", "properties": {
        "labels": {"type": "object", "additionalProperties": {"type": "string", "default": "x"}}}}}}),
        "s.properties[a].properties[metadata].properties[labels].additionalProperties.default: Forbidden: must not be set inside additionalProperties applying to object metadata")]
    #[case(json!({"type": "object", "anyOf": [{"properties": {"q": {"minLength": 1}}}]}),
        "s.properties[a].properties[q]: Required value: because it is defined in s.properties[a].anyOf[0].properties[q]")]
    #[case(json!({"type": "object", "allOf": [{"type": "object"}]}), "s.properties[a].allOf[0].type: Forbidden: must be empty to be structural")]
    #[case(json!({"type": "object", "x-kubernetes-validations": [{"rule": " "}]}), "s.properties[a].x-kubernetes-validations[0].rule: Required value: rule is not specified")]
    #[case(json!({"type": "object", "x-kubernetes-validations": [{"rule": "true", "fieldPath": ".zz"}]}),
        "s.properties[a].x-kubernetes-validations[0].fieldPath: Invalid value: \".zz\": must be a valid path")]
    fn a_bad_property(#[case] property: Value, #[case] expected: &str) {
        let mut errors = ErrorList::new();
        validate_schema(
            &json!({"type": "object", "properties": {"a": property}}),
            "s",
            SchemaOptions::ALL,
            &mut errors,
        );
        let found: Vec<String> = errors.iter().map(|e| format!("{}: {}", e.cause().field, e.cause().message)).collect();
        assert_eq!(found, [expected]);
    }

    #[rstest]
    #[case(json!(["z"]), &["s.properties[a].x-kubernetes-list-map-keys: Invalid value: [\"z\"]: entries must all be names of item properties"])]
    #[case(json!(["k"]), &["s.properties[a].items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"])]
    #[case(json!([]), &["s.properties[a].x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map"])]
    fn keys_of_map_lists(#[case] keys: Value, #[case] expected: &[&str]) {
        let item = json!({"type": "object", "properties": {"k": {"type": "string"}}});
        let list = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys, "items": item});
        let mut errors = ErrorList::new();
        validate_schema(&json!({"type": "object", "properties": {"a": list}}), "s", SchemaOptions::ALL, &mut errors);
        let found: Vec<String> = errors.iter().map(|e| format!("{}: {}", e.cause().field, e.cause().message)).collect();
        assert_eq!(found, expected);
    }

    #[rstest]
    #[case("kind", json!({"type": "string", "default": "X"}), "s.properties[kind].default: Forbidden: must not be set in top-level kind")]
    #[case("metadata", json!({"type": "object", "properties": {"name": {"type": "string", "default": "x"}}}),
        "s.properties[metadata].properties[name].default: Forbidden: must not be set in top-level metadata")]
    #[case("metadata", json!({"type": "object", "default": {"name": "x"}}), "s.properties[metadata].default: Forbidden: must not be set in top-level metadata")]
    fn type_and_metadata_have_no_defaults(#[case] name: &str, #[case] property: Value, #[case] expected: &str) {
        let mut errors = ErrorList::new();
        let schema = json!({"type": "object", "properties": {name: property}});
        validate_schema(&schema, "s", SchemaOptions::ALL, &mut errors);
        let found: Vec<String> = errors.iter().map(|e| format!("{}: {}", e.cause().field, e.cause().message)).collect();
        assert_eq!(found, [expected]);
    }

    #[rstest]
    #[case(json!({"type": "object", "default": {"c": 1}}))]
    #[case(json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "object"}}))]
    #[case(json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string", "nullable": true}}))]
    #[case(json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
        "items": {"type": "object", "properties": {"k": {"type": "string"}}}}))]
    fn stored_definitions_may_keep_what_was_allowed_before(#[case] property: Value) {
        let schema = json!({"type": "object", "properties": {"a": property}});
        let found = |options: SchemaOptions| {
            let mut errors = ErrorList::new();
            validate_schema(&schema, "s", options, &mut errors);
            errors.len()
        };
        assert_eq!(found(SchemaOptions::ALL), 1);
        assert_eq!(found(SchemaOptions::for_update([&schema].into_iter())), 0);
        assert_eq!(found(SchemaOptions::for_update([&json!({"type": "object"})].into_iter())), 1);
    }

    #[test]
    fn metadata_may_only_be_narrowed_by_name() {
        let check = |metadata: Value| {
            let mut errors = ErrorList::new();
            validate_schema(
                &json!({"type": "object", "properties": {"metadata": metadata}}),
                "s",
                SchemaOptions::ALL,
                &mut errors,
            );
            errors.is_empty()
        };
        assert!(check(json!({"type": "object", "properties": {"name": {"type": "string", "maxLength": 5}}})));
        assert!(!check(json!({"type": "object", "properties": {"labels": {"type": "object"}}})));
    }
}
