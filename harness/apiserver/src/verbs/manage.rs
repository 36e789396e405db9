//! Connects handlers to schemas, managed fields and server-side apply.

use std::sync::Arc;

use super::options::go_type;
use super::scope::Scope;
use super::yaml;
use crate::json::Value;
use crate::managedfields::{self, Write};
use crate::patch::{self, apply::Apply};
use crate::schema::{self, Schema};
use crate::status::Status;
use crate::subresources::scale::ScalePaths;

impl Scope<'_> {
    /// Returns the schema of the path's kind.
    pub(crate) fn schema(&self) -> Arc<Schema> {
        match &self.kind.custom {
            Some(custom) => custom.types.clone(),
            None => schema::builtin(&self.kind.schema).unwrap_or_else(|| {
                let open = Schema::from_structural(&self.kind.kind, None, true);
                Arc::new(open.expect("a schema that allows everything is structural"))
            }),
        }
    }

    /// Returns true if the kind comes from a definition.
    pub(crate) fn is_custom(&self) -> bool {
        self.kind.custom.is_some()
    }

    /// Returns the fields of a custom kind that its Scale shows; `None` for built-in kinds.
    pub(crate) fn scale_paths(&self) -> Option<ScalePaths> {
        let scale = self.kind.custom.as_ref()?.scale.as_ref()?;
        Some(ScalePaths {
            spec_replicas: scale.spec_replicas.clone(),
            status_replicas: scale.status_replicas.clone(),
            label_selector: scale.label_selector.clone(),
        })
    }

    /// Updates managedFields for the changes by `manager`.
    pub(crate) fn manage(&self, old: Option<&Value>, mut new: Value, manager: &str) -> Value {
        let schema = self.schema();
        let fits = |object: &Value| patch::apply::fits(&schema, object);
        if self.is_custom() && !(fits(&new) && old.is_none_or(fits)) {
            // Upstream cannot track the fields of an object that does not fit its type, and drops all owners.
            managedfields::take_managed_fields(&mut new);
            return new;
        }
        let api_version = self.kind.api_version();
        managedfields::update(&schema, old, &mut new, &self.ownership(manager, &api_version));
        new
    }

    fn ownership<'w>(&'w self, manager: &'w str, api_version: &'w str) -> Write<'w> {
        let subresource = self.path.subresource.as_str();
        let reset = match (self.is_custom(), subresource) {
            (false, _) => managedfields::reset_fields(&self.kind.schema, subresource),
            (true, "status") => managedfields::CUSTOM_STATUS,
            (true, _) if self.kind.subresource("status").is_some() => managedfields::CUSTOM_MAIN,
            (true, _) => &[],
        };
        Write { manager, api_version, subresource, reset, now: self.server.clock().now() }
    }

    /// Applies the body by server-side apply; returns the object with defaults.
    pub(crate) fn applied(&self, old: Option<&Value>, manager: &str, force: bool) -> Result<Value, Status> {
        let (config, again) = self.applied_config()?;
        let applied = self.apply_config(old, config, manager, force)?;
        self.judge_repetitions(again)?;
        Ok(applied)
    }

    /// Reports duplicate keys in the body of a server-side apply as an error or as warnings. Call it after all other
    /// checks.
    pub(crate) fn judge_repetitions(&self, again: Vec<String>) -> Result<(), Status> {
        match self.query.get("fieldValidation").unwrap_or_default() {
            "Ignore" => {}
            "Strict" if !again.is_empty() => {
                let why = yaml::complaints(&again);
                let why = format!("error strict decoding YAML: error converting YAML to JSON: {why}");
                return Err(Status::bad_request(why));
            }
            _ => again.into_iter().for_each(|warning| self.warn(warning)),
        }
        Ok(())
    }

    /// Decodes the body of a server-side apply, an object in YAML or JSON. Also returns complaints about duplicate
    /// keys.
    pub(crate) fn applied_config(&self) -> Result<(Value, Vec<String>), Status> {
        let refuse = |why: String| Status::bad_request(format!("error decoding YAML: {why}"));
        let read =
            yaml::to_json(&self.request.body).map_err(|why| refuse(format!("error converting YAML to JSON: {why}")))?;
        let config: Value = serde_json::from_slice(&read.json).map_err(|error| refuse(error.to_string()))?;
        if config.is_null() {
            return Err(Status::bad_request("invalid object type: /, Kind="));
        }
        if !config.is_object() {
            let found = go_type(&config);
            return Err(refuse(format!(
                "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
            )));
        }
        Ok((config, read.again))
    }

    /// Applies `config` by server-side apply; returns the object with defaults.
    pub(crate) fn apply_config(
        &self,
        old: Option<&Value>,
        config: Value,
        manager: &str,
        force: bool,
    ) -> Result<Value, Status> {
        let api_version = self.kind.api_version();
        let request = Apply { write: self.ownership(manager, &api_version), force, kind: &self.kind.kind };
        let mut applied = patch::apply::apply(&self.schema(), old, config, &request)?;
        self.kind.strategy.default(&mut applied);
        Ok(applied)
    }
}
