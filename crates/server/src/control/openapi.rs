//! OpenAPI 3.1 description of the API, made from the table of routes and the types of its messages.

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::api::ErrorReply;
use super::page::EVENTS;
use super::route::{Content, JSON, Route};
use super::routes::routes;
use crate::device::DeviceHandle;

/// The description. O(routes).
pub fn document() -> Value {
    let settings = SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = "/components/schemas".into());
    let mut generator = settings.into_generator();
    let mut paths = Map::new();
    for route in routes::<DeviceHandle>() {
        let method = route.method.name().to_ascii_lowercase();
        let operation = operation(&route, &mut generator);
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[method] = operation;
    }
    let schemas = generator.take_definitions(true);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Weir control API",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "Apache-2.0 OR MIT", "identifier": "Apache-2.0 OR MIT" },
            "description": "State and settings of a running `weir serve`. \
                On the reading socket, and with a token that reads, every change is answered with 403.",
        },
        "servers": [{
            "url": "http://weir",
            "description": "The Unix socket: `curl --unix-socket control.sock http://weir/`",
        }],
        "paths": paths,
        // None on a Unix socket: its mode decides.
        "security": [{}, { "token": [] }],
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token of a [token.NAME], where the API is served over TCP.",
                },
            },
        },
    })
}

fn operation<T: 'static>(route: &Route<T>, generator: &mut SchemaGenerator) -> Value {
    let mut operation = json!({
        "operationId": route.operation,
        "summary": route.summary,
        "responses": responses(route, generator),
    });
    if route.is_change() {
        operation["parameters"] = json!([{
            "name": "If-Match",
            "in": "header",
            "required": false,
            "description": "`ETag` of an earlier answer: the change is refused with 412 if anything \
                has been set since.",
            "schema": { "type": "string", "pattern": "^(\\*|\"[^\",]*\")$" },
        }]);
    }
    if let Some(body) = &route.body {
        let example: Value = serde_json::from_str(body.example).expect("an example is JSON");
        operation["requestBody"] = json!({
            "required": true,
            "content": { JSON: { "schema": (body.schema)(generator), "example": example } },
        });
    }
    operation
}

fn responses<T: 'static>(route: &Route<T>, generator: &mut SchemaGenerator) -> Value {
    let content = match route.answer {
        Content::Json(schema) => json!({ JSON: { "schema": schema(generator) } }),
        Content::AnyJson => json!({ JSON: { "schema": { "type": "object" } } }),
        Content::Events(schema) => {
            let data = schema(generator);
            let of = "Events `sample` (kept, with an `id` for Last-Event-ID) and `live`, whose data is JSON as `x-event-data` \
                says, and `end`, after which the server ends";
            json!({ EVENTS: { "schema": { "type": "string", "description": of, "x-event-data": data } } })
        }
        Content::Text(types) => types
            .iter()
            .map(|name| ((*name).to_owned(), json!({ "schema": { "type": "string" } })))
            .collect::<Map<String, Value>>()
            .into(),
    };
    let mut ok = json!({ "description": "Done", "content": content });
    if route.tells_generation {
        ok["headers"] = json!({
            "ETag": {
                "description": "Generation of what is set, for `If-Match`",
                "schema": { "type": "string" },
            },
        });
    }
    let mut responses = Map::from_iter([("200".to_owned(), ok)]);
    let refusal = generator.subschema_for::<ErrorReply>();
    for status in route.statuses() {
        let mut response = json!({
            "description": meaning(status),
            "content": { JSON: { "schema": refusal } },
        });
        if status == 429 {
            response["headers"] = json!({
                "Retry-After": { "description": "In seconds", "schema": { "type": "string" } },
            });
        }
        responses.insert(status.to_string(), response);
    }
    responses.into()
}

/// Meaning of a status, the same for every route.
fn meaning(status: u16) -> &'static str {
    match status {
        400 => "The request makes no sense",
        401 => "Over TCP: no token, or none that is known",
        403 => {
            "The caller may not change anything: a reading socket or token, or a page of another origin"
        }
        404 => "What the request names is not there",
        409 => "Something is in the way",
        412 => "Something has been set since the generation of `If-Match`",
        413 => "The body is too long",
        415 => "The body is not said to be application/json",
        421 => "The header `Host` names another server",
        429 => "Too many changes of this caller: try again later",
        503 => "A device does not answer, or is not served any more; or as many listen as may",
        _ => unreachable!("no route refuses with {status}"),
    }
}
