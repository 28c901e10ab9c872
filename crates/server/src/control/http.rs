//! HTTP: paths to operations, refusals to answers.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post};
use serde::de::DeserializeOwned;

use super::api::ErrorReply;
use super::bounded::BoundedListener;
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

/// Overview of the API, for a person at the socket.
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

/// Longest body that is looked at, in bytes: a path of 64 names of 255 bytes, and a value.
const BODY_MAX: usize = 64 << 10;
/// Longest body that is read to its end to be refused.
const DRAIN_MAX: usize = 64 << 20;

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
    let listener = BoundedListener::new(tokio::net::UnixListener::from_std(listener)?);
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

async fn set<T: Target>(control: Shared<T>, body: Body) -> Response {
    answer(match read(body).await {
        Ok(request) => control.set(&request).await,
        Err(refused) => Err(refused),
    })
}

async fn remove<T: Target>(control: Shared<T>, body: Body) -> Response {
    answer(match read(body).await {
        Ok(request) => control.remove(&request).await,
        Err(refused) => Err(refused),
    })
}

async fn relocate<T: Target>(control: Shared<T>, body: Body) -> Response {
    answer(match read(body).await {
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

async fn read<R: DeserializeOwned>(body: Body) -> Result<R, Refused> {
    serde_json::from_slice(&whole(body).await?).map_err(|error| {
        let hint = "GET / shows what the body looks like".to_owned();
        Refused::bad("", format!("the body is not such a request: {error}")).hint(hint)
    })
}

/// All of a body, in memory up to [`BODY_MAX`]. More is read and thrown away before it is refused, up to [`DRAIN_MAX`]: a
/// client that is cut off while it sends does not get to the answer.
async fn whole(mut body: Body) -> Result<Vec<u8>, Refused> {
    let (mut bytes, mut len) = (Vec::new(), 0);
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let frame =
            frame.map_err(|error| Refused::bad("", format!("the body did not arrive: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        len += data.len();
        if len <= BODY_MAX {
            bytes.extend_from_slice(&data);
        } else if len > DRAIN_MAX {
            break;
        }
    }
    match len {
        0..=BODY_MAX => Ok(bytes),
        _ => Err(Refused::too_large(format!("the body has more than {BODY_MAX} bytes"))
            .hint("GET / shows what the body looks like".to_owned())),
    }
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
