//! OpenAPI descriptions of the HTTP wire: 3.1 as it is written, and 3.0.3 derived from it.
//!
//! Many generators read only 3.0. It differs from 3.1 where the description uses JSON Schema proper: a type `null` becomes
//! `nullable`, and conditions (`if`) are left out, so that 3.0.3 accepts some bodies that the server refuses.

use std::sync::LazyLock;

use serde_json::Value;

/// The description in OpenAPI 3.1.
pub(super) const OPENAPI: &str = include_str!("openapi.json");

/// The description in OpenAPI 3.0.3.
pub(super) static OPENAPI_3_0: LazyLock<String> = LazyLock::new(|| {
    let mut document: Value = serde_json::from_str(OPENAPI).unwrap_or_default();
    document["openapi"] = "3.0.3".into();
    // Fields of 3.1.
    for (parent, field) in [("/info", "summary"), ("/info/license", "identifier")] {
        if let Some(Value::Object(fields)) = document.pointer_mut(parent) {
            fields.remove(field);
        }
    }
    for part in ["/paths", "/components"] {
        if let Some(part) = document.pointer_mut(part) {
            lower(part);
        }
    }
    format!("{document:#}\n")
});

/// Rewrites the schemas below a value.
fn lower(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            // A schema, not a map of properties that happen to have these names.
            if fields.get("if").is_some_and(Value::is_object) && fields.contains_key("then") {
                for condition in ["if", "then", "else"] {
                    fields.remove(condition);
                }
            }
            if let Some(Value::Array(types)) = fields.get("type")
                && let Some(single) = types.iter().find(|name| *name != "null").cloned()
            {
                fields.insert("type".to_owned(), single);
                fields.insert("nullable".to_owned(), Value::Bool(true));
            }
            fields.values_mut().for_each(lower);
        }
        Value::Array(items) => items.iter_mut().for_each(lower),
        _ => {}
    }
}
