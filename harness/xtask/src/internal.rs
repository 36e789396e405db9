//! The table of kube-apiserver's internal pod types (`registry/core/internal_types.txt`), from `pkg/apis/core`.
//! `harness/apiserver/src/registry/core/internal_json.rs` has the notation.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::go::{Declaration, Field, Kind, Type};
use crate::names::{META, Package, word};
use crate::source::{Checkout, Error};
use crate::structs::Packages;

/// Import path and folder of the internal types.
const IMPORT: &str = "k8s.io/kubernetes/pkg/apis/core";
const FOLDER: &str = "pkg/apis/core";

/// The first type; the others follow in the order in which they are found from it.
const ROOT: &str = "PodSpec";

/// A type that no pod has, which follows with those that are found from it alone.
const SECOND_ROOT: &str = "PersistentVolumeSource";

type Declarations = BTreeMap<String, Declaration>;

/// The text of the table.
pub(crate) fn table(checkout: &Checkout, packages: &Packages, header: &str) -> Result<String, Error> {
    let internal = checkout.declarations(FOLDER, IMPORT)?;
    let core = Package::by_short("core").map_or("", |package| package.import);
    let published = packages.get(core).ok_or_else(|| Error::input(core, "no such package"))?;
    lines(&internal, published)
        .map(|lines| format!("# {header} internal_json.rs has the notation.\n{}\n", lines.join("\n")))
}

fn lines(internal: &Declarations, published: &Declarations) -> Result<Vec<String>, Error> {
    let mut names = vec![ROOT.to_owned()];
    let mut lines = Vec::new();
    loop {
        if names.len() == lines.len() && internal.contains_key(SECOND_ROOT) && !names.iter().any(|n| n == SECOND_ROOT) {
            names.push(SECOND_ROOT.to_owned());
        }
        let Some(name) = names.get(lines.len()).cloned() else { break };
        let mut line = name.clone();
        for field in fields(internal, &name) {
            let place = || format!("{FOLDER} {name}.{}", field.name);
            let json = json_name(published, &name, &field.name)
                .ok_or_else(|| Error::input(place(), "the published type has no such field"))?;
            let (code, target) = code(internal, &field.ty)
                .ok_or_else(|| Error::input(place(), "the table has no letter for its type"))?;
            if let Some(target) = target.filter(|target| !names.iter().any(|known| known == target)) {
                names.push(target.to_owned());
            }
            _ = write!(line, " {}:{json}:{code}{}", field.name, target.unwrap_or_default());
        }
        lines.push(line);
    }
    Ok(lines)
}

/// The fields of a struct with those of its embedded structs.
///
/// Embedded structs of other packages are left out, by hand: only `PersistentVolumeClaimTemplate` has one, its
/// metadata.
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

/// The JSON name of the published field with the same Go name; `^name` if it is a field of the spec itself.
fn json_name(published: &Declarations, name: &str, field: &str) -> Option<String> {
    let find = |ty: &str| fields(published, ty).into_iter().find(|known| known.name == field).map(Field::json);
    find(name).map(str::to_owned).or_else(|| find(ROOT).map(|json| format!("^{json}")))
}

/// The letter for a type, and the struct that follows it.
fn code<'a>(declarations: &'a Declarations, ty: &'a Type) -> Option<(&'static str, Option<&'a str>)> {
    let plain = |code| Some((code, None));
    match ty {
        Type::Pointer(of) => match code(declarations, of)? {
            ("=", target) => Some(("*", target)),
            ("K", _) => plain("K"),
            ("q", _) => plain("Q"),
            ("s" | "n" | "b", _) => plain("?"),
            _ => None,
        },
        Type::List(of) => match code(declarations, of)? {
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
            (None, META) if name == "LabelSelector" => plain("K"),
            (None, IMPORT) => match &declarations.get(name)?.kind {
                Kind::Struct(_) => Some(("=", Some(name))),
                Kind::Over(target) => code(declarations, target),
            },
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
        let lines = lines(&go::declarations(internal, IMPORT), &go::declarations(published, "k8s.io/api/core/v1"));
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
