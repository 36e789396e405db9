//! The table of kube-apiserver's internal types that errors show (`registry/core/internal_types.txt`), from `pkg/apis`.
//! `harness/apiserver/src/registry/core/internal_json.rs` has the notation.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::go::{Declaration, Field, Kind, Type};
use crate::names::{META, Package, word};
use crate::source::{Checkout, Error};
use crate::structs::Packages;

/// A package of internal types: its import path and folder, the published package with the JSON names, and the types
/// whose text errors show. Types that are found from a root follow it.
struct Source {
    import: &'static str,
    folder: &'static str,
    published: &'static str,
    roots: &'static [&'static str],
}

/// Import path of the core package.
const CORE: &str = "k8s.io/kubernetes/pkg/apis/core";

/// The packages; the first type is the spec of pods, whose fields other structs have, too.
const SOURCES: [Source; 5] = [
    Source {
        import: CORE,
        folder: "pkg/apis/core",
        published: "core",
        // No pod has the second.
        roots: &["PodSpec", "PersistentVolumeSource"],
    },
    Source {
        import: "k8s.io/kubernetes/pkg/apis/resource",
        folder: "pkg/apis/resource",
        published: "resource",
        roots: &["ResourceClaimSpec", "AllocationResult", "ResourceClaimTemplateSpec"],
    },
    Source {
        import: "k8s.io/kubernetes/pkg/apis/storage",
        folder: "pkg/apis/storage",
        published: "storage",
        roots: &["VolumeAttachmentSpec", "CSINodeDriver"],
    },
    Source {
        import: "k8s.io/kubernetes/pkg/apis/admissionregistration",
        folder: "pkg/apis/admissionregistration",
        published: "admissionregistration",
        roots: &["AuditAnnotation"],
    },
    Source {
        import: "k8s.io/kubernetes/pkg/apis/batch",
        folder: "pkg/apis/batch",
        published: "batch",
        roots: &["PodFailurePolicy", "SuccessPolicy"],
    },
];

type Declarations = BTreeMap<String, Declaration>;

/// The internal and the published types of a package.
struct Types<'a> {
    source: &'a Source,
    internal: Declarations,
    published: &'a Declarations,
}

/// The text of the table.
pub(crate) fn table(checkout: &Checkout, packages: &Packages, header: &str) -> Result<String, Error> {
    let mut all = Vec::new();
    for source in &SOURCES {
        let internal = checkout.declarations(source.folder, source.import)?;
        let import = Package::by_short(source.published).map_or("", |package| package.import);
        let published = packages.get(import).ok_or_else(|| Error::input(import, "no such package"))?;
        all.push(Types { source, internal, published });
    }
    lines(&all).map(|lines| format!("# {header} internal_json.rs has the notation.\n{}\n", lines.join("\n")))
}

fn lines(all: &[Types<'_>]) -> Result<Vec<String>, Error> {
    let mut names: Vec<(usize, String)> = Vec::new();
    let mut lines = Vec::new();
    let roots =
        all.iter().enumerate().flat_map(|(home, types)| types.source.roots.iter().map(move |root| (home, *root)));
    for (home, root) in roots {
        if all[home].internal.contains_key(root) && !names.iter().any(|(_, known)| known == root) {
            names.push((home, root.to_owned()));
        }
        while let Some((home, name)) = names.get(lines.len()).cloned() {
            let types = &all[home];
            let mut line = name.clone();
            for field in fields(&types.internal, &name) {
                let place = || format!("{} {name}.{}", types.source.folder, field.name);
                let json = json_name(types, &name, &field.name)
                    .ok_or_else(|| Error::input(place(), "the published type has no such field"))?;
                let (code, target) = code(all, &field.ty)
                    .ok_or_else(|| Error::input(place(), "the table has no letter for its type"))?;
                if let Some((home, target)) = &target {
                    match names.iter().find(|(_, known)| known == target) {
                        None => names.push((*home, target.clone())),
                        Some((known, _)) if known == home => {}
                        Some(_) => return Err(Error::input(place(), "two packages have a type of this name")),
                    }
                }
                _ = write!(line, " {}:{json}:{code}{}", field.name, target.map(|(_, name)| name).unwrap_or_default());
            }
            lines.push(line);
        }
    }
    Ok(lines)
}

/// The fields of a struct with those of its embedded structs.
///
/// Embedded structs of other packages are left out, by hand: only templates of claims have one, their metadata.
fn fields<'a>(declarations: &'a Declarations, name: &str) -> Vec<&'a Field> {
    let Some(Kind::Struct(fields)) = declarations.get(name).map(|declaration| &declaration.kind) else {
        return Vec::new();
    };
    let own = |field: &'a Field| match &field.ty {
        Type::Named(_, embedded) if field.name.is_empty() => self::fields(declarations, embedded),
        _ => vec![field],
    };
    fields.iter().flat_map(own).collect()
}

/// The JSON name of the published field with the same Go name; `^name` if it is a field of the spec of pods itself.
fn json_name(types: &Types<'_>, name: &str, field: &str) -> Option<String> {
    let find = |ty: &str| fields(types.published, ty).into_iter().find(|known| known.name == field).map(Field::json);
    find(name).map(str::to_owned).or_else(|| find("PodSpec").map(|json| format!("^{json}")))
}

/// A struct by its package and name.
type InnerType = Option<(usize, String)>;

/// The letter for a type, and the struct that follows it.
fn code(all: &[Types<'_>], ty: &Type) -> Option<(&'static str, InnerType)> {
    let plain = |code| Some((code, None));
    match ty {
        Type::Pointer(of) => match code(all, of)? {
            ("=", target) => Some(("*", target)),
            ("K", _) => plain("K"),
            ("q", _) => plain("Q"),
            ("s" | "n" | "b" | "?", _) => plain("?"),
            _ => None,
        },
        Type::List(of) => match code(all, of)? {
            ("=", target) => Some(("+", target)),
            ("s" | "n", _) => plain("L"),
            _ => None,
        },
        Type::Map(..) => plain("M"),
        Type::Named(path, name) if path.is_empty() => match name.as_str() {
            "string" => plain("s"),
            "int" | "int32" | "int64" => plain("n"),
            "bool" => plain("b"),
            _ => None,
        },
        Type::Named(path, name) => match (word(path, name), path.as_str()) {
            (Some("quantity"), _) => plain("q"),
            (Some("intorstr"), _) => plain("i"),
            (Some("types.UID"), _) => plain("s"),
            // Shown as null where they are not set, as what is behind a pointer.
            (Some("time" | "raw"), _) => plain("?"),
            (None, META) if name == "LabelSelector" => plain("K"),
            (None, path) => {
                let home = all.iter().position(|types| types.source.import == path)?;
                match &all[home].internal.get(name)?.kind {
                    Kind::Struct(_) => Some(("=", Some((home, name.clone())))),
                    Kind::Over(target) => code(all, target),
                }
            }
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::go;

    #[test]
    fn types_are_listed_in_the_order_they_are_found() {
        let internal = "
type PodSpec struct {
	Containers []Container
	Policy Policy
	Security *Security
}

type Policy string

type Container struct {
	Common
	Limits ResourceList
}

type Common struct {
	Name string
}

type ResourceList map[string]string

type Security struct {
	HostNetwork bool
	User *int64
}
";
        let published = "
type PodSpec struct {
	Containers []Container `json:\"containers\"`
	Policy Policy `json:\"policy\"`
	Security *Security `json:\"security\"`
	HostNetwork bool `json:\"hostNetwork\"`
}

type Container struct {
	Name string `json:\"name\"`
	Limits ResourceList `json:\"limits\"`
}

type Security struct {
	User *int64 `json:\"runAs\"`
}
";
        let published = go::declarations(published, "k8s.io/api/core/v1");
        let types = Types { source: &SOURCES[0], internal: go::declarations(internal, CORE), published: &published };
        let lines = lines(&[types]);
        assert_eq!(
            lines.unwrap(),
            [
                "PodSpec Containers:containers:+Container Policy:policy:s Security:security:*Security",
                "Container Name:name:s Limits:limits:M",
                "Security HostNetwork:^hostNetwork:b User:runAs:?",
            ]
        );
    }
}
