//! `LimitRanger` admission: the limit ranges of a namespace give containers their defaults and bounds.

use serde_json::{Map, Value};

use super::pod::defaults::quantity_text;
use super::quantity::Quantity;
use super::selector::array;
use super::{Context, meta};
use crate::apiserver::status::{GroupResource, Status};

const CONTAINERS: [&str; 2] = ["containers", "initContainers"];

/// Applies the limit ranges of the pod's namespace.
///
/// # Errors
/// 403 naming every bound that the pod breaks.
pub(super) fn admit(pod: &mut Value, ctx: &Context<'_>) -> Result<(), Status> {
    let namespace = pod.get("metadata").map_or("", |m| meta::text(m, "namespace")).to_owned();
    let ranges = ctx.lookup.list("", "limitranges", &namespace);
    for range in &ranges {
        let limits: Vec<&Value> = range.get("spec").map_or(&[][..], |s| array(s, "limits")).iter().collect();
        let of_containers: Vec<&Value> =
            limits.iter().copied().filter(|l| meta::text(l, "type") == "Container").collect();
        set_defaults(pod, &of_containers);
    }
    for range in &ranges {
        let limits = range.get("spec").map_or(&[][..], |s| array(s, "limits"));
        let mut broken = Vec::new();
        for limit in limits.iter().filter(|l| meta::text(l, "type") == "Container") {
            check(pod, limit, &mut broken);
        }
        if !broken.is_empty() {
            let why = if broken.len() == 1 { broken.remove(0) } else { format!("[{}]", broken.join(", ")) };
            return Err(Status::forbidden(GroupResource::new("", "pods"), meta::name(pod), &why));
        }
    }
    Ok(())
}

/// The defaults of all limits of the range together; later ones win.
fn merged(limits: &[&Value], field: &str) -> Map<String, Value> {
    limits
        .iter()
        .filter_map(|l| l.get(field).and_then(Value::as_object))
        .flatten()
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect()
}

fn set_defaults(pod: &mut Value, limits: &[&Value]) {
    let (requests, bounds) = (merged(limits, "defaultRequest"), merged(limits, "default"));
    if requests.is_empty() && bounds.is_empty() {
        return;
    }
    let mut notes = Vec::new();
    for field in CONTAINERS {
        let containers = pod.pointer_mut(&format!("/spec/{field}")).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let what = if field == "containers" { "container" } else { "init container" };
            let name = meta::text(container, "name").to_owned();
            for (kind, values) in [("request", &requests), ("limit", &bounds)] {
                let set = fill(container, &format!("{kind}s"), values);
                if !set.is_empty() {
                    notes.push(format!("{} {kind} for {what} {name}", set.join(", ")));
                }
            }
        }
    }
    if notes.is_empty() {
        return;
    }
    let Some(metadata) = pod.get_mut("metadata") else { return };
    if let Some(annotations) = meta::object_at(metadata, "annotations") {
        let text = format!("LimitRanger plugin set: {}", notes.join("; "));
        annotations.insert("kubernetes.io/limit-ranger".to_owned(), text.into());
    }
}

/// Names of the resources that got their default.
fn fill(container: &mut Value, list: &str, values: &Map<String, Value>) -> Vec<String> {
    let mut set = Vec::new();
    if values.is_empty() {
        return set;
    }
    if meta::object_at(container, "resources").is_none() {
        return set;
    }
    let Some(target) = container.get_mut("resources").and_then(|r| meta::object_at(r, list)) else { return set };
    for (name, value) in values {
        if !target.contains_key(name) {
            target.insert(name.clone(), value.clone());
            set.push(name.clone());
        }
    }
    set
}

fn check(pod: &Value, limit: &Value, broken: &mut Vec<String>) {
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    for container in CONTAINERS.iter().flat_map(|field| array(spec, field)) {
        let of = |list: &str, name: &str| {
            let text = container.get("resources")?.get(list)?.get(name).map(quantity_text)?;
            Quantity::parse(&text).map(|quantity| (text, quantity))
        };
        let bounds = |field: &str| limit.get(field).and_then(Value::as_object).into_iter().flatten();
        for (name, bound) in bounds("min") {
            let least = quantity_text(bound);
            let Some(parsed) = Quantity::parse(&least) else { continue };
            match (of("requests", name), of("limits", name)) {
                (None, _) => {
                    broken.push(format!("minimum {name} usage per Container is {least}.  No request is specified"));
                }
                (Some((text, request)), _) if request < parsed => {
                    broken.push(format!("minimum {name} usage per Container is {least}, but request is {text}"));
                }
                (_, Some((text, most))) if most < parsed => {
                    broken.push(format!("minimum {name} usage per Container is {least}, but limit is {text}"));
                }
                _ => {}
            }
        }
        for (name, bound) in bounds("max") {
            let most = quantity_text(bound);
            let Some(parsed) = Quantity::parse(&most) else { continue };
            match (of("limits", name), of("requests", name)) {
                (None, _) => {
                    broken.push(format!("maximum {name} usage per Container is {most}.  No limit is specified"));
                }
                (Some((text, given)), _) if given > parsed => {
                    broken.push(format!("maximum {name} usage per Container is {most}, but limit is {text}"));
                }
                (_, Some((text, request))) if request > parsed => {
                    broken.push(format!("maximum {name} usage per Container is {most}, but request is {text}"));
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::apiserver::kinds::Lookup;

    struct Ranges(Value);

    impl Lookup for Ranges {
        fn get(&self, _: &str, _: &str, _: &str, _: &str) -> Option<Value> {
            None
        }

        fn list(&self, _: &str, _: &str, _: &str) -> Vec<Value> {
            vec![json!({"spec": {"limits": [self.0]}})]
        }
    }

    fn pod(resources: Value) -> Value {
        json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {"containers": [{"name": "c", "resources": resources}]}})
    }

    #[test]
    fn containers_get_their_defaults() {
        let ranges = Ranges(json!({"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "100m"}}));
        let ctx = Context { now: Timestamp::UNIX_EPOCH, user: &crate::apiserver::identity::NOBODY, lookup: &ranges };
        let mut given = pod(json!({}));
        admit(&mut given, &ctx).expect("within bounds");
        let expected = json!({"limits": {"cpu": "1"}, "requests": {"cpu": "100m"}});
        assert_eq!(given["spec"]["containers"][0]["resources"], expected);
        let note = "LimitRanger plugin set: cpu request for container c; cpu limit for container c";
        assert_eq!(given["metadata"]["annotations"]["kubernetes.io/limit-ranger"], note);
    }

    #[test]
    fn bounds_are_kept() {
        let ranges = Ranges(json!({"type": "Container", "max": {"cpu": "1"}}));
        let ctx = Context { now: Timestamp::UNIX_EPOCH, user: &crate::apiserver::identity::NOBODY, lookup: &ranges };
        let refused = admit(&mut pod(json!({"limits": {"cpu": "2"}})), &ctx).expect_err("too much");
        assert_eq!(refused.message, "pods \"p\" is forbidden: maximum cpu usage per Container is 1, but limit is 2");
    }
}
