//! The test's own requests: typed, dynamic and YAML objects.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::panic::Location;
use std::rc::Rc;

use http::{HeaderValue, Method, header};
use http_body_util::BodyExt as _;
use kube::core::crd::v1::CustomResourceExt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::cluster::World;
use super::controllers::TaskOutput;
use super::error::{Error, Result};
use super::resources::{NAMESPACE, ResourceCache, served_resources};
use crate::apiserver::service::into_response;
use crate::apiserver::{ApiRequest, ResourceId};
use crate::fixture::pattern::{Resource, Resources, Target};
use crate::fixture::words;
use crate::metadata;
use crate::transcript::{RecordedJson, USER_AGENT_OF_STEPS};

const JSON: &str = "application/json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// The server's message that there is no such object.
struct NotFound(String);

/// A request of the test.
struct WorldRequest<'a> {
    method: Method,
    path: String,
    content_type: &'static str,
    body: Option<&'a Value>,
    /// The object, for errors: `pods/a`.
    about: String,
}

impl World {
    /// Creates the custom resource definition of a type, such as one with `#[derive(CustomResource)]`, and waits until
    /// it is served. Definitions in YAML are created like other objects: `t.create(include_str!("crd.yaml"))`.
    ///
    /// # Errors
    ///
    /// Returns the server's answer if the definition is invalid, or the condition that keeps it from being served.
    #[track_caller]
    pub fn define<K: CustomResourceExt>(&self) -> impl Future<Output = Result> + '_ {
        let place = Location::caller();
        let definition = manifests(&K::crd());
        async move { self.create_all(definition).await.map(|_| ()).map_err(|error| error.at(place)) }
    }

    /// Adds objects without a request: without admission, validation and record, for the state before the test. Times
    /// of creation and status are taken over.
    ///
    /// # Errors
    ///
    /// Returns an error if an object is of no known kind.
    #[track_caller]
    pub fn seed(&self, objects: impl IntoIterator<Item = impl Serialize>) -> Result {
        here!(self.seed_all(objects.into_iter().map(|object| manifests(&object)).collect()))
    }

    fn seed_all(&self, objects: Vec<Result<Vec<Value>>>) -> Result {
        let all = objects.into_iter().collect::<Result<Vec<Vec<Value>>>>()?.concat();
        let mut added = Vec::new();
        for object in &all {
            let (resource, namespace, name) = self.place_of(object)?;
            let id = ResourceId::new(&resource.group, &resource.plural);
            added.push((id, namespace.unwrap_or_default(), name));
        }
        self.server().seed(all)?;
        let stored = added.iter().filter_map(|(id, namespace, name)| self.server().get(id, namespace, name));
        self.initial.borrow_mut().extend(stored.map(RecordedJson::from));
        Ok(())
    }

    /// Creates an object: a typed one, a `DynamicObject`, a JSON value, or YAML with one or more documents. Objects
    /// without a namespace are created in `default`. Returns what the server stored.
    ///
    /// # Errors
    ///
    /// Returns the server's answer if it refuses an object, or the position of a syntax error in YAML.
    #[track_caller]
    pub fn create<'w>(
        &'w self,
        object: &'w (impl Serialize + ?Sized),
    ) -> impl Future<Output = Result<Vec<Value>>> + 'w {
        let place = Location::caller();
        let objects = manifests(object);
        async move { self.create_all(objects).await.map_err(|error| error.at(place)) }
    }

    async fn create_all(&self, objects: Result<Vec<Value>>) -> Result<Vec<Value>> {
        let mut stored = Vec::new();
        for object in objects? {
            let (resource, namespace, name) = self.place_of(&object)?;
            let made = self
                .store(WorldRequest {
                    method: Method::POST,
                    path: path(&resource, namespace.as_deref(), ""),
                    content_type: JSON,
                    body: Some(&object),
                    about: format!("{}/{name}", resource.plural),
                })
                .await?;
            stored.push(made);
        }
        Ok(stored)
    }

    /// Sends an object; a definition of custom resources is served when this returns.
    async fn store(&self, request: WorldRequest<'_>) -> Result<Value> {
        let made = self.send(request).await?;
        if made["kind"] == "CustomResourceDefinition" {
            self.wait_until_served(&made).await?;
        }
        Ok(made)
    }

    async fn wait_until_served(&self, definition: &Value) -> Result {
        crate::time::settle().await;
        self.resources.replace(None);
        let name = metadata::name(definition);
        let id = ResourceId::new("apiextensions.k8s.io", "customresourcedefinitions");
        let stored: Value = self.server().get(&id, "", name).map_or(Value::Null, |stored| stored.value().into());
        let conditions = stored["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
        if conditions.iter().any(|condition| condition["type"] == "Established" && condition["status"] == "True") {
            return Ok(());
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let bad = conditions.iter().filter(|condition| condition["status"] != "True");
        let bad: Vec<String> = bad.map(|one| format!("{}: {}", text(&one["type"]), text(&one["message"]))).collect();
        Err(Error::new(format!("the definition {name} is not served: {}", bad.join("; "))))
    }

    /// Applies an object server-side, as the field manager `user` with force: creates it, or changes the fields that it
    /// names. Takes the same forms as [`World::create`].
    ///
    /// # Errors
    ///
    /// As [`World::create`].
    #[track_caller]
    pub fn apply<'w>(&'w self, object: &'w (impl Serialize + ?Sized)) -> impl Future<Output = Result<Vec<Value>>> + 'w {
        let place = Location::caller();
        let objects = manifests(object);
        async move { self.apply_all(objects).await.map_err(|error| error.at(place)) }
    }

    async fn apply_all(&self, objects: Result<Vec<Value>>) -> Result<Vec<Value>> {
        let mut stored = Vec::new();
        for mut object in objects? {
            // Typed objects that were read have fields that an apply must not have.
            metadata::remove(&mut object, &["managedFields"]);
            let (resource, namespace, name) = self.place_of(&object)?;
            let made = self
                .store(WorldRequest {
                    method: Method::PATCH,
                    path: format!("{}?fieldManager=user&force=true", path(&resource, namespace.as_deref(), &name)),
                    content_type: APPLY,
                    body: Some(&object),
                    about: format!("{}/{name}", resource.plural),
                })
                .await?;
            stored.push(made);
        }
        Ok(stored)
    }

    /// Returns an object by its type and name; `namespace:name` names one in another namespace than `default`.
    ///
    /// # Errors
    ///
    /// Returns an error with the names of those that exist if there is no such object, or if it does not fit the type.
    #[track_caller]
    pub fn get<'w, K>(&'w self, name: &'w str) -> impl Future<Output = Result<K>> + 'w
    where
        K: kube::Resource<DynamicType: Default> + DeserializeOwned,
    {
        let place = Location::caller();
        async move {
            let target = self.target_of::<K>(name).map_err(|error| error.at(place))?;
            let object = self.read(&target).await.map_err(|error| error.at(place))?;
            decode(object, &target).map_err(|error| error.at(place))
        }
    }

    /// Returns all objects of a type, in all namespaces.
    ///
    /// # Errors
    ///
    /// Returns an error if the server refuses, or if one does not fit the type.
    #[track_caller]
    pub fn list<K>(&self) -> impl Future<Output = Result<Vec<K>>> + '_
    where
        K: kube::Resource<DynamicType: Default> + DeserializeOwned,
    {
        let place = Location::caller();
        async move {
            let target = self.target_of::<K>("*").map_err(|error| error.at(place))?;
            let items = self.items(&target.resource).await.map_err(|error| error.at(place))?;
            let decoded = items.into_iter().map(|item| decode(item, &target));
            decoded.collect::<Result<Vec<K>>>().map_err(|error| error.at(place))
        }
    }

    /// Returns an object by its name in the words of fixtures, `pods/a` or `other:deployments/web`; `None` if there is
    /// none.
    ///
    /// # Errors
    ///
    /// Returns an error if the text names no object.
    #[track_caller]
    pub fn object<'w>(&'w self, name: &'w str) -> impl Future<Output = Result<Option<Value>>> + 'w {
        let place = Location::caller();
        async move {
            let target = self.target(name).map_err(|error| error.at(place))?;
            let read = self.try_read(&target).await.map_err(|error| error.at(place))?;
            Ok(read.ok())
        }
    }

    /// Reads an object, changes it, and writes it back.
    ///
    /// # Errors
    ///
    /// As [`World::get`], and if the server refuses the change.
    #[track_caller]
    pub fn edit<'w, K>(
        &'w self,
        name: &'w str,
        change: impl FnOnce(&mut K) + 'w,
    ) -> impl Future<Output = Result<K>> + 'w
    where
        K: kube::Resource<DynamicType: Default> + DeserializeOwned + Serialize + 'w,
    {
        let place = Location::caller();
        async move {
            let edited = async {
                let target = self.target_of::<K>(name)?;
                let mut object: K = decode(self.read(&target).await?, &target)?;
                change(&mut object);
                let body = serde_json::to_value(&object)?;
                let stored = self.write(Method::PUT, &target, JSON, Some(&body)).await?;
                decode(stored, &target)
            };
            edited.await.map_err(|error| error.at(place))
        }
    }

    /// Merges `patch` into an object that is named as in [`World::object`]; `deployments/web/status` names a
    /// subresource.
    ///
    /// # Errors
    ///
    /// Returns the server's answer if it refuses.
    #[track_caller]
    pub fn patch<'w>(&'w self, name: &'w str, patch: &'w Value) -> impl Future<Output = Result<Value>> + 'w {
        let place = Location::caller();
        async move {
            let target = self.target(name).map_err(|error| error.at(place))?;
            let patched = self.write(Method::PATCH, &target, MERGE_PATCH, Some(patch)).await;
            patched.map_err(|error| error.at(place))
        }
    }

    /// Deletes an object that is named as in [`World::object`], such as `caches/c0`.
    ///
    /// # Errors
    ///
    /// Returns the server's answer if there is none or it refuses.
    #[track_caller]
    pub fn delete<'w>(&'w self, name: &'w str) -> impl Future<Output = Result> + 'w {
        let place = Location::caller();
        async move {
            let deleted = async {
                let target = self.target(name)?;
                self.write(Method::DELETE, &target, JSON, Some(&json!({}))).await.map(|_| ())
            };
            deleted.await.map_err(|error| error.at(place))
        }
    }

    /// Starts a controller with the rights of a service account only: `rbac` is YAML with roles and bindings, such as
    /// those in the controller's own manifests. What they do not grant is answered with 403.
    ///
    /// # Errors
    ///
    /// Returns an error if `rbac` does not bind exactly one service account, if the server refuses an object, or as
    /// [`World::run`].
    #[track_caller]
    pub fn run_as<'w, F>(
        &'w self,
        name: &'w str,
        rbac: &'w str,
        start: impl Fn(kube::Client) -> F + Send + Sync + 'static,
    ) -> impl Future<Output = Result> + 'w
    where
        F: Future<Output: TaskOutput> + Send + 'static,
    {
        let place = Location::caller();
        async move {
            let started = async {
                let token = self.token_of(rbac).await?;
                self.register(name, start, Some(token))
            };
            started.await.map_err(|error| error.at(place))
        }
    }

    /// Creates the objects of `rbac` and the service account that they bind, and returns a token of it.
    async fn token_of(&self, rbac: &str) -> Result<String> {
        let objects = manifests(rbac)?;
        let subjects = objects.iter().flat_map(|object| object["subjects"].as_array().into_iter().flatten());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let accounts: BTreeSet<(String, String)> = subjects
            .filter(|subject| subject["kind"] == "ServiceAccount")
            .map(|subject| (text(&subject["namespace"]), text(&subject["name"])))
            .collect();
        let [(namespace, account)] = &accounts.iter().collect::<Vec<_>>()[..] else {
            return Err(Error::new(format!(
                "the bindings name {} service accounts; name exactly one in `subjects`",
                accounts.len()
            )));
        };
        let namespace = if namespace.is_empty() { NAMESPACE } else { namespace };
        if namespace != NAMESPACE && self.try_read(&self.target(&format!("namespaces/{namespace}"))?).await?.is_err() {
            let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
            self.create_all(Ok(vec![object])).await?;
        }
        let given =
            objects.iter().any(|object| object["kind"] == "ServiceAccount" && metadata::name(object) == *account);
        let meta = json!({"name": account, "namespace": namespace});
        if !given {
            let object = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta});
            self.apply_all(Ok(vec![object])).await?;
        }
        for object in objects {
            self.apply_all(Ok(vec![object])).await?;
        }
        let target = self.target(&format!("{namespace}:serviceaccounts/{account}/token"))?;
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
        let token = self.write(Method::POST, &target, JSON, Some(&request)).await?;
        Ok(text(&token["status"]["token"]))
    }

    /// Returns the resources that can be named now.
    pub(super) fn resources(&self) -> Rc<Resources> {
        let id = ResourceId::new("apiextensions.k8s.io", "customresourcedefinitions");
        let stored = self.server().list(&id, None);
        let names: Vec<String> = stored.iter().map(|definition| definition.name().to_owned()).collect();
        let mut cache = self.resources.borrow_mut();
        if let Some(cache) = cache.as_ref().filter(|cache| cache.definitions == names) {
            return cache.resources.clone();
        }
        let resources = Rc::new(served_resources(self.server()));
        *cache = Some(ResourceCache { definitions: names, resources: resources.clone() });
        resources
    }

    /// Parses the name of an object in the words of fixtures.
    pub(super) fn target(&self, name: &str) -> Result<Target> {
        words::object(name, NAMESPACE, &self.resources()).map_err(Error::from)
    }

    fn target_of<K: kube::Resource<DynamicType: Default>>(&self, name: &str) -> Result<Target> {
        let kind = K::DynamicType::default();
        let resource = self.resource(&K::api_version(&kind), &K::kind(&kind))?;
        let (namespace, name) = match name.split_once(':').filter(|_| resource.namespaced) {
            Some((namespace, name)) => (namespace, name),
            None => (NAMESPACE, name),
        };
        let namespace = resource.namespaced.then(|| namespace.to_owned());
        Ok(Target { resource, namespace, name: name.to_owned(), subresource: None })
    }

    fn resource(&self, api_version: &str, kind: &str) -> Result<Resource> {
        self.resources().of_kind(api_version, kind).map_err(|fail| {
            let hint = fail.hint.filter(|hint| hint.starts_with("did you mean apiVersion"));
            let hint = hint.unwrap_or_else(|| {
                format!("create its definition first: t.define::<{kind}>().await?, or t.create(…) with the YAML")
            });
            Error::new(format!("{}: {hint}", fail.message))
        })
    }

    /// Returns resource, namespace and name of a manifest.
    fn place_of(&self, object: &Value) -> Result<(Resource, Option<String>, String)> {
        let (Some(api_version), Some(kind)) = (object["apiVersion"].as_str(), object["kind"].as_str()) else {
            return Err(Error::new(format!("an object needs `apiVersion` and `kind`: {object}")));
        };
        let resource = self.resource(api_version, kind)?;
        let namespace = metadata::namespace(object).unwrap_or(NAMESPACE).to_owned();
        let text = |field: &str| metadata::text(object, field);
        let name = text("name").or_else(|| text("generateName")).unwrap_or_default();
        Ok((resource.clone(), resource.namespaced.then_some(namespace), name.to_owned()))
    }

    async fn read(&self, target: &Target) -> Result<Value> {
        match self.try_read(target).await? {
            Ok(object) => Ok(object),
            Err(NotFound(answer)) => {
                let items = self.items(&target.resource).await?;
                let name = |item: &Value| {
                    let namespace = metadata::namespace(item).filter(|namespace| *namespace != NAMESPACE);
                    let prefix = namespace.map(|namespace| format!("{namespace}:")).unwrap_or_default();
                    format!("{prefix}{}", metadata::name(item))
                };
                let names: Vec<String> = items.iter().map(name).collect();
                let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                Err(Error::new(format!("{target}: {answer}; {} that exist: {known}", target.resource.plural)))
            }
        }
    }

    /// Reads an object that may not exist.
    async fn try_read(&self, target: &Target) -> Result<std::result::Result<Value, NotFound>> {
        let (code, body) = self.exchange(&self.request(Method::GET, target, JSON, None)).await?;
        match code {
            200..300 => Ok(Ok(body)),
            404 => Ok(Err(NotFound(body["message"].as_str().unwrap_or("not found").to_owned()))),
            code => Err(refusal("GET", target, code, &body)),
        }
    }

    async fn items(&self, resource: &Resource) -> Result<Vec<Value>> {
        let about = resource.plural.to_string();
        let request =
            WorldRequest { method: Method::GET, path: path(resource, None, ""), content_type: JSON, body: None, about };
        let mut list = self.send(request).await?;
        let api_version = Value::from(resource.api_version());
        let kind = Value::from(&*resource.kind);
        let mut items = match list["items"].take() {
            Value::Array(items) => items,
            _ => Vec::new(),
        };
        for item in &mut items {
            (item["apiVersion"], item["kind"]) = (api_version.clone(), kind.clone());
        }
        Ok(items)
    }

    async fn write(
        &self,
        method: Method,
        target: &Target,
        content_type: &'static str,
        body: Option<&Value>,
    ) -> Result<Value> {
        self.send(self.request(method, target, content_type, body)).await
    }

    #[expect(clippy::unused_self, reason = "reads like the other requests")]
    fn request<'a>(
        &self,
        method: Method,
        target: &Target,
        content_type: &'static str,
        body: Option<&'a Value>,
    ) -> WorldRequest<'a> {
        let mut path = path(&target.resource, target.namespace.as_deref(), &target.name);
        if let Some(subresource) = &target.subresource {
            path = format!("{path}/{subresource}");
        }
        WorldRequest { method, path, content_type, body, about: target.to_string() }
    }

    async fn send(&self, request: WorldRequest<'_>) -> Result<Value> {
        let (code, body) = self.exchange(&request).await?;
        if (200..300).contains(&code) {
            return Ok(body);
        }
        Err(refusal(request.method.as_str(), &request.about, code, &body))
    }

    /// Sends a request; returns the code and the body of the answer.
    async fn exchange(&self, request: &WorldRequest<'_>) -> Result<(u16, Value)> {
        let mut sent = ApiRequest::new(request.method.clone(), &request.path);
        sent.headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT_OF_STEPS));
        sent.headers.insert(header::ACCEPT, HeaderValue::from_static(JSON));
        if let Some(body) = request.body {
            sent.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(request.content_type));
            sent.body = body.to_string().into();
        }
        let reply = self.server().handle(sent).await;
        if reply.drop_connection {
            let method = &request.method;
            let about = &request.about;
            let text = format!("{method} {about}: the connection broke, because of an outage or a fault of the test");
            return Err(Error::new(text));
        }
        let response = into_response(reply);
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await?.to_bytes();
        let text = || Value::String(String::from_utf8_lossy(&bytes).into_owned());
        Ok((code, serde_json::from_slice(&bytes).unwrap_or_else(|_| text())))
    }
}

fn refusal(method: &str, about: impl Display, code: u16, body: &Value) -> Error {
    let message = body["message"].as_str().map_or_else(|| body.to_string(), str::to_owned);
    let reason = body["reason"].as_str().unwrap_or_default();
    Error::new(format!("{method} {about}: {code} {reason}: {message}"))
}

fn decode<K: DeserializeOwned>(object: Value, target: &Target) -> Result<K> {
    serde_json::from_value(object).map_err(|error| {
        let kind = std::any::type_name::<K>();
        Error::new(format!("{}/{} does not fit {kind}: {error}", target.resource.plural, target.name))
    })
}

/// Returns the path of an object, or of a collection if `name` is empty.
fn path(resource: &Resource, namespace: Option<&str>, name: &str) -> String {
    let root = if resource.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", resource.group) };
    let namespace = namespace.map(|namespace| format!("/namespaces/{namespace}")).unwrap_or_default();
    let name = if name.is_empty() { String::new() } else { format!("/{name}") };
    format!("{root}/{}{namespace}/{}{name}", resource.version, resource.plural)
}

/// Returns the manifests in `object`: an object, a list of objects, or a text with YAML documents.
///
/// Only this is compiled for each type of objects, in the crate of the test; the rest is compiled once, here.
fn manifests(object: &(impl Serialize + ?Sized)) -> Result<Vec<Value>> {
    split(serde_json::to_value(object)?)
}

fn split(object: Value) -> Result<Vec<Value>> {
    match object {
        Value::String(text) => {
            let documents: Vec<Value> = serde_saphyr::from_multiple(&text)
                .map_err(|error| Error::new(format!("the text is not YAML of objects: {}", error.without_snippet())))?;
            let objects: Vec<Value> = documents.into_iter().filter(|document| !document.is_null()).collect();
            match objects.iter().find(|document| !document.is_object()) {
                Some(other) => Err(Error::new(format!("a YAML document is no object: {other}"))),
                None if objects.is_empty() => Err(Error::new("the text has no YAML document")),
                None => Ok(objects),
            }
        }
        Value::Array(items) => Ok(items),
        object @ Value::Object(_) => Ok(vec![object]),
        other => Err(Error::new(format!("an object is expected, typed, as JSON or as YAML; this is {other}"))),
    }
}
