//! Saved states of a world: all objects and the time.

use jiff::Timestamp;
use plumbline_apiserver::{ApiServer, ResourceId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::WorldError;

/// Version of the format.
pub(super) const API_VERSION: &str = "plumbline.dev/v1";

/// Value of `kind`.
pub(super) const KIND: &str = "WorldState";

/// The state of a world: all objects and the time. Faults, the transcript and open watches are not part of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorldState {
    api_version: String,
    kind: String,
    /// The time of the world.
    pub time: Timestamp,
    /// The latest resourceVersion. A restored world counts from the beginning again.
    pub resource_version: String,
    /// All objects in their storage versions; definitions of custom resources come first.
    pub objects: Vec<Value>,
}

impl WorldState {
    /// Returns the state of a server. Call this in the runtime of the server's clock.
    ///
    /// # Errors
    ///
    /// Returns the object that cannot be written as JSON.
    pub fn of(server: &ApiServer) -> Result<Self, WorldError> {
        let definitions = ResourceId::new("apiextensions.k8s.io", "customresourcedefinitions");
        let mut resources = server.stored_resources();
        // A custom resource can only be restored once it is defined.
        resources.sort_by_key(|resource| *resource != definitions);
        let mut objects = Vec::new();
        for object in resources.iter().flat_map(|resource| server.list(resource, None)) {
            let value = serde_json::to_value(object.value());
            objects.push(value.map_err(|error| WorldError::NotSaved { key: object.key().to_string(), error })?);
        }
        Ok(Self {
            api_version: API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            time: server.clock().now(),
            resource_version: server.revision().to_string(),
            objects,
        })
    }

    /// Returns an error unless this is a state in the version of this program.
    ///
    /// # Errors
    ///
    /// Returns the field that is wrong, with the right value.
    pub fn check(&self) -> Result<(), WorldError> {
        if self.api_version != API_VERSION {
            return Err(WorldError::ApiVersion(self.api_version.clone()));
        }
        if self.kind != KIND {
            return Err(WorldError::Kind(self.kind.clone()));
        }
        Ok(())
    }

    /// Puts the objects into a new server.
    ///
    /// # Errors
    ///
    /// Returns the object that the server refuses, with the reason.
    pub fn restore(&self, server: &ApiServer) -> Result<(), WorldError> {
        self.objects.iter().try_for_each(|object| {
            server.seed([object.clone()]).map_err(|error| {
                let text = |pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
                WorldError::NotRestored { kind: text("/kind"), name: text("/metadata/name"), error }
            })
        })
    }
}
