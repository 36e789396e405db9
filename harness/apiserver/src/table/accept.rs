//! Content negotiation: the media type and the representation of an object that a client accepts. Follows
//! `staging/src/k8s.io/apiserver/pkg/endpoints/handlers/negotiation/negotiate.go` of Kubernetes 1.36. PURE.

/// A representation of objects other than their own kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transform {
    /// `as=Table`: rows of cells for display.
    Table,
    /// `as=PartialObjectMetadata`: only the metadata, for one object or in a watch.
    PartialObjectMetadata,
    /// `as=PartialObjectMetadataList`: only the metadata, for a list.
    PartialObjectMetadataList,
}

/// The encoding of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MediaType {
    /// `application/json`; also sent to clients that request protobuf.
    Json,
    /// `application/yaml`.
    Yaml,
}

/// The result of a negotiation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Negotiated {
    /// The encoding of the body.
    pub media: MediaType,
    /// The representation, with its version of group `meta.k8s.io` (`v1` or `v1beta1`).
    pub transform: Option<(Transform, &'static str)>,
}

impl Negotiated {
    /// JSON of the object's own kind.
    pub const JSON: Self = Self { media: MediaType::Json, transform: None };
}

/// One clause of an `Accept` header.
#[derive(Debug, PartialEq, Eq)]
pub struct Clause<'a> {
    /// The type before the slash.
    pub kind: &'a str,
    /// The type after the slash.
    pub subtype: &'a str,
    /// The parameters other than `q`.
    pub params: Vec<(&'a str, &'a str)>,
}

impl<'a> Clause<'a> {
    /// Returns the value of a parameter; `""` if it is absent.
    pub fn param(&self, name: &str) -> &'a str {
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
pub fn clauses(accept: &str) -> Vec<Clause<'_>> {
    let mut found: Vec<(i32, Clause<'_>)> = accept.split(',').filter_map(clause).collect();
    found.sort_by_key(|(quality, _)| -quality);
    found.into_iter().map(|(_, clause)| clause).collect()
}

fn clause(part: &str) -> Option<(i32, Clause<'_>)> {
    let mut pieces = part.split(';').map(str::trim);
    let (kind, subtype) = match pieces.next()? {
        "" => return None,
        "*" => ("*", "*"),
        media => media.split_once('/')?,
    };
    let mut quality = 1000;
    let mut params = Vec::new();
    for (name, value) in pieces.filter_map(|piece| piece.split_once('=')) {
        let (name, value) = (name.trim(), value.trim());
        if name == "q" {
            quality = value.parse::<f32>().map_or(1000, |q| (q.clamp(0.0, 1.0) * 1000.0) as i32);
        } else {
            params.push((name, value));
        }
    }
    Some((quality, Clause { kind, subtype, params }))
}

/// Returns true if upstream's router would route a request with this `Accept` header to a handler that writes
/// `produced`. It compares whole types without their parameters and knows no wildcard except `*/*`.
pub fn routed(accept: Option<&str>, produced: &[&str]) -> bool {
    let Some(accept) = accept.filter(|text| !text.is_empty()) else { return true };
    let types = accept.split(',').map(|part| part.split(';').next().unwrap_or_default().trim());
    types.into_iter().any(|media| media == "*/*" || produced.contains(&media))
}

/// Chooses the representation for an `Accept` header; `None` if nothing in it can be served.
///
/// An absent or empty header means JSON. Protobuf is answered with JSON: clients decode by the reply's `Content-Type`.
pub fn negotiate(accept: Option<&str>) -> Option<Negotiated> {
    negotiate_if(accept, |_| true)
}

/// Like [`negotiate`], but only chooses among results for which `fits` returns true.
pub(crate) fn negotiate_if(accept: Option<&str>, fits: impl Fn(&Negotiated) -> bool) -> Option<Negotiated> {
    let accept = accept.map(str::trim).filter(|text| !text.is_empty());
    let Some(accept) = accept else { return Some(Negotiated::JSON) };
    clauses(accept).iter().filter_map(choose).find(fits)
}

/// Chooses the encoding of a document that has only one representation; `None` if the header accepts only others.
pub(crate) fn negotiate_document(accept: &str) -> Option<MediaType> {
    negotiate_if(Some(accept), |negotiated| negotiated.transform.is_none()).map(|negotiated| negotiated.media)
}

/// Returns true if an `Accept` header accepts plain objects, such as an error Status.
pub(crate) fn takes_objects(accept: &str) -> bool {
    accept.trim().is_empty()
        || clauses(accept).iter().any(|clause| clause.param("as").is_empty() && choose(clause).is_some())
}

/// Returns true if an `Accept` header prefers YAML. Searches for the word first, because every request passes here.
pub(crate) fn wants_yaml(accept: &str) -> bool {
    accept.contains("yaml") && negotiate(Some(accept)).is_some_and(|negotiated| negotiated.media == MediaType::Yaml)
}

fn choose(clause: &Clause<'_>) -> Option<Negotiated> {
    let served = [(MediaType::Json, "json"), (MediaType::Yaml, "yaml"), (MediaType::Json, "vnd.kubernetes.protobuf")];
    let (media, subtype) = served.into_iter().find(|(_, subtype)| clause.allows("application", subtype))?;
    let transform = match clause.param("as") {
        "" => None,
        name => Some(transform(name, clause.param("g"), clause.param("v"))?),
    };
    // Tables have no protobuf form: upstream refuses, so clients that request it also list JSON.
    let refused = subtype == "vnd.kubernetes.protobuf" && matches!(transform, Some((Transform::Table, _)));
    (!refused).then_some(Negotiated { media, transform })
}

fn transform(name: &str, group: &str, version: &str) -> Option<(Transform, &'static str)> {
    if group != "meta.k8s.io" {
        return None;
    }
    let version = ["v1", "v1beta1"].into_iter().find(|known| *known == version)?;
    let kind = match name {
        "Table" => Transform::Table,
        "PartialObjectMetadata" => Transform::PartialObjectMetadata,
        "PartialObjectMetadataList" => Transform::PartialObjectMetadataList,
        _ => return None,
    };
    Some((kind, version))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    const TABLE: Option<(Transform, &str)> = Some((Transform::Table, "v1"));

    #[rstest]
    #[case::absent(None, MediaType::Json, None)]
    #[case::empty(Some(""), MediaType::Json, None)]
    #[case::anything(Some("*/*"), MediaType::Json, None)]
    #[case::yaml(Some("application/yaml"), MediaType::Yaml, None)]
    #[case::protobuf_first(Some("application/vnd.kubernetes.protobuf,application/json"), MediaType::Json, None)]
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
        #[case] transform: Option<(Transform, &'static str)>,
    ) {
        assert_eq!(negotiate(accept), Some(Negotiated { media, transform }));
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

    #[rstest]
    #[case("text/html")]
    #[case("application/json;as=Table;v=v2;g=meta.k8s.io")]
    #[case("application/json;as=Chart;v=v1;g=meta.k8s.io")]
    #[case("garbage")]
    fn refused(#[case] accept: &str) {
        assert_eq!(negotiate(Some(accept)), None);
    }
}
