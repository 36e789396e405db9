//! A builder for the definitions of built-in resources; upstream's are in `pkg/registry/*/rest`.

use std::sync::Arc;

use super::served_resource::{
    Conversion, Resource, STANDARD_VERBS, SelectableField, StaticStr, StorageId, Subresource,
};
use super::strategy::{DefaultStrategy, Strategy};
use crate::managedfields::ResetFields;
use crate::printers::TableHandler;
use crate::printers::column::Column;

/// The verbs of most `/status` endpoints and of `/scale`.
const STATUS_VERBS: &[&str] = &["get", "patch", "update"];

/// Builds a [`Resource`].
pub(super) struct ResourceBuilder(Resource);

fn static_strs(items: &[&'static str]) -> Vec<StaticStr> {
    items.iter().map(|t| StaticStr::Borrowed(*t)).collect()
}

/// Starts a namespaced resource with the standard verbs.
pub(super) fn resource(
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    kind: &'static str,
    schema: &'static str,
) -> ResourceBuilder {
    ResourceBuilder(Resource {
        group: group.into(),
        version: version.into(),
        kind: kind.into(),
        list_kind: format!("{kind}List").into(),
        plural: plural.into(),
        singular: kind.to_lowercase().into(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: true,
        verbs: static_strs(STANDARD_VERBS),
        subresources: Vec::new(),
        schema: schema.into(),
        storage: StorageId { group: group.into(), resource: plural.into() },
        conversion: None,
        storage_version_hash: "".into(),
        deprecation: None,
        reset_fields: ResetFields::default(),
        status_keeps_metadata: false,
        table: TableHandler::DEFAULT,
        selectable: Vec::new(),
        strategy: Arc::new(DefaultStrategy),
        custom: None,
    })
}

impl ResourceBuilder {
    pub(super) fn cluster(mut self) -> Self {
        self.0.namespaced = false;
        self
    }

    pub(super) fn short(mut self, names: &[&'static str]) -> Self {
        self.0.short_names = static_strs(names);
        self
    }

    pub(super) fn categories(mut self, names: &[&'static str]) -> Self {
        self.0.categories = static_strs(names);
        self
    }

    pub(super) fn verbs(mut self, verbs: &[&'static str]) -> Self {
        self.0.verbs = static_strs(verbs);
        self
    }

    pub(super) fn sub(
        mut self,
        name: &'static str,
        group: &'static str,
        version: &'static str,
        kind: &'static str,
        verbs: &[&'static str],
    ) -> Self {
        self.0.subresources.push(Subresource {
            name: name.into(),
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
            verbs: static_strs(verbs),
        });
        self
    }

    /// Adds `/status`. The object's endpoint does not change the status, and `/status` not the spec.
    pub(super) fn status(self) -> Self {
        let kind = self.0.kind.clone();
        let mut this = self.sub("status", "", "", "", STATUS_VERBS);
        if let Some(last) = this.0.subresources.last_mut() {
            last.kind = kind;
        }
        this.resets("", &[&["status"]]).resets("status", &[&["spec"]])
    }

    /// Adds `/status`, which changes neither the spec nor labels, annotations, finalizers and owners.
    pub(super) fn status_without_metadata(self) -> Self {
        let mut this = self.status().resets("status", &[&["metadata"], &["spec"]]);
        this.0.status_keeps_metadata = true;
        this
    }

    /// Sets the fields that an endpoint does not change; `subresource` is empty for the object itself.
    pub(super) fn resets(mut self, subresource: &'static str, paths: &[&[&str]]) -> Self {
        self.0.reset_fields.set(subresource, paths);
        self
    }

    pub(super) fn scale(self) -> Self {
        self.sub("scale", "autoscaling", "v1", "Scale", STATUS_VERBS)
    }

    /// Sets the columns of the table that kubectl shows.
    pub(super) fn columns(self, columns: &'static [Column]) -> Self {
        self.table(TableHandler::new(columns))
    }

    /// Sets the table that kubectl shows.
    pub(super) fn table(mut self, table: TableHandler) -> Self {
        self.0.table = table;
        self
    }

    pub(super) fn hash(mut self, hash: &'static str) -> Self {
        self.0.storage_version_hash = hash.into();
        self
    }

    pub(super) fn fields(mut self, fields: &[(&'static str, &'static str)]) -> Self {
        self.0.selectable = fields
            .iter()
            .map(|(label, absent)| SelectableField {
                label: (*label).into(),
                pointer: stored_pointer(label).into(),
                fallback: if *label == "source" { "/reportingComponent".into() } else { "".into() },
                absent,
            })
            .collect();
        self
    }

    pub(super) fn stored_as(mut self, group: &'static str, resource: &'static str) -> Self {
        self.0.storage = StorageId { group: group.into(), resource: resource.into() };
        self
    }

    pub(super) fn with_conversion(mut self, conversion: &'static Conversion) -> Self {
        self.0.conversion = Some(conversion);
        self
    }

    pub(super) fn rules(mut self, strategy: impl Strategy + 'static) -> Self {
        self.0.strategy = Arc::new(strategy);
        self
    }

    pub(super) fn build(self) -> Resource {
        self.0
    }
}

/// Returns the pointer to a selectable field in the storage version; events are stored as core `v1`.
fn stored_pointer(label: &str) -> String {
    let label = match label {
        "source" => "source.component",
        "reportingController" => "reportingComponent",
        other => other,
    };
    match label.strip_prefix("regarding.") {
        Some(rest) => format!("/involvedObject/{rest}"),
        None => format!("/{}", label.replace('.', "/")),
    }
}
