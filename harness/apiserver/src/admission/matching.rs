//! Selects the configurations that apply to a request: rules, selectors, equivalent resources. Follows
//! `plugin/webhook/{generic,predicates}` and `plugin/policy/matching` in `staging/src/k8s.io/apiserver/pkg/admission`.

use std::sync::Arc;

use super::attributes::{AdmissionOperation, Attributes, Gvk, Gvr};
use super::host::AdmissionHost;
use crate::json::Value;
use crate::json::fields::array_field;
use crate::metadata;
use crate::registry::{Registry, Resource, label_selector};
use crate::status::{GroupResource, Status};

/// The resource as which a configuration matched a request, with the objects in that version.
#[derive(Clone, Debug)]
pub(super) struct Invocation {
    pub(super) kind: Gvk,
    pub(super) resource: Gvr,
    pub(super) object: Option<Value>,
    pub(super) old: Option<Value>,
    /// The resources of the request and of the invocation, if they differ.
    converted: Option<(Arc<Resource>, Arc<Resource>)>,
}

impl Invocation {
    fn direct(attributes: &Attributes) -> Self {
        Self {
            kind: attributes.kind.clone(),
            resource: attributes.resource.clone(),
            object: attributes.object.clone(),
            old: attributes.old.clone(),
            converted: None,
        }
    }

    /// Returns an invocation for another version. Its objects are those of the request until it is converted.
    fn equivalent(attributes: &Attributes, own: &Arc<Resource>, other: &Arc<Resource>) -> Self {
        let whole = attributes.subresource.is_empty() || attributes.subresource == "status";
        let kind = if whole { gvk(other) } else { attributes.kind.clone() };
        let converted = whole.then(|| (own.clone(), other.clone()));
        Self { kind, resource: gvr(other), converted, ..Self::direct(attributes) }
    }

    /// Converts the objects to the version of the invocation.
    ///
    /// # Errors
    /// The conversion webhook fails.
    pub(super) async fn convert(mut self, host: &dyn AdmissionHost) -> Result<Self, Status> {
        if let Some((own, other)) = self.converted.clone() {
            for object in [&mut self.old, &mut self.object].into_iter().flatten() {
                *object = host.convert(&own, &other, std::mem::take(object)).await?;
            }
        }
        Ok(self)
    }

    /// Returns an object of the invocation's version in that of the request.
    ///
    /// # Errors
    /// The conversion webhook fails.
    pub(super) async fn restore(&self, host: &dyn AdmissionHost, object: Value) -> Result<Value, Status> {
        match &self.converted {
            Some((own, other)) => host.convert(other, own, object).await,
            None => Ok(object),
        }
    }

    /// Returns the resource of the invocation's version, if it is another one than the request's.
    pub(super) fn other(&self) -> Option<&Arc<Resource>> {
        self.converted.as_ref().map(|(_, other)| other)
    }
}

fn gvk(resource: &Resource) -> Gvk {
    Gvk { group: resource.group.to_string(), version: resource.version.to_string(), kind: resource.kind.to_string() }
}

fn gvr(resource: &Resource) -> Gvr {
    Gvr {
        group: resource.group.to_string(),
        version: resource.version.to_string(),
        resource: resource.plural.to_string(),
    }
}

/// The criteria of a webhook, policy or binding.
#[derive(Clone, Copy, Debug)]
pub(super) struct Criteria<'a> {
    pub(super) rules: &'a [Value],
    pub(super) excluded: &'a [Value],
    pub(super) namespace_selector: Option<&'a Value>,
    pub(super) object_selector: Option<&'a Value>,
    /// Requests for equivalent resources match, too.
    pub(super) equivalent: bool,
    /// Without rules, everything matches: bindings.
    pub(super) open: bool,
}

impl<'a> Criteria<'a> {
    /// Returns the criteria of `matchConstraints` or `matchResources`.
    pub(super) fn of_match_resources(given: &'a Value) -> Self {
        Self {
            rules: array_field(given, "resourceRules"),
            excluded: array_field(given, "excludeResourceRules"),
            namespace_selector: given.get("namespaceSelector"),
            object_selector: given.get("objectSelector"),
            equivalent: given["matchPolicy"] == "Equivalent",
            open: true,
        }
    }
}

/// Returns how a request matches; `None` if it does not.
///
/// # Errors
/// The namespace does not exist.
pub(super) fn matches(
    host: &dyn AdmissionHost,
    criteria: Criteria<'_>,
    attributes: &Attributes,
) -> Result<Option<Invocation>, Status> {
    let namespace = namespace_matches(host, criteria.namespace_selector, attributes);
    if matches!(namespace, Ok(false)) || !object_matches(criteria.object_selector, attributes) {
        return Ok(None);
    }
    let registry = host.registry();
    if by_rules(&registry, criteria.excluded, criteria.equivalent, attributes).is_some() {
        return Ok(None);
    }
    let found = if criteria.rules.is_empty() && criteria.open {
        Some(Invocation::direct(attributes))
    } else {
        by_rules(&registry, criteria.rules, criteria.equivalent, attributes)
    };
    match (found, namespace) {
        (None, _) => Ok(None),
        (Some(_), Err(status)) => Err(status),
        (found, Ok(_)) => Ok(found),
    }
}

fn by_rules(registry: &Registry, rules: &[Value], equivalent: bool, attributes: &Attributes) -> Option<Invocation> {
    if rules.iter().any(|rule| rule_matches(rule, attributes, &attributes.resource)) {
        return Some(Invocation::direct(attributes));
    }
    let Gvr { group, version, resource } = &attributes.resource;
    let own = registry.get(group, version, resource).filter(|_| equivalent)?;
    let subresource = &attributes.subresource;
    let mut others = registry.equivalents(own);
    others.retain(|other| subresource.is_empty() || other.subresource(subresource).is_some());
    rules.iter().find_map(|rule| {
        let other = others.iter().find(|other| rule_matches(rule, attributes, &gvr(other)))?;
        Some(Invocation::equivalent(attributes, own, other))
    })
}

fn rule_matches(rule: &Value, attributes: &Attributes, resource: &Gvr) -> bool {
    let any = |field: &str, wanted: &str| array_field(rule, field).iter().any(|one| *one == "*" || *one == wanted);
    let named = array_field(rule, "resourceNames");
    in_scope(rule, attributes)
        && any("operations", attributes.operation.as_str())
        && any("apiGroups", &resource.group)
        && any("apiVersions", &resource.version)
        && array_field(rule, "resources").iter().filter_map(Value::as_str).any(|wanted| {
            let (name, subresource) = wanted.split_once('/').unwrap_or((wanted, ""));
            let fits = |wanted: &str, given: &str| wanted == "*" || wanted == given;
            fits(name, &resource.resource) && fits(subresource, &attributes.subresource)
        })
        && (named.is_empty() || named.iter().any(|name| *name == *attributes.name))
}

fn in_scope(rule: &Value, attributes: &Attributes) -> bool {
    let clusterwide = attributes.is_namespace() || attributes.namespace.is_empty();
    match rule["scope"].as_str().unwrap_or("*") {
        "*" => true,
        "Namespaced" => !clusterwide,
        "Cluster" => clusterwide,
        _ => false,
    }
}

fn is_open(selector: Option<&Value>) -> bool {
    selector.is_none_or(|selector| {
        let empty = |part: &Value| match part {
            Value::Array(items) => items.is_empty(),
            Value::Object(fields) => fields.is_empty(),
            _ => true,
        };
        empty(&selector["matchLabels"]) && empty(&selector["matchExpressions"])
    })
}

fn namespace_matches(
    host: &dyn AdmissionHost,
    selector: Option<&Value>,
    attributes: &Attributes,
) -> Result<bool, Status> {
    if (attributes.namespace.is_empty() && attributes.resource.resource != "namespaces") || is_open(selector) {
        return Ok(true);
    }
    let own = attributes.is_namespace()
        && attributes.subresource.is_empty()
        && matches!(attributes.operation, AdmissionOperation::Create | AdmissionOperation::Update);
    let labels = |namespace: &Value| metadata::labels(namespace).cloned().map_or(Value::Null, Value::Object);
    let labels = match &attributes.object {
        Some(object) if own => labels(object),
        _ => {
            let name = &attributes.namespace;
            let missing = || Status::not_found(GroupResource::new("", "namespaces"), name);
            labels(&host.lister().get("", "namespaces", "", name).ok_or_else(missing)?)
        }
    };
    Ok(label_selector::matches(selector, Some(&labels)).unwrap_or(false))
}

fn object_matches(selector: Option<&Value>, attributes: &Attributes) -> bool {
    if is_open(selector) {
        return true;
    }
    [&attributes.object, &attributes.old].into_iter().flatten().any(|object| {
        let labels = metadata::labels(object).cloned().map(Value::Object);
        label_selector::matches(selector, labels.as_ref()).unwrap_or(false)
    })
}
