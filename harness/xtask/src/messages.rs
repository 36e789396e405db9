//! The table of protobuf messages (`protobuf/fields.txt`), from `generated.proto` files.
//!
//! The proto files do not say which messages represent embedded Go structs (their fields are the outer message's in
//! JSON); the Go types do.

use std::fmt::Write as _;

use crate::go::{self, Kind};
use crate::names::{PACKAGES, Package, word};
use crate::source::{Checkout, Error};
use crate::structs::{self, Packages};

/// A message's name and its fields in the file's order: number, name, type.
type Message = (String, Vec<MessageField>);

/// A field: number, name, type.
type MessageField = (u32, String, String);

/// The text of the table: the messages of the types in the schema's tables.
pub(crate) fn table(checkout: &Checkout, packages: &Packages, header: &str) -> Result<String, Error> {
    let reached = structs::reached(packages);
    let mut text = format!("# {header} protobuf/mod.rs has the notation.\n");
    for package in PACKAGES {
        let path = format!("{}/generated.proto", package.folder());
        let messages = read(&checkout.text(&path)?, package).map_err(|problem| Error::input(&path, problem))?;
        _ = writeln!(text, "# {}", package.short);
        for (name, mut fields) in messages {
            let declaration = packages.get(package.import).and_then(|declarations| declarations.get(&name));
            let Some(Kind::Struct(known)) = declaration.map(|declaration| &declaration.kind) else { continue };
            if !reached.contains(&(package.import, &name))
                || word(package.import, &name).is_some()
                || name == "TypeMeta"
            {
                continue;
            }
            fields.sort();
            let fields: Vec<String> = fields
                .iter()
                .map(|(number, field, ty)| format!("{number} {} {ty}", json_name(known, *number).unwrap_or(field)))
                .collect();
            _ = writeln!(text, "{name}: {}", fields.join("; "));
        }
    }
    Ok(text)
}

/// The JSON name of the field with this protobuf number; `&` for an embedded struct.
fn json_name(known: &[go::Field], number: u32) -> Option<&str> {
    let field = known.iter().find(|field| {
        let tag = field.tags.get("protobuf").map(String::as_str).unwrap_or_default();
        tag.split(',').nth(1).and_then(|text| text.parse().ok()) == Some(number)
    })?;
    Some(if field.json().is_empty() { "&" } else { field.json() })
}

/// Reads the messages of a proto file.
fn read(text: &str, package: &Package) -> Result<Vec<Message>, String> {
    let mut messages: Vec<Message> = Vec::new();
    let mut open = false;
    for line in text.lines() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix("message ").and_then(|rest| rest.strip_suffix(" {")) {
            messages.push((name.to_owned(), Vec::new()));
            open = true;
        } else if line == "}" {
            open = false;
        } else if open && !line.is_empty() && !line.starts_with("//") {
            let field = field(line, package).ok_or_else(|| format!("not a field: {line}"))?;
            if let Some((_, fields)) = messages.last_mut() {
                fields.push(field);
            }
        }
    }
    Ok(messages)
}

/// Reads `optional T name = 1;`, `repeated T name = 1;` or `map<string, T> name = 1;`.
fn field(line: &str, package: &Package) -> Option<MessageField> {
    let (left, number) = line.strip_suffix(';')?.rsplit_once(" = ")?;
    let (left, name) = left.rsplit_once(' ')?;
    let ty = if let Some(of) = left.strip_prefix("map<string, ") {
        format!("{{}}{}", written(of.strip_suffix('>')?, package)?)
    } else if let Some(of) = left.strip_prefix("repeated ") {
        format!("[]{}", written(of, package)?)
    } else {
        written(left.strip_prefix("optional ")?, package)?
    };
    Some((number.parse().ok()?, name.to_owned(), ty))
}

/// A type as the table writes it: `package.Name`, or a word for a type with an encoding of its own.
fn written(ty: &str, package: &Package) -> Option<String> {
    let Some(full) = ty.strip_prefix('.') else { return Some(ty.to_owned()) };
    let (path, name) = full.rsplit_once('.')?;
    Some(match full {
        "k8s.io.apimachinery.pkg.api.resource.Quantity" => "quantity".to_owned(),
        "k8s.io.apimachinery.pkg.runtime.RawExtension" => "raw".to_owned(),
        "k8s.io.apimachinery.pkg.util.intstr.IntOrString" => "intorstr".to_owned(),
        _ => {
            let home = PACKAGES.iter().find(|known| known.import.replace('/', ".") == path)?;
            if home == package { name.to_owned() } else { format!("{}.{name}", home.short) }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROTO: &str = "
syntax = \"proto2\";

package k8s.io.api.core.v1;

// Thing is a thing.
message Thing {
  // Its metadata.
  // +optional
  optional .k8s.io.apimachinery.pkg.apis.meta.v1.ObjectMeta metadata = 1;

  map<string, .k8s.io.apimachinery.pkg.api.resource.Quantity> limits = 11;

  repeated Part parts = 3;

  optional Common common = 2;
}
";

    const GO: &str = "
type Thing struct {
	metav1.ObjectMeta `json:\"metadata\" protobuf:\"bytes,1,opt,name=metadata\"`
	Common `json:\",inline\" protobuf:\"bytes,2,req\"`
}
";

    #[test]
    fn messages_are_read_and_named_as_in_json() {
        let package = Package::by_short("core").expect("the core package");
        let messages = read(PROTO, package).expect("messages");
        let field = |number, name: &str, ty: &str| (number, name.to_owned(), ty.to_owned());
        let expected = [
            field(1, "metadata", "meta.ObjectMeta"),
            field(11, "limits", "{}quantity"),
            field(3, "parts", "[]Part"),
            field(2, "common", "Common"),
        ];
        assert_eq!(messages, [("Thing".to_owned(), expected.to_vec())]);
        let source = format!("import (\n\tmetav1 \"k8s.io/apimachinery/pkg/apis/meta/v1\"\n)\n{GO}");
        let declarations = go::declarations(&source, package.import);
        let Kind::Struct(known) = &declarations["Thing"].kind else { panic!("no struct") };
        assert_eq!(json_name(known, 1), Some("metadata"));
        assert_eq!(json_name(known, 2), Some("&"));
        assert_eq!(json_name(known, 3), None);
    }

    #[test]
    fn an_unknown_line_is_an_error() {
        let package = Package::by_short("core").expect("the core package");
        assert!(read("message A {\n  group B = 1;\n}\n", package).is_err());
    }
}
