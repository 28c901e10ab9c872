//! Table of routes: the router, the help text and the OpenAPI description are made from it.

use schemars::SchemaGenerator;

use super::host::Target;
use super::live::LiveSample;
use super::metrics;
use super::openapi;
use super::page;
use super::route::{Answer, Content, JSON, Method, Route};
use super::setting::Key;

/// Every route of the API.
pub(super) fn routes<T: Target>() -> Vec<Route<T>> {
    vec![
        Route::get(
            "/v1/status",
            "status",
            "State of every device and cgroup",
            |control, _| async move { control.status().await },
        )
        .refuses(&[503]),
        Route::change(
            Method::Post,
            "/v1/set",
            "set",
            "Change a setting of a cgroup or device",
            r#"{"cgroup":"/vm1","key":"io.max","value":"disk0 riops=100"}"#,
            |control, call, request| async move { control.set(&call, &request).await },
        )
        .refuses(&[404, 409, 503]),
        Route::change(
            Method::Post,
            "/v1/remove",
            "remove",
            "Remove a cgroup",
            r#"{"cgroup":"/vm1"}"#,
            |control, call, request| async move { control.remove(&call, &request).await },
        )
        .refuses(&[404, 409, 503]),
        Route::change(
            Method::Post,
            "/v1/move",
            "move",
            "Move a cgroup below another one",
            r#"{"cgroup":"/vm1","parent":"/vms"}"#,
            |control, call, request| async move { control.relocate(&call, &request).await },
        )
        .refuses(&[404, 409, 503]),
        Route::get("/v1/devices", "devices", "The devices", |control, _| async move {
            control.list_devices().await
        })
        .refuses(&[503]),
        Route::get(
            "/v1/exports",
            "exports",
            "The exports, and how to reach them",
            |control, _| async move { control.list_exports().await },
        )
        .refuses(&[503]),
        Route::change(
            Method::Post,
            "/v1/change",
            "change",
            "Add and remove devices, exports and cgroups, all or none",
            r#"{"edits":[{"remove_export":"vm1"},{"remove_device":"disk1"}]}"#,
            |control, call, request| async move { control.change(&call, &request).await },
        )
        .refuses(&[404, 409, 503]),
        Route::change(
            Method::Post,
            "/v1/reload",
            "reload",
            "Read the configuration again and be what it says, all or nothing",
            "{}",
            |control, call, request| async move { control.reload(&call, &request).await },
        )
        .refuses(&[409, 503]),
        Route::change(
            Method::Post,
            "/v1/resize",
            "resize",
            "See that a device has grown",
            r#"{"device":"disk0"}"#,
            |control, call, request| async move { control.resize(&call, &request).await },
        )
        .refuses(&[404, 409, 503]),
        Route::get("/v1/record", "recording", "How the recording is", |control, _| async move {
            control.recording().await
        }),
        Route::change(
            Method::Post,
            "/v1/record",
            "record",
            "Begin the recording, or end it",
            r#"{"on":true}"#,
            |control, call, request| async move { control.record(&call, &request).await },
        )
        .refuses(&[409, 503]),
        Route::get(
            "/v1/differences",
            "differences",
            "What a reload would change",
            |control, _| async move { control.differences().await },
        )
        .refuses(&[409, 503]),
        Route::get(
            "/healthz",
            "healthz",
            "Whether every device answers",
            |control, _| async move { control.health().await },
        )
        .refuses(&[503]),
        Route::get(
            "/readyz",
            "readyz",
            "Whether clients are served: every device answers, and the server is not ending",
            |control, _| async move { control.readiness().await },
        )
        .refuses(&[503]),
        Route::get_raw(
            "/metrics",
            "metrics",
            "Counters and latencies for Prometheus",
            Content::Text(&metrics::CONTENT_TYPES),
            |control, call| async move {
                let metrics = control.metrics().await;
                let (content_type, text) = metrics::encode(&metrics, call.accept.as_deref());
                Ok(Answer::new(content_type, text))
            },
        ),
        Route::get_raw(
            "/v1/live",
            "live",
            "Samples of the last hour, and then one a second, as server-sent events",
            Content::Events(SchemaGenerator::subschema_for::<LiveSample>),
            |control, call| async move {
                let listener = control.live.listen(call.last_event_id.as_deref())?;
                Ok(page::events(listener))
            },
        )
        .refuses(&[503]),
        Route::get_raw(
            "/page",
            "page",
            "The live page, for a browser",
            Content::Text(&[page::HTML]),
            |_, _| async { Ok(page::page()) },
        ),
        Route::get_raw(
            "/v1/openapi.json",
            "openapi",
            "Description of this API as OpenAPI 3.1",
            Content::AnyJson,
            |_, _| async { Ok(Answer::new(JSON, openapi::document().to_string())) },
        ),
        Route::get_raw("/", "help", "This text", Content::Text(&[TEXT]), |_, _| async {
            Ok(Answer::new(TEXT, help::<T>()))
        }),
    ]
}

const TEXT: &str = "text/plain; charset=utf-8";

/// Overview of the API, for a person at the socket.
fn help<T: Target>() -> String {
    let mut text = String::from("weir control API\n\n");
    for route in routes::<T>() {
        let line = format!("  {:<5} {:<17} {}", route.method.name(), route.path, route.summary);
        text.push_str(line.trim_end());
        if let Some(body) = route.body {
            text.push_str(&format!("\n  {:<23} {}", "", body.example));
        }
        text.push('\n');
    }
    let [of_devices, of_cgroups] = [true, false].map(|of_device| {
        let keys = Key::ALL.into_iter().filter(|key| key.is_of_device() == of_device);
        keys.map(Key::name).collect::<Vec<_>>().join(", ")
    });
    format!(
        "{text}
A change needs the header Content-Type: application/json. With If-Match and the
ETag of an answer it is refused if anything has been set since.
Keys of cgroups: {of_cgroups}
Keys of devices, set on the cgroup /: {of_devices}
With several devices a limit begins with the device's name, or with *; or name it with \"device\".
A cgroup that is not there is created with \"create\": true.
"
    )
}
