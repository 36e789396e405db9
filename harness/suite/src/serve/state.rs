//! Saved states of a world: all objects and the time.

use jiff::Timestamp;
use plumbline_apiserver::{ApiServer, ResourceId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Version of the format.
const API_VERSION: &str = "plumbline.dev/v1";

/// Value of `kind`.
const KIND: &str = "WorldState";

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
    pub fn of(server: &ApiServer) -> Result<Self, String> {
        let definitions = ResourceId::new("apiextensions.k8s.io", "customresourcedefinitions");
        let mut resources = server.stored_resources();
        // A custom resource can only be restored once it is defined.
        resources.sort_by_key(|resource| *resource != definitions);
        let mut objects = Vec::new();
        for object in resources.iter().flat_map(|resource| server.list(resource, None)) {
            let value = serde_json::to_value(object.value());
            objects.push(value.map_err(|error| format!("{}: {error}", object.key()))?);
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
    pub fn check(&self) -> Result<(), String> {
        if self.api_version != API_VERSION {
            return Err(format!("apiVersion is {:?}; this program reads {API_VERSION:?}", self.api_version));
        }
        if self.kind != KIND {
            return Err(format!("kind is {:?}, not {KIND:?}", self.kind));
        }
        Ok(())
    }

    /// Puts the objects into a new server.
    ///
    /// # Errors
    ///
    /// Returns the object that the server refuses, with the reason.
    pub fn restore(&self, server: &ApiServer) -> Result<(), String> {
        self.objects.iter().try_for_each(|object| {
            server.seed([object.clone()]).map_err(|error| {
                let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
                format!("{} {:?}: {error}", text("/kind"), text("/metadata/name"))
            })
        })
    }
}
