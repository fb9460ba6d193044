//! Tables of objects as `kubectl get` prints them (`meta.k8s.io/v1` Table).

mod age;
mod builtin;
mod json_path;

#[cfg(test)]
mod tests;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

pub use crate::table::age::age;
pub use crate::table::builtin::builtin_columns;
pub use crate::table::json_path::{JsonPath, JsonPathProblem};

/// A column: its heading and where its cells come from.
#[derive(Clone, Debug)]
pub struct Column {
    /// The heading.
    pub name: String,
    /// The type of its cells: `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: String,
    /// A hint for clients, `name` for the column with the object's name.
    pub format: String,
    /// What the column shows.
    pub description: String,
    /// 0 is always shown, more only with `-o wide`.
    pub priority: i64,
    source: Source,
}

/// How much of each object a row carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowObject {
    /// Nothing.
    Nothing,
    /// Type and metadata.
    Metadata,
    /// All of it.
    Whole,
}

/// What surrounds the rows.
#[derive(Clone, Debug)]
pub struct TableOptions {
    /// The time now, from which ages count.
    pub now: Timestamp,
    /// What rows carry.
    pub row_object: RowObject,
    /// The metadata of the list (`resourceVersion`, `continue`, …).
    pub metadata: Value,
}

#[derive(Clone, Debug)]
enum Source {
    Path(JsonPath),
    Cell(fn(&Value, Timestamp) -> Value),
}

impl Column {
    /// A column of `additionalPrinterColumns`.
    ///
    /// # Errors
    /// A path that cannot be read.
    pub fn declared(column: &Value) -> Result<Self, JsonPathProblem> {
        let text = |name: &str| column.get(name).and_then(Value::as_str).unwrap_or_default();
        let described = match text("description") {
            "" => format!(
                "Custom resource definition column (in JSONPath format): {}",
                text("jsonPath")
            ),
            given => given.to_owned(),
        };
        Ok(Self {
            name: text("name").to_owned(),
            kind: text("type").to_owned(),
            format: text("format").to_owned(),
            description: described,
            priority: column
                .get("priority")
                .and_then(Value::as_i64)
                .unwrap_or_default(),
            source: Source::Path(JsonPath::parse(text("jsonPath"))?),
        })
    }

    fn cell(name: &str, kind: &str, cell: fn(&Value, Timestamp) -> Value) -> Self {
        Self {
            name: name.to_owned(),
            kind: kind.to_owned(),
            format: if name == "Name" { "name" } else { "" }.to_owned(),
            description: String::new(),
            priority: 0,
            source: Source::Cell(cell),
        }
    }

    fn wide(mut self) -> Self {
        self.priority = 1;
        self
    }

    fn value(&self, item: &Value, now: Timestamp) -> Value {
        match &self.source {
            Source::Cell(cell) => cell(item, now),
            Source::Path(path) => path
                .first(item)
                .map_or(Value::Null, |found| typed(&self.kind, found, now)),
        }
    }

    fn definition(&self) -> Value {
        json!({
            "name": self.name, "type": self.kind, "format": self.format,
            "description": self.description, "priority": self.priority,
        })
    }
}

/// The columns of a custom resource: its name, then what its definition declares, else its age.
///
/// # Errors
/// A declared path that cannot be read.
pub fn custom_columns(version: &Value) -> Result<Vec<Column>, JsonPathProblem> {
    let mut columns = vec![name_column()];
    match version
        .get("additionalPrinterColumns")
        .and_then(Value::as_array)
    {
        Some(declared) if !declared.is_empty() => {
            for column in declared {
                columns.push(Column::declared(column)?);
            }
        }
        _ => columns.push(age_column()),
    }
    Ok(columns)
}

/// The table of some objects.
#[must_use]
pub fn table(columns: &[Column], items: &[&Value], options: &TableOptions) -> Value {
    let definitions: Vec<Value> = columns.iter().map(Column::definition).collect();
    let rows: Vec<Value> = items
        .iter()
        .map(|item| {
            let cells: Vec<Value> = columns
                .iter()
                .map(|column| column.value(item, options.now))
                .collect();
            let mut row = Map::new();
            row.insert("cells".to_owned(), Value::Array(cells));
            match options.row_object {
                RowObject::Nothing => {}
                RowObject::Metadata => {
                    row.insert("object".to_owned(), metadata_only(item));
                }
                RowObject::Whole => {
                    row.insert("object".to_owned(), (*item).clone());
                }
            }
            Value::Object(row)
        })
        .collect();
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": options.metadata,
        "columnDefinitions": definitions, "rows": rows,
    })
}

fn name_column() -> Column {
    let mut column = Column::cell("Name", "string", |item, _| item["metadata"]["name"].clone());
    "The object's name, unique among its kind in its namespace".clone_into(&mut column.description);
    column
}

fn age_column() -> Column {
    let mut column = Column::cell("Age", "date", |item, now| {
        typed("date", &item["metadata"]["creationTimestamp"], now)
    });
    "How long ago the object was created".clone_into(&mut column.description);
    column
}

/// Of built-in kinds the age is a plain string, unlike that of custom resources.
fn plain_age_column() -> Column {
    let mut column = age_column();
    "string".clone_into(&mut column.kind);
    column
}

fn metadata_only(item: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
        "metadata": item["metadata"],
    })
}

/// A value as a cell of this type; what does not fit is left out.
fn typed(kind: &str, value: &Value, now: Timestamp) -> Value {
    match (kind, value) {
        ("integer", Value::Number(number)) if !number.is_i64() => {
            let whole = number.as_f64().map(f64::trunc);
            whole.map_or(Value::Null, |whole| json!(whole))
        }
        ("number" | "integer", Value::Number(_))
        | ("boolean", Value::Bool(_))
        | ("string", Value::Null | Value::String(_)) => value.clone(),
        ("string", other) => Value::String(other.to_string()),
        ("date", Value::String(text)) => Value::String(
            text.parse::<Timestamp>()
                .map_or_else(|_| "<invalid>".to_owned(), |then| age(now, then)),
        ),
        _ => Value::Null,
    }
}
