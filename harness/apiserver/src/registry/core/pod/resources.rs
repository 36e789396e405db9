//! Validation of resource requirements.
//!
//! See `ValidateContainerResourceRequirements` in `pkg/apis/core/validation/validation.go`.

use crate::field_errors::{ErrorList, Path};
use crate::json::Value;
use crate::quantity::Quantity;
use crate::registry::checks;
use crate::registry::resource_list::quantity_text;
use crate::registry::resource_names::{container_name, is_huge_pages, is_integer_resource, may_overcommit, pod_name};

/// Validates limits and requests of a container or, with `of_pod`, of a pod.
pub(in crate::registry) fn requirements(resources: &Value, of_pod: bool, path: &Path<'_>, errors: &mut ErrorList) {
    let list = |field: &str| resources.get(field).and_then(Value::as_object);
    let mut computes = false;
    let mut huge = false;
    let limits_path = path.child("limits");
    for (name, value) in list("limits").into_iter().flatten() {
        entry(name, value, of_pod, &limits_path.key(name), errors);
        computes |= matches!(name.as_str(), "cpu" | "memory");
        huge |= is_huge_pages(name);
    }
    let requests_path = path.child("requests");
    for (name, value) in list("requests").into_iter().flatten() {
        entry(name, value, of_pod, &requests_path.key(name), errors);
        computes |= matches!(name.as_str(), "cpu" | "memory");
        huge |= is_huge_pages(name);
        let text = quantity_text(value);
        match list("limits").and_then(|l| l.get(name)).map(quantity_text) {
            Some(limit) => {
                let (Some(request), Some(most)) = (Quantity::parse(&text), Quantity::parse(&limit)) else { continue };
                if request != most && !may_overcommit(name) {
                    errors.invalid(&requests_path, text, format!("must be equal to {name} limit of {limit}"));
                } else if request > most {
                    errors.invalid(
                        &requests_path,
                        text,
                        format!("must be less than or equal to {name} limit of {limit}"),
                    );
                }
            }
            None if !may_overcommit(name) => {
                errors.required(&limits_path, "Limit must be set for non overcommitable resources");
            }
            None => {}
        }
    }
    if huge && !computes {
        errors.forbidden(path, "HugePages require cpu or memory");
    }
}

fn entry(name: &str, value: &Value, of_pod: bool, path: &Path<'_>, errors: &mut ErrorList) {
    if of_pod {
        pod_name(name, path, errors);
    } else {
        container_name(name, path, errors);
    }
    quantity(name, value, path, errors);
}

/// Validates an amount: not negative, an integer for counted resources, and a multiple of the huge page size.
fn quantity(name: &str, value: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let text = quantity_text(value);
    let Some(parsed) = Quantity::parse(&text) else { return };
    if parsed.sign() < 0 {
        errors.invalid(path, text.as_str(), checks::NON_NEGATIVE_MESSAGE);
    }
    if is_integer_resource(name) && !parsed.is_whole() {
        errors.invalid(path, text.as_str(), "must be an integer");
    }
    let page = name.strip_prefix("hugepages-").and_then(Quantity::parse);
    if page.is_some_and(|page| !parsed.is_multiple_of(page)) {
        errors.invalid(path, text.as_str(), format!("{text} is not positive integer multiple of {name}"));
    }
}
