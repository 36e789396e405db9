//! The field tables of the schema (`schema/tables/*.rs`), from the Go types. `schema/tables/mod.rs` has the notation.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::go::{self, Declaration, Field, Kind, Type};
use crate::names::{META, PACKAGES, Package, word, written};
use crate::source::{Checkout, Error};

/// Longest line of a table.
const WIDTH: usize = 118;

/// The declarations of all packages by import path.
pub(crate) type Packages = BTreeMap<&'static str, BTreeMap<String, Declaration>>;

/// Reads the declarations of every package.
pub(crate) fn read(checkout: &Checkout) -> Result<Packages, Error> {
    PACKAGES.iter().map(|one| Ok((one.import, checkout.declarations(&one.folder(), one.import)?))).collect()
}

/// Types by import path and name.
pub(crate) type Reached<'a> = BTreeSet<(&'a str, &'a str)>;

/// Types of the meta package that the server reads or writes by themselves.
///
/// By hand: the package has many more types that embed `TypeMeta`, for query parameters and for discovery.
const META_ROOTS: [&str; 6] =
    ["CreateOptions", "DeleteOptions", "PartialObjectMetadata", "PatchOptions", "Status", "UpdateOptions"];

/// Finds the kinds (structs that embed `TypeMeta`) without the lists of them, and the types that they refer to.
pub(crate) fn reached(all: &Packages) -> Reached<'_> {
    let mut queue = Vec::new();
    for (import, declarations) in all {
        for (name, declaration) in declarations {
            let Kind::Struct(fields) = &declaration.kind else { continue };
            let is_kind = fields.iter().any(|field| field.name.is_empty() && is_named(&field.ty, "TypeMeta"));
            let is_list = fields.iter().any(|field| is_named(&field.ty, "ListMeta"));
            let is_root = if *import == META { META_ROOTS.contains(&name.as_str()) } else { is_kind && !is_list };
            queue.extend(is_root.then_some((*import, name.as_str())));
        }
    }
    let mut found = Reached::new();
    while let Some((import, name)) = queue.pop() {
        let Some(declaration) = all.get(import).and_then(|declarations| declarations.get(name)) else { continue };
        if word(import, name).is_some() || !found.insert((import, name)) {
            continue;
        }
        match &declaration.kind {
            Kind::Struct(fields) => queue.extend(fields.iter().map(|field| innermost(&field.ty))),
            Kind::Over(target) => queue.push(innermost(target)),
        }
    }
    found
}

fn is_named(ty: &Type, wanted: &str) -> bool {
    matches!(ty, Type::Named(_, name) if name == wanted)
}

/// The named type inside pointers, lists and maps.
fn innermost(ty: &Type) -> (&str, &str) {
    match ty {
        Type::Named(path, name) => (path, name),
        Type::Pointer(of) | Type::List(of) | Type::Map(_, of) => innermost(of),
    }
}

/// A Rust file with the tables of some packages.
pub(crate) struct Module {
    /// Path from the tables' folder.
    pub(crate) file: &'static str,
    /// The first paragraph of the module's documentation.
    pub(crate) title: &'static str,
    /// Short names of the packages.
    pub(crate) packages: &'static [&'static str],
}

/// The text of a module.
pub(crate) fn module(module: &Module, all: &Packages, header: &str) -> Result<String, Error> {
    let reached = reached(all);
    let mut text = format!(
        "//! {}\n//!\n//! {header}\n//! The Go types below `staging/src/k8s.io` are its source; [`super`] has the notation.\n",
        module.title
    );
    for short in module.packages {
        let package = known(short)?;
        let name = short.to_uppercase();
        let prefix = package.prefix();
        _ = write!(text, "\n/// Types of `{prefix}`.\npub(super) const {name}: &str = \"\\\n");
        for line in table(package, all, &reached)? {
            text.push_str(&wrapped(&line));
        }
        text.push_str("\";\n");
    }
    Ok(text)
}

fn known(short: &str) -> Result<&'static Package, Error> {
    Package::by_short(short).ok_or_else(|| Error::input(short, "no such package"))
}

/// Breaks a line at spaces; continuation lines begin with a space.
fn wrapped(line: &str) -> String {
    let mut text = String::new();
    let mut width = 0;
    for word in line.split(' ') {
        if width > 0 && width + 1 + word.len() > WIDTH {
            text.push('\n');
            width = 0;
        }
        if !text.is_empty() {
            text.push(' ');
            width += 1;
        }
        text.push_str(word);
        width += word.len();
    }
    text.push('\n');
    text
}

/// The lines of a package's table, not yet wrapped.
fn table(package: &Package, all: &Packages, reached: &Reached<'_>) -> Result<Vec<String>, Error> {
    let declarations = all.get(package.import).ok_or_else(|| Error::input(package.import, "no such package"))?;
    let mut aliases: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let mut structs = Vec::new();
    let declared = declarations.iter().filter(|(name, _)| reached.contains(&(package.import, name)));
    for (name, declaration) in declared {
        match &declaration.kind {
            Kind::Over(target) => {
                let target = written(target, package.import);
                aliases.entry(target.unwrap_or_default()).or_default().push(name);
            }
            Kind::Struct(fields) => {
                structs.push(line(package, name, declaration, fields, all)?);
            }
        }
    }
    let aliases = aliases.iter().map(|(target, names)| format!("= {target}: {}", names.join(" ")));
    Ok(aliases.chain(structs).collect())
}

/// The line of a struct.
fn line(
    package: &Package,
    name: &str,
    declaration: &Declaration,
    fields: &[Field],
    all: &Packages,
) -> Result<String, Error> {
    let mut parts = Vec::new();
    for field in fields {
        let place = || format!("{}.{name}.{}", package.prefix(), field.json());
        let ty = written(&field.ty, package.import)
            .ok_or_else(|| Error::input(place(), "its type belongs to a package that is not served"))?;
        if field.json().is_empty() {
            parts.push(format!("&{ty}"));
        } else {
            let default = key_default(package, name, field, all);
            parts.push(format!("{} {ty}{}", field.json(), marks(field, default.as_deref())));
        }
    }
    let atomic = go::marker(&declaration.markers, "structType") == Some("atomic");
    let body = parts.join("; ");
    let own = if atomic { " =atomic" } else { "" };
    Ok(if body.is_empty() { format!("{name}:{own}") } else { format!("{name}:{own} {body}") })
}

fn all_markers<'a>(field: &'a Field, name: &'a str) -> impl Iterator<Item = &'a str> {
    field.markers.iter().filter_map(move |text| text.strip_prefix(name)?.strip_prefix('='))
}

/// The marks behind a field's type.
fn marks(field: &Field, default: Option<&str>) -> String {
    let mut text = String::new();
    if field.has_option("omitzero") {
        text.push('~');
    } else if !field.has_option("omitempty") {
        text.push('!');
    }
    let strategies: Vec<&str> = field.tags.get("patchStrategy").map(|tag| tag.split(',').collect()).unwrap_or_default();
    let merge_key = field.tags.get("patchMergeKey").map(String::as_str);
    let mut keys: Vec<&str> = all_markers(field, "listMapKey").collect();
    let has = |strategy: &str| strategies.contains(&strategy);
    let is_map = field.marker("listType") == Some("map");
    match merge_key {
        // One mark says both: the list map's keys and the strategic merge by the first of them.
        Some(key) if has("merge") && is_map && keys.contains(&key) => {
            keys.retain(|other| *other != key);
            keys.insert(0, key);
            _ = write!(text, "@{}", keys.join(","));
            if has("retainKeys") {
                text.push_str("+retainKeys");
            }
            keys.clear();
        }
        key => {
            for strategy in &strategies {
                match key {
                    Some(key) if *strategy == "merge" => _ = write!(text, "%merge({key})"),
                    _ => _ = write!(text, "%{strategy}"),
                }
            }
        }
    }
    match field.marker("listType") {
        Some("map") if keys.is_empty() => {}
        Some("map") => _ = write!(text, "=map({})", keys.join(",")),
        Some(other) => _ = write!(text, "={other}"),
        None => {}
    }
    for marker in ["mapType", "structType"] {
        if let Some(value) = field.marker(marker) {
            _ = write!(text, "={value}");
        }
    }
    if let Some(default) = default {
        _ = write!(text, ":{default}");
    }
    text
}

/// The default of a field that is a key of some list map.
fn key_default(package: &Package, name: &str, field: &Field, all: &Packages) -> Option<String> {
    let text = field.marker("default")?;
    let is_key = all.values().flat_map(BTreeMap::values).any(|declaration| {
        let Kind::Struct(fields) = &declaration.kind else { return false };
        fields.iter().any(|list| {
            let Type::List(of) = &list.ty else { return false };
            matches!(&**of, Type::Named(path, item) if path == package.import && item == name)
                && all_markers(list, "listMapKey").any(|key| key == field.json())
        })
    });
    is_key.then(|| text.trim_matches('"').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CORE: &str = "k8s.io/api/core/v1";

    const SOURCE: &str = "
import (
	metav1 \"k8s.io/apimachinery/pkg/apis/meta/v1\"
)

type Thing struct {
	metav1.TypeMeta `json:\",inline\"`
	// +listType=map
	// +listMapKey=port
	// +listMapKey=name
	Parts []Part `json:\"parts,omitempty\" patchStrategy:\"merge,retainKeys\" patchMergeKey:\"name\"`
	// +listType=atomic
	Hosts []Host `json:\"hosts\" patchStrategy:\"merge\" patchMergeKey:\"ip\"`
	// +mapType=atomic
	Labels map[string]string `json:\"labels,omitempty\"`
	Since metav1.Time `json:\"since,omitempty,omitzero\"`
}

// +structType=atomic
type Part struct {
	// +default=\"TCP\"
	Name string `json:\"name,omitempty\"`
	// +default=1
	Other int32 `json:\"other\"`
}

type Host string

type Unused struct {
	Name string `json:\"name\"`
}

type ThingList struct {
	metav1.TypeMeta `json:\",inline\"`
	metav1.ListMeta `json:\"metadata,omitempty\"`
	Items []Thing `json:\"items\"`
}
";

    #[test]
    fn kinds_and_what_they_refer_to_are_written() {
        let all = Packages::from([(CORE, go::declarations(SOURCE, CORE))]);
        let lines = table(known("core").unwrap(), &all, &reached(&all)).unwrap();
        let expected = [
            "= string: Host",
            "Part: =atomic name string:TCP; other int32!",
            "Thing: &meta.TypeMeta; parts []Part@name,port+retainKeys; hosts []Host!%merge(ip)=atomic; \
             labels {}string=atomic; since time~",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn long_lines_continue_after_a_space() {
        let word = "x".repeat(60);
        assert_eq!(wrapped(&format!("a: {word} {word} b")), format!("a: {word}\n {word} b\n"));
    }
}
