//! The packages of types that the server serves, and the types that the tables write in one word. PURE.

use crate::go::Type;

/// A package of types.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Package {
    /// The name by which the tables refer to it.
    pub(crate) short: &'static str,
    /// Its Go import path; its folder is `staging/src/` and this path.
    pub(crate) import: &'static str,
    /// Its OpenAPI document in `api/openapi-spec/v3`; empty if it has none of its own.
    pub(crate) document: &'static str,
}

const fn package(short: &'static str, import: &'static str, document: &'static str) -> Package {
    Package { short, import, document }
}

/// Import path of the meta package.
pub(crate) const META: &str = "k8s.io/apimachinery/pkg/apis/meta/v1";

/// Import path of the apiextensions package.
const APIEXTENSIONS: &str = "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1";

/// Every package. A package added here needs its line in `PACKAGES` of the server's `schema/tables/mod.rs`, too.
pub(crate) const PACKAGES: &[Package] = &[
    package("meta", META, ""),
    package("core", "k8s.io/api/core/v1", "api__v1"),
    package("apps", "k8s.io/api/apps/v1", "apis__apps__v1"),
    package("autoscaling", "k8s.io/api/autoscaling/v1", "apis__autoscaling__v1"),
    package("autoscalingv2", "k8s.io/api/autoscaling/v2", "apis__autoscaling__v2"),
    package("batch", "k8s.io/api/batch/v1", "apis__batch__v1"),
    package("policy", "k8s.io/api/policy/v1", "apis__policy__v1"),
    package("scheduling", "k8s.io/api/scheduling/v1", "apis__scheduling.k8s.io__v1"),
    package("authentication", "k8s.io/api/authentication/v1", "apis__authentication.k8s.io__v1"),
    package("authorization", "k8s.io/api/authorization/v1", "apis__authorization.k8s.io__v1"),
    package("certificates", "k8s.io/api/certificates/v1", "apis__certificates.k8s.io__v1"),
    package("flowcontrol", "k8s.io/api/flowcontrol/v1", "apis__flowcontrol.apiserver.k8s.io__v1"),
    package("rbac", "k8s.io/api/rbac/v1", "apis__rbac.authorization.k8s.io__v1"),
    package("admissionregistration", "k8s.io/api/admissionregistration/v1", "apis__admissionregistration.k8s.io__v1"),
    package("apiextensions", APIEXTENSIONS, "apis__apiextensions.k8s.io__v1"),
    package(
        "apiregistration",
        "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1",
        "apis__apiregistration.k8s.io__v1",
    ),
    package("coordination", "k8s.io/api/coordination/v1", "apis__coordination.k8s.io__v1"),
    package("discovery", "k8s.io/api/discovery/v1", "apis__discovery.k8s.io__v1"),
    package("events", "k8s.io/api/events/v1", "apis__events.k8s.io__v1"),
    package("networking", "k8s.io/api/networking/v1", "apis__networking.k8s.io__v1"),
    package("node", "k8s.io/api/node/v1", "apis__node.k8s.io__v1"),
    package("resource", "k8s.io/api/resource/v1", "apis__resource.k8s.io__v1"),
    package("storage", "k8s.io/api/storage/v1", "apis__storage.k8s.io__v1"),
];

impl Package {
    /// Its folder in a Kubernetes checkout.
    pub(crate) fn folder(&self) -> String {
        format!("staging/src/{}", self.import)
    }

    /// The prefix of its types' OpenAPI names: `io.k8s.api.core.v1`.
    pub(crate) fn prefix(&self) -> String {
        self.import.replacen("k8s.io", "io.k8s", 1).replace('/', ".")
    }

    /// The package called `short`.
    pub(crate) fn by_short(short: &str) -> Option<&'static Self> {
        PACKAGES.iter().find(|package| package.short == short)
    }
}

/// Types with a JSON form of their own, by import path and name, and the tables' word for them.
///
/// By hand: the form is in Go code (`MarshalJSON`, `UnmarshalJSON`), in none of the documents.
const WORDS: [(&str, &str, &str); 12] = [
    ("k8s.io/apimachinery/pkg/api/resource", "Quantity", "quantity"),
    ("k8s.io/apimachinery/pkg/runtime", "RawExtension", "raw"),
    ("k8s.io/apimachinery/pkg/types", "UID", "types.UID"),
    ("k8s.io/apimachinery/pkg/util/intstr", "IntOrString", "intorstr"),
    (META, "Duration", "duration"),
    (META, "FieldsV1", "raw"),
    (META, "MicroTime", "microtime"),
    (META, "Time", "time"),
    (APIEXTENSIONS, "JSON", "json"),
    (APIEXTENSIONS, "JSONSchemaPropsOrArray", "props-or-array"),
    (APIEXTENSIONS, "JSONSchemaPropsOrBool", "props-or-bool"),
    (APIEXTENSIONS, "JSONSchemaPropsOrStringArray", "props-or-strings"),
];

/// The tables' word for a type with a JSON form of its own.
pub(crate) fn word(import: &str, name: &str) -> Option<&'static str> {
    WORDS.iter().find(|(path, ty, _)| *path == import && *ty == name).map(|(.., word)| *word)
}

/// A type as the tables of the package `home` write it; `None` if it belongs to a package that is not served.
pub(crate) fn written(ty: &Type, home: &str) -> Option<String> {
    Some(match ty {
        Type::Pointer(of) => format!("*{}", written(of, home)?),
        Type::List(of) if matches!(&**of, Type::Named(path, name) if path.is_empty() && name == "byte") => {
            "bytes".to_owned()
        }
        Type::List(of) => format!("[]{}", written(of, home)?),
        Type::Map(key, of) => {
            let key = written(key, home)?;
            format!("{{{}}}{}", if key == "string" { "" } else { &key }, written(of, home)?)
        }
        Type::Named(path, name) if path.is_empty() => name.clone(),
        Type::Named(path, name) => match word(path, name) {
            Some(word) => word.to_owned(),
            None if path == home => name.clone(),
            None => format!("{}.{name}", PACKAGES.iter().find(|package| package.import == path)?.short),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_written_for_their_package() {
        let named = |path: &str, name: &str| Type::Named(path.to_owned(), name.to_owned());
        let core = "k8s.io/api/core/v1";
        let list = |of| Type::List(Box::new(of));
        assert_eq!(written(&list(named("", "byte")), core).as_deref(), Some("bytes"));
        assert_eq!(written(&list(named(core, "Pod")), core).as_deref(), Some("[]Pod"));
        assert_eq!(written(&list(named(core, "Pod")), META).as_deref(), Some("[]core.Pod"));
        let map = |key, of| Type::Map(Box::new(key), Box::new(of));
        assert_eq!(written(&map(named("", "string"), named(META, "Time")), META).as_deref(), Some("{}time"));
        assert_eq!(written(&map(named(core, "Name"), named("", "bool")), META).as_deref(), Some("{core.Name}bool"));
        assert_eq!(written(&named("k8s.io/api/other/v1", "Pod"), core), None);
        assert_eq!(Package::by_short("apps").map(Package::prefix).as_deref(), Some("io.k8s.api.apps.v1"));
    }
}
