//! Live reads, for decisions that must not be based on a cache.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube::{Client, Resource};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use super::request::{JSON, request};
use crate::api::cache_object::CacheObject;
use crate::api::object_key::ObjectKey;
use crate::runtime::clock::Clock;
use crate::runtime::error::ApiError;
use crate::runtime::url;

/// Time for which a discovery response is reused.
pub const DISCOVERY_TTL: Duration = Duration::from_secs(30);

/// Reads live objects, for decisions that must not be based on a cache. Cheap to clone.
#[derive(Clone)]
pub struct Reader {
    client: Client,
    clock: Clock,
    discovery_cache: Arc<Mutex<Vec<DiscoveryEntry>>>,
}

#[derive(Clone)]
struct DiscoveryEntry {
    api_version: String,
    fetched_at: Duration,
    resources: Arc<APIResourceList>,
}

impl Reader {
    /// Creates a reader that uses `client`.
    pub fn new(client: Client, clock: Clock) -> Self {
        Self { client, clock, discovery_cache: Arc::default() }
    }

    /// GETs the object with this key as the view `V`.
    ///
    /// # Errors
    /// [`ApiError`]; [`ApiError::NotFound`] if the object does not exist.
    pub async fn get<V: CacheObject>(&self, key: &ObjectKey) -> Result<V, ApiError> {
        let api_version = V::Resource::api_version(&());
        let plural = V::Resource::plural(&());
        let mut segments = url::group_version(&api_version);
        if !key.namespace.is_empty() {
            segments.extend(["namespaces", &*key.namespace]);
        }
        segments.extend([&*plural, &*key.name]);
        let path = url::path(&segments);
        request(&self.client, Method::GET, &path, JSON, None).await
    }

    /// GETs the `scale` subresource of any kind, e.g. `("apps/v1", "deployments", …)`.
    ///
    /// # Errors
    /// As [`Self::get`]; also [`ApiError::NotFound`] for a kind without scale.
    pub async fn get_scale<T: DeserializeOwned>(
        &self,
        api_version: &str,
        plural: &str,
        key: &ObjectKey,
    ) -> Result<T, ApiError> {
        let mut segments = url::group_version(api_version);
        segments.extend(["namespaces", &*key.namespace, plural, &*key.name, "scale"]);
        let path = url::path(&segments);
        request(&self.client, Method::GET, &path, JSON, None).await
    }

    /// Returns the resources of the group version `api_version`, at most [`DISCOVERY_TTL`] old.
    ///
    /// # Errors
    /// As [`Self::get`]; [`ApiError::NotFound`] if the server does not serve the group version. Errors are not cached.
    pub async fn resources(&self, api_version: &str) -> Result<Arc<APIResourceList>, ApiError> {
        let now = self.clock.monotonic();
        let cached = {
            let mut discovery_cache = self.discovery_cache.lock();
            discovery_cache.retain(|entry| now.saturating_sub(entry.fetched_at) < DISCOVERY_TTL);
            discovery_cache
                .iter()
                .find(|entry| entry.api_version == api_version)
                .map(|entry| Arc::clone(&entry.resources))
        };
        if let Some(cached) = cached {
            return Ok(cached);
        }
        let path = url::path(&url::group_version(api_version));
        let resources: APIResourceList = request(&self.client, Method::GET, &path, JSON, None).await?;
        let resources = Arc::new(resources);
        let entry =
            DiscoveryEntry { api_version: api_version.to_owned(), fetched_at: now, resources: Arc::clone(&resources) };
        self.discovery_cache.lock().push(entry);
        Ok(resources)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::runtime::testing::{MockResponse, failure, script, serve};

    #[tokio::test(start_paused = true)]
    async fn discovery_is_remembered_for_thirty_seconds_but_not_its_errors() {
        let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
        let resources = || MockResponse::Json(200, json!({ "groupVersion": "g/v1", "resources": [] }));
        let gone = failure(404, "NotFound");
        let (client, log) = serve(&clock, script(vec![gone, resources(), resources()]));
        let reader = Reader::new(client, clock.clone());
        assert!(reader.resources("g/v1").await.unwrap_err().is_not_found());
        for _ in 0..3 {
            assert_eq!(reader.resources("g/v1").await.unwrap().group_version, "g/v1");
        }
        assert_eq!(log.lock().len(), 2);
        clock.sleep(DISCOVERY_TTL).await;
        reader.resources("g/v1").await.unwrap();
        assert_eq!(log.lock().last().unwrap().line, "GET /apis/g/v1");
        assert_eq!(log.lock().len(), 3);
    }
}
