//! The tables against an independent source: the schemas that come with `k8s-openapi`.

use std::collections::BTreeSet;

use k8s_openapi::api::{apps, autoscaling, batch, coordination, core, events, networking, policy, rbac, storage};
use schemars::{JsonSchema, SchemaGenerator};

use super::*;
use crate::json::{Key, Value};

/// Fields that one side has and the other cannot have: newer than the schemas, or untyped there.
const KNOWN: &[&str] = &[];

fn definitions<T: JsonSchema>(generator: &mut SchemaGenerator) {
    _ = generator.subschema_for::<T>();
}

fn all() -> crate::json::Map {
    let mut generator = SchemaGenerator::default();
    let g = &mut generator;
    definitions::<core::v1::Pod>(g);
    definitions::<core::v1::Node>(g);
    definitions::<core::v1::Namespace>(g);
    definitions::<core::v1::Service>(g);
    definitions::<core::v1::ServiceAccount>(g);
    definitions::<core::v1::ConfigMap>(g);
    definitions::<core::v1::Secret>(g);
    definitions::<core::v1::Event>(g);
    definitions::<core::v1::ReplicationController>(g);
    definitions::<core::v1::PersistentVolume>(g);
    definitions::<core::v1::PersistentVolumeClaim>(g);
    definitions::<core::v1::ResourceQuota>(g);
    definitions::<core::v1::LimitRange>(g);
    definitions::<core::v1::Endpoints>(g);
    definitions::<apps::v1::Deployment>(g);
    definitions::<apps::v1::ReplicaSet>(g);
    definitions::<apps::v1::StatefulSet>(g);
    definitions::<apps::v1::DaemonSet>(g);
    definitions::<autoscaling::v1::Scale>(g);
    definitions::<autoscaling::v2::HorizontalPodAutoscaler>(g);
    definitions::<batch::v1::Job>(g);
    definitions::<batch::v1::CronJob>(g);
    definitions::<policy::v1::PodDisruptionBudget>(g);
    definitions::<policy::v1::Eviction>(g);
    definitions::<coordination::v1::Lease>(g);
    definitions::<events::v1::Event>(g);
    definitions::<networking::v1::Ingress>(g);
    definitions::<networking::v1::NetworkPolicy>(g);
    definitions::<rbac::v1::ClusterRole>(g);
    definitions::<rbac::v1::RoleBinding>(g);
    definitions::<storage::v1::StorageClass>(g);
    generator.take_definitions(true).into_iter().collect()
}

#[test]
fn tables_agree_with_the_published_schemas() {
    let mut differences = Vec::new();
    let mut compared = 0;
    for (name, definition) in all() {
        let Some(properties) = definition.get("properties").and_then(Value::as_object) else { continue };
        let Some(schema) = builtin(&name) else {
            differences.push(format!("{name} is missing"));
            continue;
        };
        let Some(shape) = schema.root_struct() else { continue };
        compared += 1;
        let ours: BTreeSet<&str> = shape.fields.iter().map(|f| &*f.name).collect();
        let theirs: BTreeSet<&str> = properties.keys().map(Key::as_str).collect();
        for field in ours.symmetric_difference(&theirs) {
            differences.push(format!("{name}.{field}"));
        }
        for field in shape.fields.iter() {
            let Some(kind) = properties.get(&*field.name).and_then(|p| p.get("type")).and_then(Value::as_str) else {
                continue;
            };
            let fits = match schema.shape(field.ty) {
                Shape::Scalar(Scalar::Int { .. }) => kind == "integer",
                Shape::Scalar(Scalar::Float) => kind == "number",
                Shape::Scalar(Scalar::Bool) => kind == "boolean",
                Shape::Scalar(_) => kind == "string",
                Shape::List(_) => kind == "array",
                Shape::Struct(_) | Shape::Map(_) | Shape::Any => kind == "object",
            };
            if !fits {
                differences.push(format!("{name}.{} is a {kind}", field.name));
            }
        }
    }
    differences.retain(|d| !KNOWN.contains(&d.as_str()));
    assert!(compared > 250, "only {compared} types compared");
    assert_eq!(differences, Vec::<String>::new());
}

/// List-map keys are fields of the items and leaves there; merge keys, too.
#[test]
fn keys_are_fields_of_the_items() {
    for name in builtin_names() {
        let schema = builtin(&name).unwrap();
        for ty in &schema.types {
            let Shape::Struct(shape) = &ty.shape else { continue };
            for field in shape.fields.iter() {
                let Shape::List(list) = schema.shape(field.ty) else {
                    assert!(field.patch.merge_key.is_none(), "{}.{} is no list", ty.go, field.name);
                    continue;
                };
                let mut keys: Vec<&str> = field.patch.merge_key.iter().map(|k| &**k).collect();
                if let ListTopology::Map(map_keys) = &list.topology {
                    assert!(!map_keys.is_empty());
                    keys.extend(map_keys.iter().map(|k| &**k));
                }
                for key in keys {
                    let Shape::Struct(item) = schema.shape(list.items) else {
                        panic!("{}.{} has keys but no objects", ty.go, field.name);
                    };
                    let key_field = item.field(key).unwrap_or_else(|| panic!("{}.{}: no {key}", ty.go, field.name));
                    assert!(matches!(schema.shape(key_field.ty), Shape::Scalar(_)));
                }
                if list.topology == ListTopology::Set {
                    assert!(matches!(schema.shape(list.items), Shape::Scalar(_)), "{}.{}", ty.go, field.name);
                }
            }
        }
    }
}
