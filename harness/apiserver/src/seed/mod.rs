//! Seeding: objects that exist before the first request.

use serde::Serialize;

use crate::json::fields::spec_of;
use crate::json::{Value, json};
use crate::metadata;
use crate::registry::{Registry, Resource, StrategyContext, custom};
use crate::schema;
use crate::server::{ApiServer, draft, storage_id};
use crate::status::Status;
use crate::store::ResourceId;
use crate::user::UserInfo;

/// The reason why an object could not be seeded.
#[derive(Debug, thiserror::Error)]
pub enum SeedError {
    /// The kind is not served. Seed its custom resource definition first, or correct `apiVersion` and `kind`.
    #[error("kind {kind:?} in apiVersion {api_version:?} is not served")]
    UnknownKind {
        /// `apiVersion` of the object; empty if it is missing.
        api_version: String,
        /// `kind` of the object; empty if it is missing.
        kind: String,
    },
    /// The object has no name. Seeding does not generate names, so set `metadata.name`.
    #[error("{kind} without metadata.name")]
    MissingName {
        /// `kind` of the object.
        kind: String,
    },
    /// Another task wrote the object while it was seeded. Seed before clients and controllers run.
    #[error("{kind} changed while it was seeded: {reason}")]
    Conflict {
        /// `kind` of the object.
        kind: String,
        /// The error of the store.
        reason: String,
    },
    /// The object cannot be as a creation would make it ([`ApiServer::seed_as_created`]). Correct it.
    #[error("{kind} {name:?}: {reason}")]
    Refused {
        /// `kind` of the object.
        kind: String,
        /// Its name, after its namespace and a slash if it has one.
        name: String,
        /// The reason, with what to do.
        reason: String,
    },
    /// The typed object has no JSON form, for example because a map has keys that are not strings.
    #[error("unable to convert the object to JSON")]
    Json(#[from] serde_json::Error),
}

impl ApiServer {
    /// Puts objects into the store as the initial state of a test: defaulted, with uid and creationTimestamp if they
    /// lack them, but without admission, validation, managed fields and transcript entries. Replaces existing objects.
    /// Objects without a namespace go to `default`; missing namespaces are created.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use plumbline_apiserver::{ApiServer, SeedError, clock};
    /// use serde_json::json;
    ///
    /// clock::run_virtual(async {
    ///     let server = ApiServer::builder().build();
    ///     server.seed([json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})])?;
    ///
    ///     let error = server.seed([json!({"apiVersion": "v9", "kind": "Node"})]).unwrap_err();
    ///     assert_eq!(error.to_string(), r#"kind "Node" in apiVersion "v9" is not served"#);
    ///     Ok::<_, SeedError>(())
    /// })??;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error at the first object whose kind is not served or that has no name; the objects before it are
    /// stored.
    pub fn seed(&self, objects: impl IntoIterator<Item: Into<Value>>) -> Result<(), SeedError> {
        for object in objects {
            // Read again for each object: a custom resource definition among them adds resources.
            self.seed_one(&self.registry(), object.into(), false)?;
        }
        Ok(())
    }

    /// Like [`ApiServer::seed`], and gives objects what a creation adds beside defaults: `generation`, a service's
    /// addresses, a job's selector and labels, finalizers of claims, volumes and namespaces, the parts of a status.
    /// What an object has stays, its uid, times, owners, status, generation and addresses included. Admission plugins
    /// neither refuse an object nor taint a node.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use plumbline_apiserver::{ApiServer, ResourceId, clock};
    /// use serde_json::json;
    ///
    /// clock::run_virtual(async {
    ///     let server = ApiServer::builder().build();
    ///     server.seed_as_created([json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
    ///         "spec": {"ports": [{"port": 80}]}})])?;
    ///     let web = server.get(&ResourceId::new("", "services"), "default", "web").expect("stored");
    ///     assert_eq!(web.value()["spec"]["clusterIP"], "10.0.0.17");
    ///     Ok::<_, plumbline_apiserver::SeedError>(())
    /// })??;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Like [`ApiServer::seed`], and [`SeedError::Refused`] for an object with fields that are unknown or of wrong
    /// types, or for which there is no free address.
    pub fn seed_as_created(&self, objects: impl IntoIterator<Item: Into<Value>>) -> Result<(), SeedError> {
        objects.into_iter().try_for_each(|object| self.seed_one(&self.registry(), object.into(), true))
    }

    /// Like [`ApiServer::seed`], for typed objects such as those of `k8s_openapi` and of `#[derive(CustomResource)]`,
    /// which serialize their `apiVersion` and `kind`.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use k8s_openapi::api::core::v1::Node;
    /// use plumbline_apiserver::{ApiServer, ResourceId, clock};
    ///
    /// clock::run_virtual(async {
    ///     let server = ApiServer::builder().build();
    ///     let mut node = Node::default();
    ///     node.metadata.name = Some("n1".to_owned());
    ///     server.seed_objects([node])?;
    ///     assert!(server.get(&ResourceId::new("", "nodes"), "", "n1").is_some());
    ///     Ok::<_, plumbline_apiserver::SeedError>(())
    /// })??;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Like [`ApiServer::seed`], and [`SeedError::Json`] for an object that has no JSON form.
    pub fn seed_objects(&self, objects: impl IntoIterator<Item: Serialize>) -> Result<(), SeedError> {
        objects.into_iter().try_for_each(|object| self.seed([serde_json::to_value(object)?]))
    }

    fn seed_one(&self, registry: &Registry, mut object: Value, as_created: bool) -> Result<(), SeedError> {
        let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let api_version = text("apiVersion");
        let kind_name = text("kind");
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        let kind = registry
            .resource_for_kind(group, version, &kind_name)
            .ok_or_else(|| SeedError::UnknownKind { api_version: api_version.clone(), kind: kind_name.clone() })?;
        if metadata::name(&object).is_empty() {
            return Err(SeedError::MissingName { kind: kind_name });
        }
        if kind.namespaced {
            let namespace = metadata::namespace(&object).to_owned();
            let namespace = if namespace.is_empty() { "default" } else { &namespace };
            metadata::fields_mut(&mut object).insert("namespace", namespace.into());
            self.seed_namespace(namespace);
        }
        let id = [metadata::namespace(&object), metadata::name(&object)].map(str::to_owned);
        let refused = |reason: String| {
            let name = id.iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join("/");
            SeedError::Refused { kind: kind_name.clone(), name, reason }
        };
        if as_created {
            object = decoded(kind, &object).map_err(|why| refused(format!("{why}; correct the field or remove it")))?;
        }
        kind.strategy.default(&mut object);
        let is_definition = kind.group == custom::GROUP && kind.plural == custom::RESOURCE;
        let now = crate::registry::time::rfc3339(self.clock().now());
        let uid = self.ids().uid_of(&[&*kind.plural, &*id[0], &*id[1]]);
        let metadata = metadata::fields_mut(&mut object);
        metadata.remove("resourceVersion");
        metadata.entry("creationTimestamp").or_insert_with(|| now.into());
        metadata.entry("uid").or_insert_with(|| uid.into());
        if kind.custom.is_some() {
            // As after a creation: programs compare it with their `observedGeneration`.
            metadata.entry("generation").or_insert_with(|| 1.into());
        }
        if as_created {
            let complete = self.as_created(kind, object);
            let advice = "set the field, which is then taken as it is";
            object = complete.map_err(|status| refused(format!("{}; {advice}", status.message)))?;
        }
        if is_definition {
            object = self.complete_definition(kind.to_storage(object));
        }
        let resource = storage_id(kind);
        let draft = draft(kind, object);
        let existing = self.store().get(&resource, draft.key());
        let written = match existing {
            Some(old) => self.store().update(&resource, &old, draft),
            None => self.store().create(&resource, draft),
        };
        written.map_err(|error| SeedError::Conflict { kind: kind_name, reason: format!("{error:?}") })?;
        if is_definition {
            self.register_definitions();
        }
        Ok(())
    }

    /// Returns a defaulted object with what the strategy of its kind adds to new objects.
    fn as_created(&self, kind: &Resource, object: Value) -> Result<Value, Status> {
        let user = UserInfo::administrator();
        let context = StrategyContext { now: self.clock().now(), user: &user, lookup: self, dry_run: false };
        let mut created = object.clone();
        // A node of a file has the taints that its author wants.
        if kind.kind != "Node" {
            let mut admitted = created.clone();
            if kind.strategy.admit_create(&mut admitted, &context).is_ok() {
                created = admitted;
            }
        }
        kind.strategy.prepare_for_create(&mut created, &context);
        // Set by the server in creations, so that strategies replace what the object has.
        let spec = spec_of(&object);
        if spec.get("username").or_else(|| spec.get("finalizers")).is_some() {
            created["spec"] = spec.clone();
        }
        for part in ["metadata", "status"] {
            if let Some(given) = object.get(part) {
                overlay(&mut created[part], given);
            }
        }
        kind.strategy.begin_seed(&mut created, &context)?;
        Ok(created)
    }

    /// Creates the namespace unless it exists, with the fields that a real cluster's namespaces have.
    pub(crate) fn seed_namespace(&self, name: &str) {
        let resource = ResourceId::new("", "namespaces");
        if self.get(&resource, "", name).is_some() {
            return;
        }
        let object = json!({
            "kind": "Namespace",
            "apiVersion": "v1",
            "metadata": {
                "name": name,
                "labels": {"kubernetes.io/metadata.name": name},
                "managedFields": [{
                    "manager": "kube-apiserver",
                    "operation": "Update",
                    "apiVersion": "v1",
                    "time": crate::registry::time::rfc3339(self.clock().now()),
                    "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:metadata": {"f:labels": {".": {}, "f:kubernetes.io/metadata.name": {}}}},
                }],
            },
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        });
        if let Err(error) = self.seed([object]) {
            tracing::error!(name, %error, "failed to seed a namespace");
        }
    }
}

/// Returns an object as a request with `fieldValidation=Strict` is decoded, or the reason why it is refused.
fn decoded(kind: &Resource, object: &Value) -> Result<Value, String> {
    let types = kind.custom.as_ref().map(|custom| custom.types.clone()).or_else(|| schema::builtin(&kind.schema));
    match types.map(|types| types.convert(object)) {
        Some(Err(error)) => Err(error.to_string()),
        Some(Ok(decoded)) if !decoded.strict.is_empty() => Err(decoded.strict.join(", ")),
        Some(Ok(decoded)) => Ok(decoded.value),
        None => Ok(object.clone()),
    }
}

/// Puts the fields of `given` into `object`, those of objects within it one by one.
fn overlay(object: &mut Value, given: &Value) {
    match (object, given) {
        (Value::Object(object), Value::Object(given)) => {
            for (field, value) in given {
                overlay(object.entry(field.as_str()).or_insert(Value::Null), value);
            }
        }
        (object, given) => *object = given.clone(),
    }
}

#[cfg(test)]
mod tests;
