//! Content negotiation: the media type and the representation of a reply that a client accepts, and the refusals of
//! other representations. Follows
//! `staging/src/k8s.io/apiserver/pkg/endpoints/handlers/negotiation/negotiate.go` of Kubernetes 1.36. PURE.
//!
//! - Replies of handlers: `resource`, `transient` and `stream`, by the `Accept` header and the path
//! - Errors and discovery documents: `prefers_yaml`, `prefers_protobuf`
//! - Indentation of JSON: `wants_pretty`

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderValue, Method};

use crate::json::Value;
use crate::registry::Resource;
use crate::request::{ApiRequest, Query, Reply, ReplyBody, ResourcePath};
use crate::status::Status;
use crate::yaml;

/// Media types that are decoded and encoded, in the order in which errors list them.
pub(crate) const MEDIA_TYPES: [&str; 3] =
    ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];

/// Further media types that routes of collections and watches produce.
pub(crate) const STREAM_MEDIA_TYPES: [&str; 2] =
    ["application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"];

/// A representation of objects other than their own kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Representation {
    /// `as=Table`: rows of cells for display.
    Table,
    /// `as=PartialObjectMetadata`: only the metadata, for one object or in a watch.
    PartialObjectMetadata,
    /// `as=PartialObjectMetadataList`: only the metadata, for a list.
    PartialObjectMetadataList,
}

/// The encoding of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MediaType {
    /// `application/json`.
    Json,
    /// `application/yaml`.
    Yaml,
    /// `application/vnd.kubernetes.protobuf`.
    Protobuf,
}

/// The result of a negotiation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Negotiation {
    /// The encoding of the body.
    pub media: MediaType,
    /// The representation, with its version of group `meta.k8s.io` (`v1` or `v1beta1`).
    pub transform: Option<(Representation, &'static str)>,
}

impl Negotiation {
    /// JSON of the object's own kind.
    pub(crate) const JSON: Self = Self { media: MediaType::Json, transform: None };
    /// Protobuf of the object's own kind.
    pub(crate) const PROTOBUF: Self = Self { media: MediaType::Protobuf, transform: None };
}

/// Negotiates the reply to a request for a resource.
///
/// # Errors
///
/// 406, with another message if upstream's router refuses before it calls a handler.
pub(crate) fn resource(request: &ApiRequest, path: &ResourcePath, kind: &Resource) -> Result<Negotiation, Status> {
    resource_if(request, path, kind, |_| true)
}

/// Negotiates a reply that is not a stored object. It has no table form, so clients that accept only tables are
/// refused before anything is done.
pub(crate) fn transient(request: &ApiRequest, path: &ResourcePath, kind: &Resource) -> Result<Negotiation, Status> {
    resource_if(request, path, kind, |negotiated| !matches!(negotiated.transform, Some((Representation::Table, _))))
}

/// Negotiates the events of a watch, which have no YAML form.
pub(crate) fn stream(request: &ApiRequest, path: &ResourcePath, kind: &Resource) -> Result<Negotiation, Status> {
    let negotiated = resource(request, path, kind)?;
    match negotiated.media {
        MediaType::Yaml => Err(Status::not_acceptable(&STREAM_MEDIA_TYPES)),
        MediaType::Json | MediaType::Protobuf => Ok(negotiated),
    }
}

fn resource_if(
    request: &ApiRequest,
    path: &ResourcePath,
    kind: &Resource,
    fits: impl Fn(&Negotiation) -> bool,
) -> Result<Negotiation, Status> {
    let accepted = request.headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    if kind.is_routed() && !routed(accepted, &MEDIA_TYPES) {
        let collection = request.method == Method::GET && path.name.is_empty();
        let streams: &[&str] = if collection || path.watch { &STREAM_MEDIA_TYPES } else { &[] };
        return Err(Status::not_acceptable_route(&[&MEDIA_TYPES, streams].concat()));
    }
    // Upstream has no protobuf form of custom resources, only of their metadata.
    let encodes = |negotiated: &Negotiation| {
        kind.is_routed() || negotiated.media != MediaType::Protobuf || negotiated.transform.is_some()
    };
    let chosen = negotiate_if(accepted, |negotiated| encodes(negotiated) && fits(negotiated));
    chosen.ok_or_else(|| Status::not_acceptable(&MEDIA_TYPES))
}

/// Returns the 406 for an object when a list of metadata was requested.
pub(crate) fn not_a_list(kind: &Resource) -> Status {
    wrong_shape("PartialObjectMetadataList", "not a list", kind, &kind.kind)
}

/// Returns the 406 for a list when the metadata of one object was requested.
pub(crate) fn is_a_list(kind: &Resource) -> Status {
    wrong_shape("PartialObjectMetadata", "a list", kind, &kind.list_kind)
}

fn wrong_shape(requested: &str, shape: &str, kind: &Resource, go_type: &str) -> Status {
    let package = kind.group.split('.').next().filter(|group| !group.is_empty()).unwrap_or("core");
    let go_type = match (kind.is_unstructured(), go_type == &*kind.list_kind) {
        (false, _) => format!("{package}.{go_type}"),
        (true, false) => "unstructured.Unstructured".to_owned(),
        (true, true) => "unstructured.UnstructuredList".to_owned(),
    };
    let why = format!("you requested {requested}, but the requested object is {shape} (*{go_type})");
    Status::failure(406, "NotAcceptable", why)
}

/// Returns true if errors and discovery documents should be YAML. Replies with objects are negotiated by their
/// handlers.
pub(crate) fn prefers_yaml(request: &ApiRequest) -> bool {
    is_api(request) && wants_yaml(request.header(ACCEPT))
}

/// Returns true if errors should be protobuf. Clients that want tables or metadata get errors in the media type of the
/// first plain object that they accept.
pub(crate) fn prefers_protobuf(request: &ApiRequest) -> bool {
    let accept = request.header(ACCEPT);
    let plain = || negotiate_if(Some(accept), |negotiated| negotiated.transform.is_none());
    is_api(request) && accept.contains("protobuf") && plain() == Some(Negotiation::PROTOBUF)
}

/// Returns true if JSON should be indented: for `?pretty`, for the user agents of curl, Wget and browsers, and for
/// errors sent to clients that do not accept plain objects.
pub(crate) fn wants_pretty(request: &ApiRequest, query: &Query, reply: &Reply) -> bool {
    if !(is_api(request) || request.path == "/version")
        || reply.headers.get(CONTENT_TYPE).is_none_or(|kind| kind != "application/json")
    {
        return false;
    }
    let refused = reply.status >= 400 && !accepts_objects(request.header(ACCEPT));
    let browser = || ["curl", "Wget", "Mozilla/5.0"].iter().any(|name| request.user_agent().starts_with(name));
    let requested = match query.get("pretty").filter(|text| !text.is_empty()) {
        Some(text) => matches!(text, "1" | "t" | "T" | "true" | "TRUE" | "True"),
        None => browser(),
    };
    refused || requested || accepts_pretty(request.header(ACCEPT))
}

/// Returns true if the chosen clause of an `Accept` header has the parameter `pretty=1`.
fn accepts_pretty(accept: &str) -> bool {
    let chosen = || clauses(accept).into_iter().find(|clause| negotiate_clause(clause).is_some());
    accept.contains("pretty") && chosen().is_some_and(|clause| clause.param("pretty") == "1")
}

fn is_api(request: &ApiRequest) -> bool {
    ["/api", "/apis"]
        .iter()
        .any(|root| request.path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

/// One clause of an `Accept` header.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct AcceptClause<'a> {
    /// The type before the slash.
    pub kind: &'a str,
    /// The type after the slash.
    pub subtype: &'a str,
    /// The parameters other than `q`.
    pub params: Vec<(&'a str, &'a str)>,
}

impl<'a> AcceptClause<'a> {
    /// Returns the value of a parameter; `""` if it is absent.
    pub(crate) fn param(&self, name: &str) -> &'a str {
        self.params.iter().find(|(key, _)| *key == name).map_or("", |(_, value)| value)
    }

    fn allows(&self, kind: &str, subtype: &str) -> bool {
        match (self.kind, self.subtype) {
            ("*", "*") => true,
            (own, "*") => own == kind,
            (own, own_subtype) => own == kind && own_subtype == subtype,
        }
    }
}

/// Parses an `Accept` header; returns its clauses by `q`, then by their order.
pub(crate) fn clauses(accept: &str) -> Vec<AcceptClause<'_>> {
    let mut found: Vec<(i32, AcceptClause<'_>)> = accept.split(',').filter_map(clause).collect();
    found.sort_by_key(|(quality, _)| -quality);
    found.into_iter().map(|(_, clause)| clause).collect()
}

fn clause(part: &str) -> Option<(i32, AcceptClause<'_>)> {
    let mut pieces = part.split(';').map(str::trim);
    let (kind, subtype) = match pieces.next()? {
        "" => return None,
        "*" => ("*", "*"),
        media => media.split_once('/')?,
    };
    let mut quality = 1000;
    let mut params = Vec::new();
    for (name, value) in pieces.filter_map(|piece| piece.split_once('=')) {
        let name = name.trim();
        let value = value.trim();
        if name == "q" {
            quality = value.parse::<f32>().map_or(1000, |q| (q.clamp(0.0, 1.0) * 1000.0) as i32);
        } else {
            params.push((name, value));
        }
    }
    Some((quality, AcceptClause { kind, subtype, params }))
}

/// Returns true if upstream's router would route a request with this `Accept` header to a handler that writes
/// `produced`. It compares whole types without their parameters and knows no wildcard except `*/*`.
pub(crate) fn routed(accept: Option<&str>, produced: &[&str]) -> bool {
    let Some(accept) = accept.filter(|text| !text.is_empty()) else { return true };
    let types = accept.split(',').map(|part| part.split(';').next().unwrap_or_default().trim());
    types.into_iter().any(|media| media == "*/*" || produced.contains(&media))
}

/// Chooses the first representation in an `Accept` header for which `fits` returns true; `None` if nothing in it can be
/// served. An absent or empty header means JSON.
fn negotiate_if(accept: Option<&str>, fits: impl Fn(&Negotiation) -> bool) -> Option<Negotiation> {
    let accept = accept.map(str::trim).filter(|text| !text.is_empty());
    let Some(accept) = accept else { return Some(Negotiation::JSON) };
    clauses(accept).iter().filter_map(negotiate_clause).find(&fits)
}

/// Chooses the encoding of a document that has only one representation; `None` if the header accepts only others.
pub(crate) fn negotiate_document(accept: &str) -> Option<MediaType> {
    let chosen = negotiate_if(Some(accept), |negotiated| negotiated.transform.is_none())?;
    // Documents have no protobuf form here; clients that prefer it read JSON as well.
    let json = negotiate_if(Some(accept), |other| *other == Negotiation::JSON);
    Some(json.filter(|_| chosen.media == MediaType::Protobuf).unwrap_or(chosen).media)
}

/// Returns true if an `Accept` header accepts plain objects, such as an error Status.
fn accepts_objects(accept: &str) -> bool {
    accept.trim().is_empty()
        || clauses(accept).iter().any(|clause| clause.param("as").is_empty() && negotiate_clause(clause).is_some())
}

/// Returns true if an `Accept` header prefers YAML for plain objects. Searches for the word first, because every
/// request passes here.
pub(crate) fn wants_yaml(accept: &str) -> bool {
    let plain = || negotiate_if(Some(accept), |negotiated| negotiated.transform.is_none());
    accept.contains("yaml") && plain().is_some_and(|negotiated| negotiated.media == MediaType::Yaml)
}

fn negotiate_clause(clause: &AcceptClause<'_>) -> Option<Negotiation> {
    let served =
        [(MediaType::Json, "json"), (MediaType::Yaml, "yaml"), (MediaType::Protobuf, "vnd.kubernetes.protobuf")];
    let (media, subtype) = served.into_iter().find(|(_, subtype)| clause.allows("application", subtype))?;
    let [name, group, version] = ["as", "g", "v"].map(|parameter| clause.param(parameter));
    let plain = [name, group, version].iter().all(|parameter| parameter.is_empty());
    let transform = if plain { None } else { Some(transform(name, group, version)?) };
    // Tables have no protobuf form: upstream refuses, so clients that request it also list JSON.
    let refused = subtype == "vnd.kubernetes.protobuf" && matches!(transform, Some((Representation::Table, _)));
    (!refused).then_some(Negotiation { media, transform })
}

fn transform(name: &str, group: &str, version: &str) -> Option<(Representation, &'static str)> {
    if group != "meta.k8s.io" {
        return None;
    }
    let version = ["v1", "v1beta1"].into_iter().find(|known| *known == version)?;
    let kind = match name {
        "Table" => Representation::Table,
        "PartialObjectMetadata" => Representation::PartialObjectMetadata,
        "PartialObjectMetadataList" => Representation::PartialObjectMetadataList,
        _ => return None,
    };
    Some((kind, version))
}

/// Re-encodes a JSON reply as YAML.
pub(crate) fn to_yaml(reply: &mut Reply) {
    let ReplyBody::Full(bytes) = &reply.body else { return };
    let Ok(value) = serde_json::from_slice::<Value>(bytes) else { return };
    reply.body = ReplyBody::Full(yaml::to_string(&value).into());
    reply.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/yaml"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    const TABLE: Option<(Representation, &str)> = Some((Representation::Table, "v1"));

    #[rstest]
    #[case::absent(None, MediaType::Json, None)]
    #[case::empty(Some(""), MediaType::Json, None)]
    #[case::anything(Some("*/*"), MediaType::Json, None)]
    #[case::yaml(Some("application/yaml"), MediaType::Yaml, None)]
    #[case::protobuf_first(Some("application/vnd.kubernetes.protobuf,application/json"), MediaType::Protobuf, None)]
    #[case::only_protobuf(Some("application/vnd.kubernetes.protobuf"), MediaType::Protobuf, None)]
    #[case::metadata_in_protobuf(
        Some(
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
        ),
        MediaType::Protobuf,
        Some((Representation::PartialObjectMetadata, "v1"))
    )]
    #[case::quality(Some("application/json;q=0.3, application/yaml;q=0.8"), MediaType::Yaml, None)]
    #[case::kubectl_get(
        Some(
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
        ),
        MediaType::Json,
        TABLE
    )]
    #[case::unknown_version_falls_back(
        Some("application/json;as=Table;v=v9;g=meta.k8s.io,application/json"),
        MediaType::Json,
        None
    )]
    fn accepted(
        #[case] accept: Option<&str>,
        #[case] media: MediaType,
        #[case] transform: Option<(Representation, &'static str)>,
    ) {
        assert_eq!(negotiate_if(accept, |_| true), Some(Negotiation { media, transform }));
    }

    #[rstest]
    #[case(None, true)]
    #[case(Some(""), true)]
    #[case(Some("text/html, */*;q=0.1"), true)]
    #[case(Some("application/json;as=Chart;v=v1"), true)]
    #[case(Some("application/*"), false)]
    #[case(Some("text/plain"), false)]
    fn routes(#[case] accept: Option<&str>, #[case] taken: bool) {
        assert_eq!(routed(accept, &["application/json", "application/yaml"]), taken);
    }

    /// `WriteObjectNegotiated` in `staging/src/k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/writers.go`:
    /// errors are never tables, and JSON without a plain media type.
    #[rstest]
    #[case("application/yaml", true)]
    #[case("application/yaml;as=Table;v=v1;g=meta.k8s.io", false)]
    #[case("application/json;as=Table;v=v1;g=meta.k8s.io,application/yaml", true)]
    fn errors_in_yaml(#[case] accept: &str, #[case] yaml: bool) {
        assert_eq!(wants_yaml(accept), yaml);
    }

    /// `acceptMediaTypeOptions` in `negotiate.go`.
    #[rstest]
    #[case("application/json;pretty=1", true)]
    #[case("application/json;pretty=true", false)]
    #[case("text/html;pretty=1,application/json", false)]
    fn pretty(#[case] accept: &str, #[case] expected: bool) {
        assert_eq!(accepts_pretty(accept), expected);
    }

    #[rstest]
    #[case("text/html")]
    #[case("application/json;as=Table;v=v2;g=meta.k8s.io")]
    #[case("application/json;as=Chart;v=v1;g=meta.k8s.io")]
    #[case("application/json;g=meta.k8s.io;v=v1")]
    #[case("garbage")]
    fn refused(#[case] accept: &str) {
        assert_eq!(negotiate_if(Some(accept), |_| true), None);
    }
}
