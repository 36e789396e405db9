//! `apiregistration.k8s.io/v1` `APIService`. See
//! `staging/src/k8s.io/kube-aggregator/pkg/registry/apiservice/strategy.go`.

use crate::json::fields::{object_mut, value_default};
use crate::json::{Map, json};
use crate::printers::column::{AGE, CellSource, Column, Description, NAME};
use crate::printers::format::{condition_is_true, text};
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::generic::Generic;
use crate::registry::kind_strategy::KindStrategy;

/// The resource `apiservices` of `apiregistration.k8s.io/v1`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource(
        "apiregistration.k8s.io",
        "v1",
        "apiservices",
        "APIService",
        "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIService",
    )
    .cluster()
    .categories(&["api-extensions"])
    .status_without_metadata()
    .hash("InPBPD7+PqM=")
    .rules(KindStrategy::new(
        Generic { status: true, unconditional: false, namespaced: false, ..Generic::NEW },
        defaults,
    ))
    .columns(COLUMNS)
}

/// Defaults of `APIService`.
fn defaults(map: &mut Map) {
    if let Some(service) = object_mut(map, "spec").and_then(|spec| object_mut(spec, "service")) {
        value_default(service, "port", 443);
    }
}

/// The columns of `apiservices`.
const COLUMNS: &[Column] = &[
    NAME,
    Column::string(
        "Service",
        Description::Text("The reference to the service that hosts this API endpoint."),
        CellSource::Custom(|object, _| match object.pointer("/spec/service").filter(|service| service.is_object()) {
            Some(service) => json!(format!("{}/{}", text(service, "/namespace"), text(service, "/name"))),
            None => json!("Local"),
        }),
    ),
    Column::string(
        "Available",
        Description::Text("Whether this service is available."),
        CellSource::Custom(|object, _| json!(if condition_is_true(object, "Available") { "True" } else { "False" })),
    ),
    AGE,
];
