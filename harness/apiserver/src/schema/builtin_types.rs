//! Parses the type tables into [`Schema`]s, each root type once, on first use. Upstream registers its types in
//! `pkg/api/legacyscheme/scheme.go`.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, OnceLock};

use parking_lot::Mutex;

use super::tables::{PACKAGES, Package};
use super::types::{
    ElementRelationship, EmitRule, ListType, MapType, PatchStrategy, Scalar, Schema, SchemaForm, StructField,
    StructType, Type, TypeKind, TypeRef,
};
use crate::json::{Key, Value};

/// Returns the schema of a built-in type by its OpenAPI name, such as `io.k8s.api.core.v1.Pod`.
pub(crate) fn builtin(name: &str) -> Option<Arc<Schema>> {
    static BUILT: Mutex<BTreeMap<String, Arc<Schema>>> = Mutex::new(BTreeMap::new());
    if let Some(schema) = BUILT.lock().get(name) {
        return Some(Arc::clone(schema));
    }
    let (prefix, short) = name.rsplit_once('.')?;
    let package = PACKAGES.iter().position(|p| p.prefix == prefix)?;
    index(package).get(short)?;
    let schema = Arc::new(BuiltinSchemaBuilder::build(package, short));
    // Built outside the lock: two threads may build the same schema, and the first to insert it wins.
    let mut built = BUILT.lock();
    Some(Arc::clone(built.entry(name.to_owned()).or_insert(schema)))
}

/// Returns the OpenAPI names of all built-in struct types, by package.
#[cfg(test)]
pub(crate) fn builtin_names() -> impl Iterator<Item = String> {
    PACKAGES.iter().enumerate().flat_map(|(i, p)| {
        index(i)
            .iter()
            .filter(|(_, definition)| matches!(definition, TableEntry::Struct(_)))
            .map(move |(name, _)| format!("{}.{name}", p.prefix))
    })
}

/// Returns true if a package defines an object of this name: a struct with `TypeMeta` and `ObjectMeta`.
pub(super) fn is_object(package: usize, name: &str) -> bool {
    let is_object = |fields: &str| fields.contains("TypeMeta;") && fields.contains("metadata meta.ObjectMeta");
    matches!(index(package).get(name), Some(TableEntry::Struct(fields)) if is_object(fields))
}

/// A definition of a table: the text after the colon.
#[derive(Clone, Copy)]
enum TableEntry {
    Struct(&'static str),
    Alias(&'static str),
}

type TypeIndex = BTreeMap<&'static str, TableEntry>;

/// Returns the definitions of a package by type name.
fn index(package: usize) -> &'static TypeIndex {
    static INDEXES: LazyLock<Vec<OnceLock<TypeIndex>>> =
        LazyLock::new(|| PACKAGES.iter().map(|_| OnceLock::new()).collect());
    INDEXES[package].get_or_init(|| {
        let mut index = TypeIndex::new();
        let Package { text, replaced, .. } = &PACKAGES[package];
        for definition in definitions(text).chain(definitions(replaced)) {
            let Some((head, body)) = definition.split_once(':') else { continue };
            if let Some(target) = head.strip_prefix("= ") {
                index.extend(body.split_whitespace().map(|name| (name, TableEntry::Alias(target))));
            } else {
                index.insert(head, TableEntry::Struct(body));
            }
        }
        index
    })
}

/// Splits a table into definitions; a line that starts with a space continues the previous one.
fn definitions(text: &'static str) -> impl Iterator<Item = &'static str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut end = 0;
        loop {
            end = rest[end..].find('\n').map_or(rest.len(), |i| end + i + 1);
            if !rest[end..].starts_with(' ') {
                break;
            }
        }
        let (definition, tail) = rest.split_at(end);
        rest = tail;
        Some(definition)
    })
}

/// The marks after a field's type.
#[derive(Clone, Default)]
struct FieldMarks {
    emit: Option<EmitRule>,
    patch: PatchStrategy,
    topology: Option<ElementRelationship>,
    atomic: bool,
    granular: bool,
    key_default: Option<String>,
}

struct BuiltinSchemaBuilder {
    types: Vec<Type>,
    known: BTreeMap<(usize, String), TypeRef>,
}

impl BuiltinSchemaBuilder {
    fn build(package: usize, short: &str) -> Schema {
        let mut builder = Self { types: Vec::new(), known: BTreeMap::new() };
        builder.resolve(package, short, &FieldMarks::default());
        Schema { types: builder.types, structural: false, empty: OnceLock::new() }
    }

    /// Returns the type written as `text` in the table of `package`, created on first use.
    fn resolve(&mut self, package: usize, text: &str, marks: &FieldMarks) -> TypeRef {
        let key = (package, format!("{text} {:?} {} {}", marks.topology, marks.atomic, marks.granular));
        if let Some(&known) = self.known.get(&key) {
            return known;
        }
        // The slot is reserved before the fields are read, for recursive types (JSONSchemaProps).
        let slot = TypeRef(u32::try_from(self.types.len()).unwrap_or(u32::MAX));
        self.types.push(Type { go: go_name(package, text), shape: TypeKind::Any });
        self.known.insert(key, slot);
        let made = self.make(package, text, marks);
        self.types[slot.0 as usize] = made;
        slot
    }

    fn make(&mut self, package: usize, text: &str, marks: &FieldMarks) -> Type {
        let plain = FieldMarks::default();
        let go = go_name(package, text);
        if let Some(item) = text.strip_prefix("[]") {
            let items = self.resolve(package, item, &plain);
            let topology = marks.topology.clone().unwrap_or(ElementRelationship::Atomic);
            return Type { go, shape: TypeKind::List(ListType { items, topology }) };
        }
        if let Some((_, value)) = map_type(text) {
            let values = self.resolve(package, value, &plain);
            return Type { go, shape: TypeKind::Map(MapType { values, atomic: marks.atomic }) };
        }
        if let Some((_, list)) = schema_form(text) {
            let list = (!list.is_empty()).then(|| self.resolve(package, list, &plain));
            let schema = self.resolve(package, "JSONSchemaProps", &plain);
            return Type { go, shape: TypeKind::SchemaForm(SchemaForm { schema, list }) };
        }
        if text == "json" {
            return Type { go, shape: TypeKind::Any };
        }
        if let Some((_, shape)) = leaf(text) {
            return Type { go, shape };
        }
        let (home, name) = locate(package, text);
        match index(home).get(name) {
            Some(TableEntry::Alias(target)) => {
                let target = self.make(home, target, marks);
                Type { go, shape: target.shape }
            }
            Some(TableEntry::Struct(body)) => {
                let shape = TypeKind::Struct(self.read_struct(home, body, marks));
                Type { go, shape }
            }
            None => Type { go, shape: TypeKind::Any },
        }
    }

    fn read_struct(&mut self, package: usize, body: &'static str, marks: &FieldMarks) -> StructType {
        let (atomic, body) = split_struct_mark(body);
        let mut fields = Vec::new();
        self.read_fields(package, body, "", &mut fields);
        for (order, field) in (0..).zip(&mut fields) {
            field.order = order;
        }
        StructType { fields: fields.into(), atomic: (atomic || marks.atomic) && !marks.granular, additional: None }
    }

    fn read_fields(&mut self, package: usize, body: &'static str, embedded: &str, fields: &mut Vec<StructField>) {
        for part in body.split(';') {
            let part = part.trim();
            if let Some(target) = part.strip_prefix('&') {
                let (home, name) = locate(package, target);
                if let Some(TableEntry::Struct(body)) = index(home).get(name) {
                    self.read_fields(home, split_struct_mark(body).1, &format!("{embedded}{name}."), fields);
                }
            } else if let Some((name, ty)) = part.split_once(char::is_whitespace) {
                let field = self.read_field(package, name, ty.trim(), embedded);
                fields.push(field);
            }
        }
    }

    fn read_field(&mut self, package: usize, name: &'static str, text: &str, embedded: &str) -> StructField {
        let end = text.find(['!', '~', '@', '+', '=', '%', ':']).unwrap_or(text.len());
        let (ty, marks) = text.split_at(end);
        let marks = read_marks(marks);
        let pointer = ty.starts_with('*');
        let ty = self.resolve(package, ty.trim_start_matches('*'), &marks);
        let emit = marks.emit.unwrap_or(EmitRule::OmitEmpty);
        let key_default = match marks.key_default {
            Some(text) => Some(text.into()),
            // A required scalar has its zero value as default in the published schema.
            None if emit == EmitRule::Always && !pointer => zero(&self.types[ty.0 as usize].shape),
            None => None,
        };
        let plain = StructField::plain(name, ty);
        let name = Key::new_static(name);
        let element = leak_static(plain.element);
        StructField {
            name,
            element,
            pointer,
            emit,
            patch: marks.patch,
            key_default,
            embedded: embedded.into(),
            ..plain
        }
    }
}

/// Splits off `=atomic` before the first field, which marks the struct itself.
fn split_struct_mark(body: &'static str) -> (bool, &'static str) {
    match body.trim_start().strip_prefix("=atomic") {
        Some(rest) => (true, rest),
        None => (false, body),
    }
}

fn locate(package: usize, text: &str) -> (usize, &str) {
    match text.split_once('.') {
        Some((short, name)) => (PACKAGES.iter().position(|p: &Package| p.short == short).unwrap_or(package), name),
        None => (package, text),
    }
}

/// Splits a type of maps into the types of its keys, empty for strings, and values.
fn map_type(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix('{')?.split_once('}')
}

/// Returns the Go name of a form of schemas and the type of the list that may take its place.
fn schema_form(text: &str) -> Option<(&'static str, &'static str)> {
    Some(match text {
        "props-or-array" => ("JSONSchemaPropsOrArray", "[]JSONSchemaProps"),
        "props-or-bool" => ("JSONSchemaPropsOrBool", ""),
        "props-or-strings" => ("JSONSchemaPropsOrStringArray", "[]string"),
        _ => return None,
    })
}

/// Returns the Go name of a type that is written as `text` in the table of `package`.
fn go_name(package: usize, text: &str) -> Box<str> {
    if let Some(item) = text.strip_prefix("[]") {
        return format!("[]{}", go_name(package, item)).into();
    }
    if let Some((key, value)) = map_type(text) {
        let key = if key.is_empty() { "string".into() } else { go_name(package, key) };
        return format!("map[{key}]{}", go_name(package, value)).into();
    }
    if let Some((go, _)) = leaf(text) {
        return go.into();
    }
    let (home, name) = locate(package, text);
    let name = if name == "json" { "JSON" } else { schema_form(name).map_or(name, |(go, _)| go) };
    format!("{}.{name}", PACKAGES[home].go).into()
}

fn leaf(text: &str) -> Option<(&str, TypeKind)> {
    let int = |min, max| Scalar::Int { min, max };
    let scalar = match text {
        "string" => Scalar::String,
        "types.UID" => return Some(("types.UID", TypeKind::Scalar(Scalar::String))),
        "bool" => Scalar::Bool,
        "int32" => int(i32::MIN.into(), i32::MAX.into()),
        "int64" | "int" => int(i64::MIN, i64::MAX),
        "uint8" => int(0, u8::MAX.into()),
        "float64" => Scalar::Float,
        "quantity" => return Some(("resource.Quantity", TypeKind::Scalar(Scalar::Quantity))),
        "intorstr" => return Some(("intstr.IntOrString", TypeKind::Scalar(Scalar::IntOrString))),
        "time" => return Some(("v1.Time", TypeKind::Scalar(Scalar::Time))),
        "microtime" => return Some(("v1.MicroTime", TypeKind::Scalar(Scalar::MicroTime))),
        "duration" => return Some(("v1.Duration", TypeKind::Scalar(Scalar::Duration))),
        "bytes" => return Some(("[]uint8", TypeKind::Scalar(Scalar::Bytes))),
        "raw" => return Some(("runtime.RawExtension", TypeKind::Any)),
        _ => return None,
    };
    Some((text, TypeKind::Scalar(scalar)))
}

fn zero(shape: &TypeKind) -> Option<Value> {
    match shape {
        TypeKind::Scalar(Scalar::String) => Some("".into()),
        TypeKind::Scalar(Scalar::Int { .. }) => Some(Value::from(0)),
        TypeKind::Scalar(Scalar::Bool) => Some(Value::Bool(false)),
        _ => None,
    }
}

fn read_marks(mut text: &str) -> FieldMarks {
    let mut marks = FieldMarks::default();
    while let Some(mark) = text.chars().next() {
        let rest = &text[1..];
        let end = rest.find(['!', '~', '@', '+', '=', '%', ':']).unwrap_or(rest.len());
        let (argument, tail) = rest.split_at(end);
        text = tail;
        match (mark, argument) {
            ('!', _) => marks.emit = Some(EmitRule::Always),
            ('~', _) => marks.emit = Some(EmitRule::OmitZero),
            ('@', keys) => {
                let mut keys: Vec<Box<str>> = keys.split(',').map(Into::into).collect();
                marks.patch.merge = true;
                marks.patch.merge_key = keys.first().cloned();
                keys.sort();
                marks.topology = Some(ElementRelationship::Map(keys));
            }
            ('+', _) | ('%', "retainKeys") => marks.patch.retain_keys = true,
            ('=', "set") => marks.topology = Some(ElementRelationship::Set),
            ('=', "atomic") => marks.atomic = true,
            ('=', "granular") => marks.granular = true,
            ('=', other) => {
                if let Some(keys) = other.strip_prefix("map(").and_then(|k| k.strip_suffix(')')) {
                    let mut keys: Vec<Box<str>> = keys.split(',').map(Into::into).collect();
                    keys.sort();
                    marks.topology = Some(ElementRelationship::Map(keys));
                }
            }
            ('%', "replace") => marks.patch.replace = true,
            ('%', merge) => {
                marks.patch.merge = true;
                marks.patch.merge_key = merge.strip_prefix("merge(").and_then(|k| k.strip_suffix(')')).map(Into::into);
            }
            (_, value) => marks.key_default = Some(value.to_owned()),
        }
    }
    marks
}

/// Makes a string static. Every object has copies of it, and a reference counter shared by all threads would slow
/// them down.
fn leak_static(text: Key) -> Key {
    if text.is_heap_allocated() { Key::new_static(String::from(text).leak()) } else { text }
}
