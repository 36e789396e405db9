//! Paths of the generated tables, and the list of all of them.

use std::path::{Path, PathBuf};

use crate::source::{Checkout, Error};
use crate::structs::{self, Module};
use crate::{definitions, internal, messages, roles};

/// The repository's root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A generated table.
pub(crate) struct Table {
    /// Its path from the repository's root.
    pub(crate) path: &'static str,
    /// Its text.
    pub(crate) text: String,
}

/// A path below the API server's sources.
macro_rules! apiserver {
    ($path:literal) => {
        concat!("harness/apiserver/src/", $path)
    };
}

const MODULES: &[Module] = &[
    Module {
        file: apiserver!("schema/tables/meta.rs"),
        title: "The type table of `io.k8s.apimachinery.pkg.apis.meta.v1`.",
        packages: &["meta"],
    },
    Module {
        file: apiserver!("schema/tables/core_v1.rs"),
        title: "The type table of `io.k8s.api.core.v1`.",
        packages: &["core"],
    },
    Module {
        file: apiserver!("schema/tables/workloads.rs"),
        title: "The type tables of apps, autoscaling, batch, policy and scheduling.",
        packages: &["apps", "autoscaling", "autoscalingv2", "batch", "policy", "scheduling"],
    },
    Module {
        file: apiserver!("schema/tables/access.rs"),
        title: "The type tables of authentication, authorization, certificates, flowcontrol and RBAC.",
        packages: &["authentication", "authorization", "certificates", "flowcontrol", "rbac"],
    },
    Module {
        file: apiserver!("schema/tables/extension.rs"),
        title: "The type tables of the packages that extend the API: admission registration, custom resources and API services.",
        packages: &["admissionregistration", "apiextensions", "apiregistration"],
    },
    Module {
        file: apiserver!("schema/tables/infrastructure.rs"),
        title: "The type tables of coordination, discovery, events, networking, node, resource and storage.",
        packages: &["coordination", "discovery", "events", "networking", "node", "resource", "storage"],
    },
];

/// Makes every table.
pub(crate) fn tables(checkout: &Checkout) -> Result<Vec<Table>, Error> {
    let header = format!("Generated from Kubernetes {} by `cargo run -p xtask -- codegen`.", checkout.version);
    let packages = structs::read(checkout)?;
    let mut tables = Vec::new();
    for module in MODULES {
        tables.push(Table { path: module.file, text: structs::module(module, &packages, &header)? });
    }
    let text = messages::table(checkout, &packages, &header)?;
    tables.push(Table { path: apiserver!("protobuf/fields.txt"), text });
    let text = definitions::table(definitions::read(checkout)?, &packages, &header)?;
    tables.push(Table { path: apiserver!("openapi/definitions.tsv"), text });
    let text = internal::table(checkout, &packages, &header)?;
    tables.push(Table { path: apiserver!("registry/core/internal_types.txt"), text });
    let text = roles::table(checkout, &header)?;
    tables.push(Table { path: apiserver!("bootstrap/roles.txt"), text });
    Ok(tables)
}
