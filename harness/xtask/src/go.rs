//! Reads the type declarations of Go source text as `gofmt` writes it. PURE.
//!
//! Only what API types use is understood: one declaration or field per line, with the `+marker` comments right above
//! it.

use std::collections::BTreeMap;

/// A type expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Type {
    /// A named type: its import path (empty for Go's own types) and its name.
    Named(String, String),
    /// A pointer.
    Pointer(Box<Type>),
    /// A slice.
    List(Box<Type>),
    /// A map with its types of keys, which are strings in JSON, and values.
    Map(Box<Type>, Box<Type>),
}

/// A type declaration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Declaration {
    /// Texts of the `+marker` comments, without the plus sign.
    pub(crate) markers: Vec<String>,
    /// The declared type.
    pub(crate) kind: Kind,
    /// Values of the constants of this type, if it is an enumeration (`+enum`), sorted.
    pub(crate) values: Vec<String>,
}

impl Declaration {
    fn new(markers: Vec<String>, kind: Kind) -> Self {
        Self { markers, kind, values: Vec::new() }
    }
}

/// The right-hand side of a declaration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A struct.
    Struct(Vec<Field>),
    /// A type over another type.
    Over(Type),
}

/// A field of a struct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Field {
    /// The Go name; empty if the field is embedded.
    pub(crate) name: String,
    /// Its type.
    pub(crate) ty: Type,
    /// Its tags by key.
    pub(crate) tags: BTreeMap<String, String>,
    /// Texts of the `+marker` comments, without the plus sign.
    pub(crate) markers: Vec<String>,
}

impl Field {
    /// The JSON name; empty if the field is inlined or has no `json` tag.
    pub(crate) fn json(&self) -> &str {
        self.tags.get("json").and_then(|tag| tag.split(',').next()).unwrap_or_default()
    }

    /// Returns true if the `json` tag has this option.
    pub(crate) fn has_option(&self, option: &str) -> bool {
        self.tags.get("json").is_some_and(|tag| tag.split(',').skip(1).any(|word| word == option))
    }

    /// The value of the marker `+name=value`.
    pub(crate) fn marker(&self, name: &str) -> Option<&str> {
        marker(&self.markers, name)
    }
}

/// The value of the marker `+name=value`.
pub(crate) fn marker<'a>(markers: &'a [String], name: &str) -> Option<&'a str> {
    markers.iter().find_map(|text| text.strip_prefix(name)?.strip_prefix('='))
}

/// The file's imports by local name, and the import path of the file itself.
struct Imports<'a> {
    own: &'a str,
    others: BTreeMap<&'a str, &'a str>,
}

impl Imports<'_> {
    fn named(&self, text: &str) -> Option<Type> {
        let (path, name) = match text.split_once('.') {
            Some((package, name)) => (*self.others.get(package)?, name),
            None if text.starts_with(char::is_uppercase) => (self.own, text),
            None => ("", text),
        };
        let plain = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
        plain.then(|| Type::Named(path.to_owned(), name.to_owned()))
    }

    fn read(&self, text: &str) -> Option<Type> {
        if let Some(rest) = text.strip_prefix('*') {
            return Some(Type::Pointer(Box::new(self.read(rest)?)));
        }
        if let Some(rest) = text.strip_prefix("[]") {
            return Some(Type::List(Box::new(self.read(rest)?)));
        }
        if let Some(rest) = text.strip_prefix("map[") {
            let (key, value) = rest.split_once(']')?;
            return Some(Type::Map(Box::new(self.read(key)?), Box::new(self.read(value)?)));
        }
        self.named(text)
    }
}

fn imports<'a>(text: &'a str, own: &'a str) -> Imports<'a> {
    let mut others = BTreeMap::new();
    let mut inside = false;
    for line in text.lines() {
        let line = line.trim();
        let spec = match line.strip_prefix("import ") {
            Some("(") => {
                inside = true;
                continue;
            }
            Some(spec) => spec,
            None if inside && line == ")" => break,
            None if inside => line,
            None => continue,
        };
        let Some((name, path)) = spec.trim_end_matches('"').split_once('"') else { continue };
        let name = if name.trim().is_empty() { path.rsplit('/').next().unwrap_or(path) } else { name.trim() };
        others.insert(name, path);
    }
    Imports { own, others }
}

/// Reads the exported struct types and named types of a file that belongs to the package `import`.
pub(crate) fn declarations(text: &str, import: &str) -> BTreeMap<String, Declaration> {
    let imports = imports(text, import);
    let mut found = BTreeMap::new();
    let mut markers = Vec::new();
    let mut open: Option<(String, Declaration)> = None;
    for line in text.lines() {
        let line = line.trim();
        if let Some(comment) = line.strip_prefix("//") {
            markers.extend(comment.trim().strip_prefix('+').map(|text| text.trim().to_owned()));
            continue;
        }
        let markers = std::mem::take(&mut markers);
        match &mut open {
            Some((_, declaration)) if line != "}" => {
                if let Kind::Struct(fields) = &mut declaration.kind {
                    fields.extend(field(line, &imports, markers));
                }
            }
            Some(_) => found.extend(open.take()),
            None => {
                let Some((name, body)) = line.strip_prefix("type ").and_then(|rest| rest.split_once(' ')) else {
                    continue;
                };
                let name = name.to_owned();
                match body {
                    "struct {" => open = Some((name, Declaration::new(markers, Kind::Struct(Vec::new())))),
                    "struct{}" => found.extend([(name, Declaration::new(markers, Kind::Struct(Vec::new())))]),
                    _ => {
                        let ty = imports.read(body.split(" //").next().unwrap_or_default());
                        found.extend(ty.map(|ty| (name, Declaration::new(markers, Kind::Over(ty)))));
                    }
                }
            }
        }
    }
    found
}

/// The value of a constant.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Constant<'a> {
    /// A string.
    Text(&'a str),
    /// The value of another constant.
    Other(&'a str),
}

/// Reads the typed constants, `Name Type = "value"`, `Name = Type("value")` or `Name = Type(other)`, as pairs of type
/// and value.
pub(crate) fn constants(text: &str) -> Vec<(&str, Constant<'_>)> {
    text.lines().filter_map(constant).collect()
}

fn value(source: &str) -> Constant<'_> {
    let text = source.strip_prefix('"').and_then(|rest| rest.split('"').next());
    text.map_or(Constant::Other(source), Constant::Text)
}

fn constant(line: &str) -> Option<(&str, Constant<'_>)> {
    let line = line.trim();
    let (left, right) = line.strip_prefix("const ").unwrap_or(line).split_once(" = ")?;
    let left = left.trim();
    if let Some((_, ty)) = left.split_once(' ') {
        return Some((ty.trim(), value(right)));
    }
    let (ty, argument) = right.split_once('(')?;
    Some((ty, value(argument.split(')').next()?)))
}

/// Reads a field; `None` for other lines and for types that JSON cannot hold.
fn field(line: &str, imports: &Imports<'_>, markers: Vec<String>) -> Option<Field> {
    let (code, tag) = match line.split_once('`') {
        Some((code, rest)) => (code.trim(), rest.split('`').next().unwrap_or_default()),
        None => (line.split("//").next().unwrap_or_default().trim(), ""),
    };
    let (name, ty) = match code.split_once(char::is_whitespace) {
        Some((name, ty)) => (name, ty.trim()),
        None => ("", code),
    };
    Some(Field { name: name.to_owned(), ty: imports.read(ty)?, tags: tags(tag), markers })
}

/// Splits `json:"name,omitempty" protobuf:"…"`.
fn tags(mut text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    while let Some((key, rest)) = text.split_once(":\"") {
        let Some((value, rest)) = rest.split_once('"') else { break };
        found.insert(key.trim().to_owned(), value.to_owned());
        text = rest;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r#"
package v1

import (
	"k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Phase is a word.
// +enum
type Phase string

const First Phase = "First"

const (
	Second       Phase = "Second" // a remark
	Third              = Phase("Third")
	Fourth             = Phase(v1.Fourth)
	Untyped            = "no"
)

// Extra is a list.
type Extra []string

// +structType=atomic
type Thing struct {
	metav1.TypeMeta `json:",inline"`
	// Names of it.
	// +listType=map
	// +listMapKey=name
	// +optional
	Names []v1.Name `json:"names,omitempty" patchStrategy:"merge" protobuf:"bytes,1,rep,name=names"`

	Phases map[Phase]*metav1.Time `json:"phases"` // a remark
}

func (t *Thing) Name() string {
	return ""
}

type Empty struct{}
"#;

    fn named(path: &str, name: &str) -> Type {
        Type::Named(path.to_owned(), name.to_owned())
    }

    #[test]
    fn structs_and_named_types_are_read() {
        let found = declarations(SOURCE, "k8s.io/api/x/v1");
        assert_eq!(found.keys().collect::<Vec<_>>(), ["Empty", "Extra", "Phase", "Thing"]);
        assert_eq!(found["Phase"].kind, Kind::Over(named("", "string")));
        assert_eq!(found["Phase"].markers, ["enum"]);
        let values: Vec<_> =
            constants(SOURCE).into_iter().filter(|(ty, _)| *ty == "Phase").map(|(_, value)| value).collect();
        let text = Constant::Text;
        assert_eq!(values, [text("First"), text("Second"), text("Third"), Constant::Other("v1.Fourth")]);
        assert_eq!(found["Extra"].kind, Kind::Over(Type::List(Box::new(named("", "string")))));
        assert_eq!(marker(&found["Thing"].markers, "structType"), Some("atomic"));
        let Kind::Struct(fields) = &found["Thing"].kind else { panic!("no struct") };
        assert_eq!(fields.len(), 3);
        assert_eq!((fields[0].name.as_str(), fields[0].json()), ("", ""));
        assert!(fields[0].has_option("inline"));
        assert_eq!((fields[1].name.as_str(), fields[1].json()), ("Names", "names"));
        assert_eq!(fields[1].ty, Type::List(Box::new(named("k8s.io/api/core/v1", "Name"))));
        assert_eq!(fields[1].marker("listMapKey"), Some("name"));
        assert!(fields[1].has_option("omitempty") && !fields[2].has_option("omitempty"));
        assert_eq!(fields[1].tags["patchStrategy"], "merge");
        let time = named("k8s.io/apimachinery/pkg/apis/meta/v1", "Time");
        assert_eq!(
            fields[2].ty,
            Type::Map(Box::new(named("k8s.io/api/x/v1", "Phase")), Box::new(Type::Pointer(Box::new(time))))
        );
        assert!(fields[2].markers.is_empty());
    }
}
