//! The built-in types as OpenAPI schemas: shape and descriptions from `k8s-openapi`, list types, merge keys and defaults
//! from the type tables. PURE.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use k8s_openapi::schemars::{SchemaGenerator, generate::SchemaSettings};

use super::enums;
use crate::json::{Map, Value, json};
use crate::kinds::Registry;
use crate::schema::{self, ListTopology, Shape};

const PREFIX: &str = "#/components/schemas/";

/// Every type by name.
static TYPES: LazyLock<BTreeMap<String, Value>> = LazyLock::new(all);

/// Makes the generator know the types; each brings those it refers to.
macro_rules! know {
    ($generator:ident, $($module:path: $($name:ident),+;)+) => {
        $($({
            use $module as module;
            $generator.subschema_for::<module::$name>();
        })+)+
    };
}

/// The description of a field (type without `io.k8s.`), without its values.
pub fn description(kind: &str, field: &str) -> String {
    let schema = TYPES.get(&format!("io.k8s.{kind}"));
    let text =
        schema.and_then(|schema| schema.pointer(&format!("/properties/{field}/description"))).and_then(Value::as_str);
    text.and_then(|text| text.split(enums::VALUES).next()).unwrap_or_default().to_owned()
}

/// The types of these names and all that they refer to.
pub(super) fn closure(roots: Vec<String>) -> BTreeMap<&'static str, &'static Value> {
    let mut found = BTreeMap::new();
    let mut queue = roots;
    while let Some(name) = queue.pop() {
        let Some((name, schema)) = TYPES.get_key_value(&name) else { continue };
        if found.insert(name.as_str(), schema).is_none() {
            references(schema, &mut queue);
        }
    }
    found
}

fn references(schema: &Value, into: &mut Vec<String>) {
    match schema {
        Value::Object(fields) => {
            if let Some(name) =
                fields.get("$ref").and_then(Value::as_str).and_then(|target| target.strip_prefix(PREFIX))
            {
                into.push(name.to_owned());
            }
            fields.values().for_each(|value| references(value, into));
        }
        Value::Array(list) => list.iter().for_each(|value| references(value, into)),
        _ => {}
    }
}

fn all() -> BTreeMap<String, Value> {
    let mut settings = SchemaSettings::openapi3();
    settings.definitions_path = "/components/schemas".into();
    let mut generator = SchemaGenerator::new(settings);
    learn(&mut generator);
    let mut types: BTreeMap<String, Value> =
        generator.take_definitions(false).into_iter().map(|(name, schema)| (name, schema.into())).collect();
    types.insert(
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString".to_owned(),
        one_of(&types, "util.intstr.IntOrString", "integer"),
    );
    types.insert(
        "io.k8s.apimachinery.pkg.api.resource.Quantity".to_owned(),
        one_of(&types, "api.resource.Quantity", "number"),
    );
    for (name, schema) in &mut types {
        wrap_references(schema);
        enrich(name, schema);
        for (field, property) in schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
            enums::add(name, field, property);
        }
    }
    correct(&mut types);
    for kind in Registry::builtin().kinds() {
        let gvk = |kind_name: &str| json!([{"group": kind.group, "kind": kind_name, "version": kind.version}]);
        if let Some(schema) = types.get_mut(kind.schema.as_ref()) {
            schema["x-kubernetes-group-version-kind"] = gvk(&kind.kind);
        }
        let list = list(
            &kind.kind,
            &kind.schema,
            &gvk(&kind.list_kind),
            types.get("io.k8s.apimachinery.pkg.apis.meta.v1.Status"),
        );
        types.insert(format!("{}List", kind.schema), list);
    }
    for (name, group, version, kind) in [
        ("io.k8s.api.autoscaling.v1.Scale", "autoscaling", "v1", "Scale"),
        ("io.k8s.api.policy.v1.Eviction", "policy", "v1", "Eviction"),
        ("io.k8s.api.authentication.v1.TokenRequest", "authentication.k8s.io", "v1", "TokenRequest"),
        ("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions", "", "v1", "DeleteOptions"),
        ("io.k8s.apimachinery.pkg.apis.meta.v1.Status", "", "v1", "Status"),
    ] {
        if let Some(schema) = types.get_mut(name) {
            schema["x-kubernetes-group-version-kind"] = json!([{"group": group, "kind": kind, "version": version}]);
        }
    }
    types
}

/// Details that neither the crate nor the tables know.
fn correct(types: &mut BTreeMap<String, Value>) {
    for row in include_str!("details.tsv").lines().filter(|row| !row.starts_with('#')) {
        let mut cells = row.split('\t');
        let (Some(name), Some(place), Some(value)) = (cells.next(), cells.next(), cells.next()) else { continue };
        let Some(schema) = types.get_mut(&format!("io.k8s.{name}")) else { continue };
        let Some((parent, field)) = place.rsplit_once('/') else { continue };
        let Some(fields) = schema.pointer_mut(parent).and_then(Value::as_object_mut) else { continue };
        match serde_json::from_str(value) {
            Ok(value) => fields.insert(field.to_owned(), value),
            Err(_) => fields.remove(field),
        };
    }
}

/// A type that is a string or something else.
fn one_of(types: &BTreeMap<String, Value>, name: &str, other: &str) -> Value {
    let known = types.get(&format!("io.k8s.apimachinery.pkg.{name}"));
    let description = known.and_then(|schema| schema.get("description")).cloned().unwrap_or_default();
    match other {
        "integer" => {
            json!({"description": description, "format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]})
        }
        other => json!({"description": description, "oneOf": [{"type": "string"}, {"type": other}]}),
    }
}

/// The type of a list, as all of them look.
fn list(kind: &str, schema: &str, gvk: &Value, like: Option<&Value>) -> Value {
    let common = |field: &str| like.map_or_else(|| json!({"type": "string"}), |like| like["properties"][field].clone());
    json!({
        "description": format!("{kind}List is a list of objects of kind {kind}"),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": common("apiVersion"),
            "kind": common("kind"),
            "metadata": {"default": {}, "allOf": [{"$ref": format!("{PREFIX}io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta")}]},
            "items": {"type": "array", "items": {"default": {}, "allOf": [{"$ref": format!("{PREFIX}{schema}")}]}},
        },
        "x-kubernetes-group-version-kind": gvk,
    })
}

/// A reference with a description or a default beside it goes into `allOf`: version 3.0 ignores siblings of `$ref`.
fn wrap_references(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            // A property may be called `$ref` as well: then its value is a schema.
            if fields.len() > 1
                && fields.get("$ref").is_some_and(Value::is_string)
                && let Some(target) = fields.remove("$ref")
            {
                fields.insert("allOf", json!([{"$ref": target}]));
            }
            fields.values_mut().for_each(wrap_references);
        }
        Value::Array(list) => list.iter_mut().for_each(wrap_references),
        _ => {}
    }
}

/// Adds list types, merge keys and defaults.
fn enrich(name: &str, schema: &mut Value) {
    let Some(types) = schema::builtin(name) else { return };
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        // `k8s-openapi` counts metadata among the required fields of every kind.
        required.retain(|field| field != "metadata");
        if required.is_empty()
            && let Some(fields) = schema.as_object_mut()
        {
            fields.remove("required");
        }
    }
    if types.root_struct().is_some_and(|own| own.atomic) {
        schema["x-kubernetes-map-type"] = json!("atomic");
    }
    let (Some(own), Some(properties)) =
        (types.root_struct(), schema.get_mut("properties").and_then(Value::as_object_mut))
    else {
        return;
    };
    for (field_name, property) in properties {
        let (Some(field), Some(property)) = (own.field(field_name), property.as_object_mut()) else { continue };
        let mut set = |name: &str, value: Value| {
            property.insert(format!("x-kubernetes-{name}"), value);
        };
        match types.shape(field.ty) {
            Shape::List(list) => match &list.topology {
                ListTopology::Map(keys) => {
                    set("list-type", json!("map"));
                    set("list-map-keys", json!(keys));
                }
                ListTopology::Set => set("list-type", json!("set")),
                ListTopology::Atomic => set("list-type", json!("atomic")),
            },
            Shape::Map(of) if of.atomic => set("map-type", json!("atomic")),
            _ => {}
        }
        if let Some(key) = &field.patch.merge_key {
            set("patch-merge-key", json!(key));
        }
        let words =
            [("merge", field.patch.merge), ("replace", field.patch.replace), ("retainKeys", field.patch.retain_keys)];
        let strategy: Vec<&str> = words.iter().filter(|(_, on)| *on).map(|(word, _)| *word).collect();
        if !strategy.is_empty() {
            set("patch-strategy", json!(strategy.join(",")));
        }
        if let (Some(default), Some(property)) = (&field.key_default, Some(&mut *property)) {
            property.insert("default", default.clone());
        } else if matches!(types.shape(field.ty), Shape::Struct(_)) && !field.pointer && property.contains_key("allOf")
        {
            property.insert("default", json!({}));
        }
    }
}

/// A schema in the words of version 2: references elsewhere and unwrapped, no `oneOf`.
pub(super) fn as_version_two(schema: Value) -> Value {
    match schema {
        Value::Object(fields) => Value::Object(object_two(fields)),
        Value::Array(list) => Value::Array(list.into_iter().map(as_version_two).collect()),
        Value::String(text) => match text.strip_prefix(PREFIX) {
            Some(name) => json!(format!("#/definitions/{name}")),
            None => Value::String(text),
        },
        other => other,
    }
}

fn object_two(mut fields: Map) -> Map {
    if fields.get("oneOf").is_some_and(Value::is_array) {
        fields.remove("oneOf");
        fields.insert("type", json!("string"));
    }
    if let Some(Value::Array(mut all)) = fields.remove("allOf")
        && let Some(Value::Object(target)) = all.pop()
    {
        fields.remove("default");
        fields.extend(target);
    }
    fields.into_iter().map(|(name, value)| (name, as_version_two(value))).collect()
}

/// The types of everything that is served.
fn learn(generator: &mut SchemaGenerator) {
    know! {
        generator,
        k8s_openapi::api::admissionregistration::v1: MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, ValidatingWebhookConfiguration;
        k8s_openapi::api::apps::v1: ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet;
        k8s_openapi::api::authentication::v1: SelfSubjectReview, TokenRequest, TokenReview;
        k8s_openapi::api::authorization::v1: LocalSubjectAccessReview, SelfSubjectAccessReview, SelfSubjectRulesReview, SubjectAccessReview;
        k8s_openapi::api::autoscaling::v1: HorizontalPodAutoscaler, Scale;
        k8s_openapi::api::autoscaling::v2: HorizontalPodAutoscaler;
        k8s_openapi::api::batch::v1: CronJob, Job;
        k8s_openapi::api::certificates::v1: CertificateSigningRequest;
        k8s_openapi::api::coordination::v1: Lease;
        k8s_openapi::api::core::v1: Binding, ComponentStatus, ConfigMap, Endpoints, Event, LimitRange, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, PodTemplate, ReplicationController, ResourceQuota, Secret, Service, ServiceAccount;
        k8s_openapi::api::discovery::v1: EndpointSlice;
        k8s_openapi::api::events::v1: Event;
        k8s_openapi::api::flowcontrol::v1: FlowSchema, PriorityLevelConfiguration;
        k8s_openapi::api::networking::v1: IPAddress, Ingress, IngressClass, NetworkPolicy, ServiceCIDR;
        k8s_openapi::api::node::v1: RuntimeClass;
        k8s_openapi::api::policy::v1: Eviction, PodDisruptionBudget;
        k8s_openapi::api::rbac::v1: ClusterRole, ClusterRoleBinding, Role, RoleBinding;
        k8s_openapi::api::resource::v1: DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice;
        k8s_openapi::api::scheduling::v1: PriorityClass;
        k8s_openapi::api::storage::v1: CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment, VolumeAttributesClass;
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1: CustomResourceDefinition;
        k8s_openapi::apimachinery::pkg::apis::meta::v1: DeleteOptions, ListMeta, Status;
        k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1: APIService;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_detail_finds_its_place() {
        for row in include_str!("details.tsv").lines().filter(|row| !row.starts_with('#')) {
            let [name, place, value] = row.split('\t').collect::<Vec<_>>()[..] else {
                panic!("not three cells: {row}")
            };
            let schema = TYPES.get(&format!("io.k8s.{name}")).unwrap_or_else(|| panic!("no type {name}"));
            assert_eq!(schema.pointer(place), serde_json::from_str(value).ok().as_ref(), "{row}");
        }
    }
}
