//! Conversion of objects to other versions of their kind: for field ownership and for admission.
//! See `versionconverter.go` in `staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal`, and
//! `pkg/apiserver/conversion/converter.go` in `staging/src/k8s.io/apiextensions-apiserver`.

use std::sync::Arc;

use parking_lot::Mutex;

use super::request_scope::RequestScope;
use crate::crd::{WebhookConversion, conversion};
use crate::json::Value;
use crate::managedfields::{VersionConversionError, VersionConverter};
use crate::patch;
use crate::registry::Resource;
use crate::registry::custom::CustomResource;
use crate::schema::{self, Schema};
use crate::server::ApiServer;
use crate::status::Status;

/// An object and the version to which it is converted.
type Question = (Value, String);

/// Conversions by webhook during a request: those that are done, and those that are wanted. Field ownership is computed
/// without waiting; [`RequestScope::resolved`] waits between its attempts.
#[derive(Debug, Default)]
pub(super) struct Conversions {
    known: Vec<(Question, Result<Value, VersionConversionError>)>,
    wanted: Vec<Question>,
}

impl Conversions {
    /// Returns the outcome of a conversion; notes the question if it is new.
    fn ask(&mut self, object: &Value, version: &str) -> Result<Value, VersionConversionError> {
        let asked = |question: &Question| question.1 == version && question.0 == *object;
        if let Some((_, known)) = self.known.iter().find(|(question, _)| asked(question)) {
            return known.clone();
        }
        self.wanted.push((object.clone(), version.to_owned()));
        Err(VersionConversionError::NotAsked)
    }
}

impl RequestScope<'_> {
    /// Repeats an attempt until the outcomes of all conversions by webhook that it needs are known.
    pub(crate) async fn resolved<T>(&self, mut attempt: impl FnMut() -> T) -> T {
        loop {
            let outcome = attempt();
            let wanted = std::mem::take(&mut self.conversions.lock().wanted);
            let Some(webhook) = self.webhook().filter(|_| !wanted.is_empty()) else { return outcome };
            for (object, version) in wanted {
                let converted = by_webhook(self.server, webhook, object.clone(), &version).await;
                let converted = converted.map_err(|status| VersionConversionError::Webhook(status.message));
                self.conversions.lock().known.push(((object, version), converted));
            }
        }
    }
}

async fn by_webhook(
    server: &ApiServer,
    webhook: &WebhookConversion,
    object: Value,
    version: &str,
) -> Result<Value, Status> {
    let mut converted = Box::pin(conversion::convert(server, webhook, vec![object], version)).await?;
    Ok(converted.pop().unwrap_or_default())
}

/// Returns an object in another version of its resource, as admission sees it.
///
/// # Errors
/// The conversion webhook fails.
pub(super) async fn admitted(
    server: &ApiServer,
    own: &Resource,
    other: &Resource,
    object: Value,
) -> Result<Value, Status> {
    match other.custom.as_ref().and_then(|custom| custom.conversion.as_ref()) {
        Some(webhook) => by_webhook(server, webhook, object, &other.api_version()).await,
        None => Ok(own.converted_to(other, object)),
    }
}

/// Converts objects of the request's kind between its versions.
pub(super) struct KindVersions<'s> {
    kind: &'s Resource,
    server: &'s ApiServer,
    conversions: &'s Mutex<Conversions>,
}

impl<'s> KindVersions<'s> {
    pub(super) fn of(scope: &'s RequestScope<'_>) -> Self {
        Self { kind: &scope.kind, server: scope.server, conversions: &scope.conversions }
    }

    fn convert_custom(
        &self,
        custom: &CustomResource,
        object: &Value,
        version: &str,
    ) -> Result<(Value, Arc<Schema>), VersionConversionError> {
        let own = self.kind.api_version();
        let invalid = || VersionConversionError::UnknownVersion(version.to_owned());
        let types = if version == own { Some(&custom.types) } else { custom.other(version).map(|other| &other.types) };
        let types = types.ok_or_else(invalid)?;
        let mut object = object.clone();
        if custom.conversion.is_none() {
            object["apiVersion"] = version.into();
        } else {
            // The version of the request is the hub.
            for step in [own.as_str(), version] {
                if object["apiVersion"] != step {
                    object = self.conversions.lock().ask(&object, step)?;
                }
            }
        }
        match patch::apply::misfit(types, &object) {
            Some(why) => Err(VersionConversionError::Misfit(why)),
            None => Ok((object, types.clone())),
        }
    }
}

impl std::fmt::Debug for KindVersions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KindVersions").field("kind", &self.kind.kind).finish_non_exhaustive()
    }
}

impl VersionConverter for KindVersions<'_> {
    fn convert(
        &self,
        object: &Value,
        api_version: &str,
    ) -> Result<Option<(Value, Arc<Schema>)>, VersionConversionError> {
        if let Some(custom) = &self.kind.custom {
            return self.convert_custom(custom, object, api_version).map(Some);
        }
        let registry = self.server.registry();
        let in_version = |version: &str| {
            let (group, version) = version.split_once('/').unwrap_or(("", version));
            registry.get(group, version, &self.kind.plural)
        };
        let present = object["apiVersion"].as_str().unwrap_or_default();
        let (Some(own), Some(other)) = (in_version(present), in_version(api_version)) else { return Ok(None) };
        let Some(types) = schema::builtin(&other.schema) else { return Ok(None) };
        let mut converted = own.converted_to(other, object.clone());
        converted["apiVersion"] = api_version.into();
        Ok(Some((converted, types)))
    }
}
