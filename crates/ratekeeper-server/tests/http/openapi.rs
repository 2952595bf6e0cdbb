//! OpenAPI document: it describes the paths, requests and responses of the server.

use jsonschema::Validator;
use ratekeeper_core::Source;
use serde_json::{Value, json};

use crate::{client::Reply, fixture::Fixture};

fn document(fixture: &Fixture) -> Value {
    let reply = fixture.get("/v1/openapi.json", &[]);
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/json")));
    reply.json()
}

/// A validator for one schema of the document, which may refer to others.
fn validator(document: &Value, name: &str) -> Validator {
    let schema = json!({ "$ref": format!("#/components/schemas/{name}"), "components": document["components"] });
    jsonschema::draft202012::new(&schema).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Asserts that the document describes this response.
#[track_caller]
fn is_as_described(document: &Value, path: &str, method: &str, reply: &Reply) {
    let responses = &document["paths"][path][method]["responses"];
    let described = &responses[reply.status.to_string()];
    assert!(described.is_object(), "{method} {path} answers {}, which is not described", reply.status);
    let Some(kind) = reply.header("content-type") else {
        assert!(described["content"].is_null() && reply.body.is_empty(), "{reply:?}");
        return;
    };
    let schema = described["content"][kind]["schema"]["$ref"].as_str().unwrap_or_else(|| panic!("{path}: no {kind}"));
    let name = schema.rsplit('/').next().unwrap();
    if let Err(error) = validator(document, name).validate(&reply.json()) {
        panic!("{method} {path}: {error}\n{}", reply.body);
    }
}

#[test]
fn every_answer_is_as_the_document_describes() {
    let fixture = Fixture::new();
    let document = document(&fixture);
    let mut answered = 0;
    // The examples of commit and cancel refer to these.
    for id in ["completion-91", "completion-92"] {
        let body = json!({"domain":"api","key":"user:42","request_id":id});
        assert_eq!(fixture.post("/v1/reserve", &body.to_string()).status, 200);
    }
    for (path, methods) in document["paths"].as_object().unwrap() {
        let Some(post) = methods.get("post") else { continue };
        let example = post["requestBody"]["content"]["application/json"]["example"].clone();
        let bodies = [
            example.to_string(),
            example.to_string().replace("\"domain\":\"api\"", "\"domain\":\"elsewhere\""),
            r#"{"domain":"api","descriptor":{"user":"42"},"cost":11}"#.to_owned(),
            r#"{"domain":"api","descriptor":{"job":"42"}}"#.to_owned(),
            r#"{"domain":"api","key":"user:42","cost":3}"#.to_owned(),
            r#"{"domain":"api","key":""}"#.to_owned(),
            "nonsense".to_owned(),
            "x".repeat(70_000),
        ];
        for body in bodies {
            let reply = fixture.post(path, &body);
            is_as_described(&document, path, "post", &reply);
            answered += 1;
        }
        // The example is accepted.
        assert_eq!(fixture.post(path, &example.to_string()).status, 200, "{path}");
    }
    for query in [
        "",
        "?cost=0",
        "?cost=9",
        "?cost=9&deny_status=403",
        "?cost=9&deny_status=401",
        "?cost=9&deny_status=503",
        "?cost=x",
    ] {
        let reply = fixture.get(&format!("/v1/auth{query}"), &[]);
        is_as_described(&document, "/v1/auth", "get", &reply);
        answered += 1;
    }
    assert!(answered > 60, "{answered}");
}

#[test]
fn bodies_are_taken_exactly_if_the_document_allows_them() {
    let fixture = Fixture::new();
    let document = document(&fixture);
    let check = validator(&document, "Check");
    for body in [
        json!({"domain":"api","key":"u"}),
        json!({"domain":"api","key":"u","cost":0,"max_wait_ms":1.5}),
        json!({"domain":"api","descriptor":{"user":"u"}}),
        json!({"domain":"api"}),
        json!({"key":"u"}),
        json!({"domain":"api","key":"u","descriptor":{"user":"u"}}),
        json!({"domain":"api","key":""}),
        json!({"domain":"","key":"u"}),
        json!({"domain":"d".repeat(128),"key":"u"}),
        json!({"domain":"d".repeat(129),"key":"u"}),
        json!({"domain":"api","descriptor":{}}),
        json!({"domain":"api","descriptor":{"user":1}}),
        json!({"domain":"api","key":"u","cost":-1}),
        json!({"domain":"api","key":"u","cost":1099511627777_u64}),
        json!({"domain":"api","key":"u","max_wait_ms":-1}),
        json!({"domain":"api","key":"u","request_id":"a","lifetime_ms":1.5,"at_least":0}),
        json!({"domain":"api","key":"u","request_id":""}),
        json!({"domain":"api","key":"u","request_id":"x".repeat(257)}),
        json!({"domain":"api","key":"u","request_id":"a","lifetime_ms":86_400_001}),
        json!({"domain":"api","key":"u","at_least":-1}),
        json!({"domain":"api","key":"u","lease":1}),
        json!({"domain":"api","key":"u","other":1}),
        json!([]),
        json!({"domain":"api","descriptors":[{"user":"u"},{"key":"k"}],"cost_each":[1,1]}),
        json!({"domain":"api","keys":[{"policy":"two-rules","key":"u","cost":1}]}),
        json!({"domain":"api","keys":[]}),
        json!({"domain":"api","keys":[{"key":"u"}]}),
        json!({"domain":"api","keys":["u"]}),
        json!({"domain":"api","key":"u","keys":[{"policy":"per-key"}]}),
        json!({"domain":"api","descriptors":[{}]}),
        json!(["api", "u", null, 1, null, null, null, null, null]),
    ] {
        let taken = fixture.post("/v1/check", &body.to_string()).status == 200;
        assert_eq!(taken, check.is_valid(&body), "{body}");
    }
}

#[test]
fn every_path_that_is_described_is_served() {
    let fixture = Fixture::new();
    let document = document(&fixture);
    assert_eq!(document["openapi"], "3.1.0");
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            let reply = crate::client::ask(fixture.http, &method.to_uppercase(), path, &[], b"");
            assert!(![404, 405].contains(&reply.status), "{method} {path}: {}", reply.status);
        }
    }
}

/// Generated clients choose their types by `format`: without one, an integer becomes 32 bits in Go and Java, and a day
/// in microseconds does not fit. `const` is left out because generators turn it into invalid code.
#[test]
fn every_schema_has_types_that_generated_clients_can_hold() {
    let fixture = Fixture::new();
    let document = document(&fixture);
    let mut seen = 0;
    let mut rest = vec![("#".to_owned(), &document)];
    while let Some((place, value)) = rest.pop() {
        match value {
            Value::Array(items) => {
                rest.extend(items.iter().enumerate().map(|(index, item)| (format!("{place}/{index}"), item)));
            }
            Value::Object(fields) => {
                let is_type = |word: &str| match fields.get("type") {
                    Some(Value::String(one)) => one == word,
                    Some(Value::Array(several)) => several.iter().any(|one| one == word),
                    _ => false,
                };
                for (kind, format) in [("integer", "int64"), ("number", "double")] {
                    if is_type(kind) {
                        assert_eq!(fields.get("format"), Some(&json!(format)), "{place}");
                        seen += 1;
                    }
                }
                assert!(!fields.contains_key("const"), "{place}");
                assert!(!fields.contains_key("enum") || fields.contains_key("type"), "{place}");
                rest.extend(fields.iter().map(|(name, field)| (format!("{place}/{name}"), field)));
            }
            _ => {}
        }
    }
    assert!(seen > 30, "{seen}");
}

/// 3.0.3 has the same paths and properties, and nothing that only 3.1 has.
#[test]
fn the_description_in_openapi_3_0_is_the_same_without_what_it_lacks() {
    let fixture = Fixture::new();
    let newer = document(&fixture);
    let older = fixture.get("/v1/openapi-3.0.json", &[]).json();
    assert_eq!(older["openapi"], "3.0.3");
    assert!(older["info"]["summary"].is_null() && older["info"]["license"]["identifier"].is_null());
    let (mut nullable, mut conditions) = (0, 0);
    let mut rest = vec![("#".to_owned(), &newer["paths"], &older["paths"])];
    rest.push(("#/components".to_owned(), &newer["components"], &older["components"]));
    while let Some((place, newer, older)) = rest.pop() {
        match (newer, older) {
            (Value::Array(newer), Value::Array(older)) => {
                assert_eq!(newer.len(), older.len(), "{place}");
                rest.extend(newer.iter().zip(older).map(|(newer, older)| (place.clone(), newer, older)));
            }
            (Value::Object(fields), Value::Object(_)) => {
                for (name, newer) in fields {
                    match (name.as_str(), newer) {
                        ("type", Value::Array(types)) => {
                            assert!(types.len() == 2 && types.contains(&json!("null")), "{place}");
                            assert!(types.contains(&older["type"]), "{place}");
                            assert_eq!(older["nullable"], true, "{place}");
                            nullable += 1;
                        }
                        ("if" | "then" | "else", Value::Object(_)) => {
                            assert!(older[name].is_null(), "{place}");
                            conditions += 1;
                        }
                        _ => rest.push((format!("{place}/{name}"), newer, &older[name])),
                    }
                }
            }
            (newer, older) => assert_eq!(newer, older, "{place}"),
        }
    }
    assert!(nullable > 5 && conditions > 2, "{nullable}, {conditions}");
}

/// The document lists every source that a decision can have.
#[test]
fn every_source_is_listed() {
    let document = document(&Fixture::new());
    let listed = document["components"]["schemas"]["Decision"]["properties"]["source"]["enum"].as_array().unwrap();
    let sources = [
        Source::Store,
        Source::InTurn,
        Source::Overflow,
        Source::Allotment,
        Source::CachedDenial,
        Source::Repeated,
        Source::Local,
        Source::Open,
        Source::Closed,
    ];
    for source in sources {
        assert!(listed.contains(&json!(source.name())), "{}", source.name());
    }
    assert_eq!(listed.len(), sources.len() + 6, "six reasons why no rule decides");
}
