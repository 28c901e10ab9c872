//! HTTP: paths to operations, refusals to answers.

use std::io;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post};
use serde::de::DeserializeOwned;

use super::api::ErrorReply;
use super::metrics;
use super::operations::{Control, Target};
use super::refuse::Refused;
use super::setting::Key;
use super::socket::ControlSocket;

const PATHS: &str = "\
weir control API, over this Unix socket

  GET  /v1/status   how every device and cgroup is, as JSON
  POST /v1/set      {\"cgroup\":\"/vm1\",\"key\":\"io.max\",\"value\":\"disk0 riops=100\"}
  POST /v1/remove   {\"cgroup\":\"/vm1\"}
  POST /v1/move     {\"cgroup\":\"/vm1\",\"parent\":\"/vms\"}
  GET  /metrics     the same counters for Prometheus
";

/// What there is, for a person who has found the socket.
fn help() -> String {
    let [of_devices, of_cgroups] = [true, false].map(|of_device| {
        let keys = Key::ALL.into_iter().filter(|key| key.is_of_device() == of_device);
        keys.map(Key::name).collect::<Vec<_>>().join(", ")
    });
    format!(
        "{PATHS}
Keys of cgroups: {of_cgroups}
Keys of devices, set on the cgroup /: {of_devices}
With several devices a limit begins with the device's name, or with *; or name it with \"device\".
"
    )
}

type Shared<T> = State<Arc<Control<T>>>;

/// Serves the control API until the socket fails; drop the future to end it, which removes the socket's file.
///
/// Needs a tokio runtime with I/O and time. The server's uptime counts from here.
///
/// # Errors
///
/// When the runtime cannot take the socket.
pub async fn serve<T: Target>(socket: ControlSocket, devices: Vec<T>) -> io::Result<()> {
    let listener = socket.listener()?;
    listener.set_nonblocking(true)?;
    let listener = tokio::net::UnixListener::from_std(listener)?;
    axum::serve(listener, router(Control::new(devices))).await
}

fn router<T: Target>(control: Control<T>) -> Router {
    Router::new()
        .route("/", get(|| async { help() }))
        .route("/v1/status", get(status::<T>))
        .route("/v1/set", post(set::<T>))
        .route("/v1/remove", post(remove::<T>))
        .route("/v1/move", post(relocate::<T>))
        .route("/metrics", get(prometheus::<T>))
        .fallback(|| async {
            Refused::missing("", "no such path").hint("GET / lists them".to_owned())
        })
        .method_not_allowed_fallback(|| async {
            Refused::method("not with this method").hint("GET / lists them".to_owned())
        })
        .with_state(Arc::new(control))
}

async fn status<T: Target>(control: Shared<T>) -> Response {
    answer(control.status().await)
}

async fn set<T: Target>(control: Shared<T>, body: Bytes) -> Response {
    answer(match read(&body) {
        Ok(request) => control.set(&request).await,
        Err(refused) => Err(refused),
    })
}

async fn remove<T: Target>(control: Shared<T>, body: Bytes) -> Response {
    answer(match read(&body) {
        Ok(request) => control.remove(&request).await,
        Err(refused) => Err(refused),
    })
}

async fn relocate<T: Target>(control: Shared<T>, body: Bytes) -> Response {
    answer(match read(&body) {
        Ok(request) => control.relocate(&request).await,
        Err(refused) => Err(refused),
    })
}

async fn prometheus<T: Target>(control: Shared<T>) -> Response {
    match control.status().await {
        Ok(status) => ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], metrics::encode(&status))
            .into_response(),
        Err(refused) => refused.into_response(),
    }
}

fn read<R: DeserializeOwned>(body: &[u8]) -> Result<R, Refused> {
    serde_json::from_slice(body).map_err(|error| {
        let hint = "GET / shows what the body looks like".to_owned();
        Refused::bad("", format!("the body is not such a request: {error}")).hint(hint)
    })
}

fn answer<R: serde::Serialize>(result: Result<R, Refused>) -> Response {
    match result {
        Ok(reply) => Json(reply).into_response(),
        Err(refused) => refused.into_response(),
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, Json(ErrorReply { error: self.refusal })).into_response()
    }
}
