//! The columns of tables: their definitions, and the cells they read from an object. PURE.
//! See `pkg/printers/tablegenerator.go`.

use jiff::Timestamp;

use super::{duration, format};
use crate::descriptions;
use crate::json::{Value, json};

/// The source of a column's description.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Description {
    /// The description of a field of a type in the OpenAPI schema (type name without `io.k8s.`, field).
    Field(&'static str, &'static str),
    /// A literal text.
    Text(&'static str),
}

/// The way in which a cell is read from an object.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CellSource {
    /// The string at a pointer; the second value if it is absent or empty.
    Text(&'static str, &'static str),
    /// The string at a pointer, which may be empty; the second value if it is absent. Go has a pointer there.
    Optional(&'static str, &'static str),
    /// The integer at a pointer, 0 if absent.
    Number(&'static str),
    /// The boolean at a pointer, `false` if absent.
    Flag(&'static str),
    /// The number of entries of the map or list at a pointer.
    Count(&'static str),
    /// The time since the timestamp at a pointer.
    Since(&'static str),
    /// `ready/desired` from two integers.
    Ratio(&'static str, &'static str),
    /// The names of a list of containers.
    ContainerNames(&'static str),
    /// The images of a list of containers.
    ContainerImages(&'static str),
    /// A label selector (`<none>` if empty).
    Selector(&'static str),
    /// A map of labels (`<none>` if empty).
    Labels(&'static str),
    /// The result of a function.
    Custom(fn(&Value, Timestamp) -> Value),
}

impl CellSource {
    /// Returns the cell of `object` at `now`.
    pub(crate) fn of(self, object: &Value, now: Timestamp) -> Value {
        match self {
            Self::Text(pointer, otherwise) => json!(format::text_or(object, pointer, otherwise)),
            Self::Optional(pointer, otherwise) => {
                json!(object.pointer(pointer).and_then(Value::as_str).unwrap_or(otherwise))
            }
            Self::Number(pointer) => json!(format::number(object, pointer)),
            Self::Flag(pointer) => json!(format::flag(object, pointer)),
            Self::Count(pointer) => json!(format::count(object, pointer)),
            Self::Since(pointer) => json!(duration::since(object.pointer(pointer), now)),
            Self::Ratio(part, whole) => {
                json!(format!("{}/{}", format::number(object, part), format::number(object, whole)))
            }
            Self::ContainerNames(pointer) => json!(format::containers(object, pointer).0),
            Self::ContainerImages(pointer) => json!(format::containers(object, pointer).1),
            Self::Selector(pointer) => json!(format::selector_or_none(object, pointer)),
            Self::Labels(pointer) => json!(format::labels(object, pointer)),
            Self::Custom(read) => read(object, now),
        }
    }
}

/// A column of a built-in kind's table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    name: &'static str,
    kind: &'static str,
    format: &'static str,
    priority: u8,
    /// Its cells are in the rows, but the table does not define it.
    is_undefined: bool,
    about: Description,
    cell: CellSource,
}

impl Column {
    const fn new(name: &'static str, kind: &'static str, about: Description, cell: CellSource) -> Self {
        Self { name, kind, format: "", priority: 0, is_undefined: false, about, cell }
    }

    /// Creates a column of type `string`.
    pub(crate) const fn string(name: &'static str, about: Description, cell: CellSource) -> Self {
        Self::new(name, "string", about, cell)
    }

    /// Creates a column of type `integer`.
    pub(crate) const fn integer(name: &'static str, about: Description, cell: CellSource) -> Self {
        Self::new(name, "integer", about, cell)
    }

    /// Creates a column of type `boolean`.
    pub(crate) const fn boolean(name: &'static str, about: Description, cell: CellSource) -> Self {
        Self::new(name, "boolean", about, cell)
    }

    /// Replaces the way in which the cell is read.
    pub(crate) const fn with_source(mut self, cell: CellSource) -> Self {
        self.cell = cell;
        self
    }

    /// Returns the cell of `object` at `now`.
    pub(crate) fn read(&self, object: &Value, now: Timestamp) -> Value {
        self.cell.of(object, now)
    }

    /// Shows the column only with `-o wide`.
    pub(crate) const fn wide(mut self) -> Self {
        self.priority = 1;
        self
    }

    /// Leaves the column out of the definitions of the table. Upstream has rows with more cells than columns.
    pub(crate) const fn undefined(mut self) -> Self {
        self.is_undefined = true;
        self
    }

    /// Returns false for a column that the table does not define.
    pub(crate) const fn is_defined(&self) -> bool {
        !self.is_undefined
    }

    /// Sets the format `name`, which marks the column that identifies the row.
    pub(crate) const fn named(mut self) -> Self {
        self.format = "name";
        self
    }

    /// Returns the `metav1.TableColumnDefinition`.
    pub(crate) fn definition(&self) -> Value {
        let description = match self.about {
            Description::Text(text) => text.to_owned(),
            Description::Field(kind, field) => describe(kind, field),
        };
        definition(self.name, self.kind, self.format, &description, self.priority.into())
    }
}

/// Builds a `metav1.TableColumnDefinition`.
pub(crate) fn definition(name: &str, kind: &str, format: &str, description: &str, priority: i64) -> Value {
    json!({"name": name, "type": kind, "format": format, "description": description, "priority": priority})
}

/// Returns the description of a field, without enumerated values; `kind` is the name of the type without `io.k8s.`.
pub(crate) fn describe(kind: &str, field: &str) -> String {
    let text = descriptions::of_field(kind, field);
    // The printers of bindings use the description of an older API version, which lacks this sentence.
    let text = if field == "roleRef" { text.trim_end_matches(" This field is immutable.") } else { text };
    text.to_owned()
}

const META: &str = "apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// Description of the column `Name`.
pub(crate) const NAME_DESCRIPTION: Description = Description::Field(META, "name");

/// `Name`, the first column of nearly every table.
pub(crate) const NAME: Column =
    Column::string("Name", NAME_DESCRIPTION, CellSource::Text("/metadata/name", "")).named();

/// `Age`: the time since creation.
pub(crate) const AGE: Column = Column::string(
    "Age",
    Description::Field(META, "creationTimestamp"),
    CellSource::Since("/metadata/creationTimestamp"),
);

/// The columns of kinds that show only their name and age.
pub(crate) const NAME_AND_AGE: &[Column] = &[NAME, AGE];

/// `Created At`: the creation timestamp, in the table of kinds without their own printer.
pub(crate) const CREATED_AT: Column = Column::new(
    "Created At",
    "date",
    Description::Field(META, "creationTimestamp"),
    CellSource::Text("/metadata/creationTimestamp", "0001-01-01T00:00:00Z"),
);

/// `Containers`, with `-o wide`.
pub(crate) const fn containers(pointer: &'static str) -> Column {
    Column::string(
        "Containers",
        Description::Text("Names of each container in the template."),
        CellSource::ContainerNames(pointer),
    )
    .wide()
}

/// `Images`, with `-o wide`.
pub(crate) const fn images(pointer: &'static str) -> Column {
    Column::string(
        "Images",
        Description::Text("Images referenced by each container in the template."),
        CellSource::ContainerImages(pointer),
    )
    .wide()
}
