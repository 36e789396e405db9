//! The resources that a server has, for names in the words of fixtures.

use std::rc::Rc;
use std::sync::OnceLock;

use futures::FutureExt as _;
use http::{HeaderValue, Method, header};
use serde_json::Value;

use crate::apiserver::request::ReplyBody;
use crate::apiserver::{ApiRequest, ApiServer, ResourceId};
use crate::expect::world::{kinds, resource_of_definition};
use crate::fixture::Resource;
use crate::fixture::pattern::Resources;
use crate::metadata;

/// Returns the resources of a server that texts in the words of fixtures can name: the built-in ones, and those that
/// its definitions declare.
#[must_use]
pub fn served_resources(server: &ApiServer) -> Resources {
    let mut resources = Resources::default();
    for definition in server.list(&ResourceId::new("apiextensions.k8s.io", "customresourcedefinitions"), None) {
        let definition: Value = definition.value().into();
        resources.declare(resource_of_definition(&definition));
        let short = definition["spec"]["names"]["shortNames"].as_array().into_iter().flatten();
        let short = short.filter_map(|name| name.as_str().map(str::to_owned)).collect();
        resources.serve(resource_of_definition(&definition), short);
    }
    for (resource, short) in built_in() {
        resources.serve(resource.clone(), short.clone());
    }
    resources
}

/// Returns the resources of a server with the definitions among `objects` that texts in the words of fixtures can name.
#[must_use]
pub fn server_resources<'o>(objects: impl IntoIterator<Item = &'o Value>) -> Resources {
    let mut resources = kinds(objects);
    for (resource, short) in built_in() {
        resources.serve(resource.clone(), short.clone());
    }
    resources
}

/// Returns the built-in resources of the server, with their short names, as discovery shows them.
fn built_in() -> &'static [(Resource, Vec<String>)] {
    static SERVED: OnceLock<Vec<(Resource, Vec<String>)>> = OnceLock::new();
    SERVED.get_or_init(|| {
        // A server of its own: the request is not in the record of the test, and its faults do not affect it.
        let server = ApiServer::builder().build();
        ["/api", "/apis"].iter().flat_map(|path| discover(&server, path)).collect()
    })
}

fn discover(server: &ApiServer, path: &str) -> Vec<(Resource, Vec<String>)> {
    const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let mut request = ApiRequest::new(Method::GET, path);
    request.headers.insert(header::ACCEPT, HeaderValue::from_static(AGGREGATED));
    // Discovery waits for nothing.
    let Some(reply) = server.handle(request).now_or_never() else { return Vec::new() };
    let ReplyBody::Full(bytes) = reply.body else { return Vec::new() };
    let list: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let items = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut found = Vec::new();
    for group in items(&list["items"]) {
        for version in items(&group["versions"]) {
            for resource in items(&version["resources"]) {
                let short = items(&resource["shortNames"]).iter().map(text).collect();
                let resource = Resource {
                    group: metadata::name(&group).to_owned().into(),
                    version: text(&version["version"]).into(),
                    plural: text(&resource["resource"]).into(),
                    kind: text(&resource["responseKind"]["kind"]).into(),
                    namespaced: resource["scope"] == "Namespaced",
                };
                found.push((resource, short));
            }
        }
    }
    found
}

/// The namespace of objects that name none.
pub(super) const NAMESPACE: &str = "default";

/// The resources that the server had when it had these definitions.
pub(super) struct ResourceCache {
    pub(super) definitions: Vec<String>,
    pub(super) resources: Rc<Resources>,
}
