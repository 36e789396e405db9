//! Other representations of objects: `metav1.Table` with kubectl's columns, and `PartialObjectMetadata`. Follows
//! `pkg/printers`, and `staging/src/k8s.io/apiserver/pkg/endpoints/handlers/response.go`, of Kubernetes 1.36. PURE.
//!
//! [`crate::negotiate`] chooses the representation, [`Printer`] holds the columns of a kind, and the functions here
//! convert objects, lists and watch events. Ages are relative to the server's clock, passed as `now`.

use std::borrow::Cow;
use std::cmp::Ordering;

use jiff::Timestamp;

use crate::json::{Map, Value, json};
use crate::metadata;

pub(crate) mod column;
pub(crate) mod custom;
pub(crate) mod duration;
pub(crate) mod format;
mod scale;
#[cfg(test)]
mod walk;

use column::Column;

/// The part of each object that the rows of a table include (`includeObject`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum IncludeObject {
    /// `None`: only the cells.
    None,
    /// `Metadata`, the default: a `PartialObjectMetadata`.
    #[default]
    Metadata,
    /// `Object`: the whole object.
    Object,
}

/// A value of `includeObject` that does not exist.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "Unable to convert to Table as requested: includeObject: Invalid value: {0:?}: must be 'Metadata', 'Object', \
     'None', or empty"
)]
pub(crate) struct IncludeObjectError(String);

impl IncludeObject {
    /// Parses the query parameter.
    ///
    /// # Errors
    ///
    /// The message of a 400 for any other value.
    pub(crate) fn parse(value: Option<&str>) -> Result<Self, IncludeObjectError> {
        match value.unwrap_or_default() {
            "" | "Metadata" => Ok(Self::Metadata),
            "None" => Ok(Self::None),
            "Object" => Ok(Self::Object),
            other => Err(IncludeObjectError(other.to_owned())),
        }
    }
}

/// The table of a built-in kind, as `TableHandler` of `pkg/printers/tablegenerator.go` registers it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TableHandler {
    columns: &'static [Column],
    row_conditions: fn(&Value) -> Option<Value>,
    order: Option<fn(&Value, &Value) -> Ordering>,
    null_if_empty: bool,
    /// Converts an object to the version from which the cells are read.
    to_storage: Option<fn(Value) -> Value>,
}

impl TableHandler {
    /// The table of kinds without a handler: name and creation time. Upstream's default converter writes null instead
    /// of an empty list of rows.
    pub(crate) const DEFAULT: Self = Self { null_if_empty: true, ..Self::new(&[column::NAME, column::CREATED_AT]) };

    /// Creates a table with these columns.
    pub(crate) const fn new(columns: &'static [Column]) -> Self {
        Self { columns, row_conditions: |_| None, order: None, null_if_empty: false, to_storage: None }
    }

    /// Adds the conditions of rows.
    #[must_use]
    pub(crate) const fn row_conditions(self, row_conditions: fn(&Value) -> Option<Value>) -> Self {
        Self { row_conditions, ..self }
    }

    /// Reads the cells from the storage version. Upstream reads all tables from the internal version.
    #[must_use]
    pub(crate) const fn stored_as(self, to_storage: fn(Value) -> Value) -> Self {
        Self { to_storage: Some(to_storage), ..self }
    }

    /// Sorts the rows.
    #[must_use]
    pub(crate) const fn sorted_by(self, order: fn(&Value, &Value) -> Ordering) -> Self {
        Self { order: Some(order), ..self }
    }
}

/// The columns of one kind.
#[derive(Debug, Clone)]
pub(crate) enum Printer {
    /// A built-in kind.
    BuiltIn(TableHandler),
    /// A custom resource with its `additionalPrinterColumns`.
    Custom(custom::CustomColumns),
}

/// Returns the printer of `Scale` objects; `custom` for those of custom resources.
pub(crate) fn scale_printer(custom: bool) -> Printer {
    if custom {
        Printer::Custom(custom::CustomColumns::for_scale())
    } else {
        Printer::BuiltIn(TableHandler::new(scale::COLUMNS))
    }
}

impl Printer {
    fn definitions(&self) -> Vec<Value> {
        match self {
            Self::BuiltIn(table) => {
                table.columns.iter().filter(|column| column.is_defined()).map(Column::definition).collect()
            }
            Self::Custom(columns) => columns.definitions(),
        }
    }

    fn row(&self, object: &Value, render: &TableOptions) -> Value {
        let mut row = Map::new();
        let internal = match self {
            Self::BuiltIn(TableHandler { to_storage: Some(convert), .. }) => Cow::Owned(convert(object.clone())),
            _ => Cow::Borrowed(object),
        };
        let cells: Vec<Value> = match self {
            Self::BuiltIn(table) => table.columns.iter().map(|column| column.read(&internal, render.now)).collect(),
            Self::Custom(columns) => columns.cells(object, render.now),
        };
        row.insert("cells", Value::Array(cells));
        if let Self::BuiltIn(table) = self
            && let Some(conditions) = (table.row_conditions)(&internal)
        {
            row.insert("conditions", conditions);
        }
        // The bookmark after the initial objects shows its annotation in any case.
        let ends_initial = || metadata::annotation(object, INITIAL_EVENTS_END) == Some("true");
        let shown = match render.include {
            IncludeObject::Object => object.clone(),
            IncludeObject::None if !ends_initial() => Value::Null,
            IncludeObject::None | IncludeObject::Metadata => partial_metadata(&internal, render.version),
        };
        row.insert("object", shown);
        Value::Object(row)
    }
}

/// The annotation of the bookmark after the initial objects of a watch.
pub(crate) const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// Options for rendering a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TableOptions {
    /// The part of each object to include.
    pub include: IncludeObject,
    /// The requested version of `meta.k8s.io`.
    pub version: &'static str,
    /// The time to which ages refer.
    pub now: Timestamp,
}

/// Renders one object as a table; `headers` is `false` for all but the first event of a watch.
pub(crate) fn table_of_object(printer: &Printer, object: &Value, render: &TableOptions, headers: bool) -> Value {
    let mut metadata = Map::new();
    if let Some(version) = object.pointer("/metadata/resourceVersion") {
        metadata.insert("resourceVersion", version.clone());
    }
    table(printer, Value::Object(metadata), [object], render, headers)
}

/// Renders a list as a table; `metadata` is the list's (resourceVersion, continue, remainingItemCount).
pub(crate) fn table_of_list<'a>(
    printer: &Printer,
    metadata: Value,
    items: impl IntoIterator<Item = &'a Value>,
    render: &TableOptions,
) -> Value {
    table(printer, metadata, items, render, true)
}

fn table<'a>(
    printer: &Printer,
    metadata: Value,
    items: impl IntoIterator<Item = &'a Value>,
    render: &TableOptions,
    headers: bool,
) -> Value {
    let mut items: Vec<&Value> = items.into_iter().collect();
    if let Printer::BuiltIn(TableHandler { order: Some(order), .. }) = printer {
        items.sort_by(|one, other| order(one, other));
    }
    let rows: Vec<Value> = items.into_iter().map(|object| printer.row(object, render)).collect();
    let null = rows.is_empty() && matches!(printer, Printer::BuiltIn(TableHandler { null_if_empty: true, .. }));
    let rows = if null { Value::Null } else { Value::Array(rows) };
    json!({
        "kind": "Table",
        "apiVersion": api_version(render.version),
        "metadata": metadata,
        "columnDefinitions": if headers { Value::Array(printer.definitions()) } else { Value::Null },
        "rows": rows,
    })
}

/// Returns the object with its metadata in internal form: without the annotation that conversion to a version adds.
fn internal_metadata(object: &Value) -> Cow<'_, Value> {
    const GENERATION: &str = "deprecated.daemonset.template.generation";
    if metadata::annotation(object, GENERATION).is_none() {
        return Cow::Borrowed(object);
    }
    let mut object = object.clone();
    if let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(GENERATION);
        if annotations.is_empty()
            && let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut)
        {
            metadata.remove("annotations");
        }
    }
    Cow::Owned(object)
}

/// Returns the metadata of an object as a `PartialObjectMetadata`.
pub(crate) fn partial_metadata(object: &Value, version: &'static str) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": api_version(version),
        "metadata": internal_metadata(object).get("metadata").cloned().unwrap_or_else(|| json!({})),
    })
}

/// Returns a `PartialObjectMetadataList` with the metadata of the list; without objects its `items` are null, as Go
/// encodes a slice to which nothing was appended.
pub(crate) fn partial_metadata_list<'a>(
    metadata: Value,
    items: impl IntoIterator<Item = &'a Value>,
    version: &'static str,
) -> Value {
    let items: Vec<Value> = items.into_iter().map(|object| partial_metadata(object, version)).collect();
    let items = if items.is_empty() { Value::Null } else { Value::from(items) };
    json!({
        "kind": "PartialObjectMetadataList",
        "apiVersion": api_version(version),
        "metadata": metadata,
        "items": items,
    })
}

fn api_version(version: &str) -> String {
    format!("meta.k8s.io/{version}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;
    use rstest::rstest;

    fn printer(group: &str, plural: &str) -> Printer {
        Registry::builtin().get(group, "v1", plural).expect("served").printer()
    }

    fn render(include: IncludeObject) -> TableOptions {
        TableOptions { include, version: "v1", now: "2026-01-01T00:05:00Z".parse().unwrap() }
    }

    /// `asPartialObjectMetadataList` in `staging/src/k8s.io/apiserver/pkg/endpoints/handlers/response.go`.
    #[test]
    fn a_list_of_no_metadata_has_null_items() {
        let list = partial_metadata_list(json!({"resourceVersion": "7"}), [], "v1");
        assert_eq!(list["items"], Value::Null);
    }

    fn budget() -> Value {
        json!({"kind": "PodDisruptionBudget", "apiVersion": "policy/v1",
            "metadata": {"name": "b", "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"minAvailable": "50%"}, "status": {"disruptionsAllowed": 2}})
    }

    #[test]
    fn a_table_of_one_budget() {
        let table = table_of_object(
            &printer("policy", "poddisruptionbudgets"),
            &budget(),
            &render(IncludeObject::Metadata),
            true,
        );
        assert_eq!(table["metadata"], json!({"resourceVersion": "7"}));
        assert_eq!(table["rows"][0]["cells"], json!(["b", "50%", "N/A", 2, "5m"]));
        assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
        assert_eq!(table["columnDefinitions"][3]["type"], "integer");
        assert_eq!(table["columnDefinitions"].as_array().map(Vec::len), Some(5));
    }

    #[test]
    fn later_watch_events_have_no_headers() {
        let table =
            table_of_object(&printer("policy", "poddisruptionbudgets"), &budget(), &render(IncludeObject::None), false);
        assert_eq!(table["columnDefinitions"], Value::Null);
        assert_eq!(table["rows"][0]["object"], Value::Null);
    }

    #[test]
    fn ended_pods_carry_a_row_condition() {
        let pod = json!({"metadata": {"name": "p"}, "status": {"phase": "Failed"}});
        let table = table_of_object(&printer("", "pods"), &pod, &render(IncludeObject::None), true);
        assert_eq!(table["rows"][0]["conditions"][0]["reason"], "Failed");
    }

    #[rstest]
    #[case(None, Ok(IncludeObject::Metadata))]
    #[case(Some("Object"), Ok(IncludeObject::Object))]
    #[case(Some("None"), Ok(IncludeObject::None))]
    fn include_object(#[case] value: Option<&str>, #[case] expected: Result<IncludeObject, IncludeObjectError>) {
        assert_eq!(IncludeObject::parse(value), expected);
        assert!(IncludeObject::parse(Some("Bad")).is_err());
    }

    #[test]
    fn kinds_without_columns_show_their_creation() {
        let nothing =
            table_of_list(&printer("rbac.authorization.k8s.io", "roles"), json!({}), [], &render(IncludeObject::None));
        assert_eq!(nothing["rows"], Value::Null);
        let role = json!({"metadata": {"name": "r", "creationTimestamp": "2026-01-01T00:00:00Z"}});
        let table =
            table_of_object(&printer("rbac.authorization.k8s.io", "roles"), &role, &render(IncludeObject::None), true);
        assert_eq!(table["rows"][0]["cells"], json!(["r", "2026-01-01T00:00:00Z"]));
        assert_eq!(table["columnDefinitions"][1]["name"], "Created At");
    }
}
