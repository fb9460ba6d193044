//! Schemas of what a definition does not describe: metadata, and the built-in kinds as a whole.

use serde_json::{Map, Value, json};

/// Fields of every object, a line each: `path type description`. The type of a required field ends in `!`.
///
/// Types are those of JSON; `[]` before one makes a list of it, `{}` a map.
const METADATA: &str = "
    name string Name of the object, unique among its kind in its namespace.
    generateName string Start of a name that the server completes.
    namespace string The namespace, empty if the kind has none.
    uid string Identity of the object, different for an object of the same name made later.
    resourceVersion string Changes with every write; send it to have stale writes refused.
    generation integer Changes with every change of what is wanted.
    creationTimestamp string When the object was created.
    deletionTimestamp string When the object was asked to go; it goes once it has no finalizers.
    deletionGracePeriodSeconds integer How long its end may take.
    labels {}string Words by which objects are found and selected.
    annotations {}string Notes of tools and people.
    finalizers []string What must be done before the object is gone.
    ownerReferences []object Objects that this one belongs to; it goes when all of them are gone.
    ownerReferences.apiVersion string! Group and version of the owner.
    ownerReferences.kind string! Kind of the owner.
    ownerReferences.name string! Name of the owner.
    ownerReferences.uid string! Identity of the owner.
    ownerReferences.controller boolean If true, this owner controls the object.
    ownerReferences.blockOwnerDeletion boolean If true, the owner waits for this object.
    managedFields []object Who wrote which fields.
    selfLink string No longer set.";

const LIST_METADATA: &str = "
    resourceVersion string The state of the server that the list shows.
    continue string Where to ask on, if there is more.
    remainingItemCount integer How many objects are left.
    selfLink string No longer set.";

/// The schema of a built-in kind, without what every object has. It says nothing of its fields: Bindery's
/// own kinds are explained by their definitions, and `kubectl` knows the built-in ones by itself.
pub(super) fn kind(kind: &str) -> Value {
    json!({
        "description": format!("{kind} is kept and served as Kubernetes defines it."),
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
    })
}

/// The schema of every object's metadata.
pub(super) fn object_meta() -> Value {
    described("What every object has.", METADATA)
}

/// The schema of a list's metadata.
pub(super) fn list_meta() -> Value {
    described("What every list has.", LIST_METADATA)
}

fn described(description: &str, fields: &str) -> Value {
    let mut schema = json!({"description": description, "type": "object", "properties": {}});
    for line in fields
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
    {
        let mut parts = line.splitn(3, ' ');
        if let (Some(path), Some(kind), Some(description)) =
            (parts.next(), parts.next(), parts.next())
        {
            add_field(&mut schema, path, kind, description);
        }
    }
    schema
}

fn add_field(schema: &mut Value, path: &str, kind: &str, description: &str) {
    let (holder, name) = path.rsplit_once('.').unwrap_or(("", path));
    let mut here = schema;
    for step in holder.split('.').filter(|step| !step.is_empty()) {
        here = &mut inside(here)["properties"][step];
    }
    let here = inside(here);
    if kind.ends_with('!') {
        if let Value::Array(required) = &mut here["required"] {
            required.push(json!(name));
        } else {
            here["required"] = json!([name]);
        }
    }
    here["properties"][name] = typed(kind.trim_end_matches('!'), description);
}

/// The schema that holds the members: of a list, that of its items.
fn inside(schema: &mut Value) -> &mut Value {
    match schema["type"].as_str() {
        Some("array") => &mut schema["items"],
        _ => schema,
    }
}

fn typed(kind: &str, description: &str) -> Value {
    if let Some(item) = kind.strip_prefix("[]") {
        return json!({"type": "array", "description": description, "items": bare(item)});
    }
    if let Some(item) = kind.strip_prefix("{}") {
        let items = bare(item);
        return json!({"type": "object", "description": description, "additionalProperties": items});
    }
    let mut schema = bare(kind);
    schema["description"] = json!(description);
    schema
}

fn bare(kind: &str) -> Value {
    let mut schema = Map::new();
    schema.insert("type".to_owned(), json!(kind));
    if kind == "object" {
        schema.insert("properties".to_owned(), json!({}));
    }
    Value::Object(schema)
}
