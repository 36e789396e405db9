//! `resource.k8s.io/v1` `DeviceClass`. See `pkg/registry/resource/deviceclass/strategy.go`.

use crate::field_errors::{ErrorList, Path};
use crate::json::Value;
use crate::json::fields::{array_field, non_null, spec_of};
use crate::printers::column::NAME_AND_AGE;
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::generic::{Generation, Generic, MetadataRules};
use crate::registry::kind_strategy::KindStrategy;
use crate::registry::names::NameFormat;
use crate::registry::resource::claim_spec::{MOST, configuration, for_items, selectors};
use crate::registry::resource_names;

const RULES: Generic = Generic {
    generation: Generation::Spec,
    namespaced: false,
    names: NameFormat::LongName,
    updates: MetadataRules::MetadataFirst,
    ..Generic::NEW
};

const SPEC: Path<'static> = Path::new("spec");

/// The resource `deviceclasses` of `resource.k8s.io/v1`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", "io.k8s.api.resource.v1.DeviceClass")
        .cluster()
        .hash("Yk2PTc1Ybxk=")
        .rules(KindStrategy::new(RULES, |_| {}).check_with(validate))
        .columns(NAME_AND_AGE)
}

/// Validates a `DeviceClass`.
fn validate(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let spec = spec_of(object);
    selectors(spec, &SPEC, &mut errors);
    let path = SPEC.child("config");
    for_items(array_field(spec, "config"), MOST, &path, &mut errors, configuration);
    if let Some(name) = non_null(spec, "extendedResourceName").and_then(Value::as_str)
        && !resource_names::is_extended_resource(name)
    {
        errors.invalid(&SPEC.child("extendedResourceName"), name, "must be a valid extended resource name");
    }
    errors
}
