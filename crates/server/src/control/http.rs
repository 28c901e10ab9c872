//! HTTP: requests to operations, after all that is checked of each; refusals to answers.

use std::future::{IntoFuture, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{MethodFilter, on};
use tokio::time::Instant;
use weir_config::Access;

use super::api::ErrorReply;
use super::bounded::{BoundedListener, Peer};
use super::caller::{Caller, Identity, log_refusal};
use super::change_rate::ChangeRate;
use super::generation::IfMatch;
use super::guard::Guard;
use super::host::Target;
use super::operations::Control;
use super::plain_listener::PlainListener;
use super::refuse::Refused;
use super::route::{Answer, Call, Method, Route};
use super::routes::routes;
use super::socket::{ControlSocket, Serves};
use super::tls_listener::{RemoteSocket, TlsListener};
use crate::log_limit::{LogLimit, LogLine, LogPermit};

/// Longest body that is looked at, in bytes: a path of 64 names of 255 bytes, and a value.
const BODY_MAX: usize = 64 << 10;
/// Longest body that is read to its end to be refused.
const DRAIN_MAX: usize = 64 << 20;

/// Paths of sockets that are for metrics.
const OF_METRICS: [&str; 2] = ["/metrics", "/healthz"];

/// State that all requests share.
struct Shared<T> {
    control: Arc<Control<T>>,
    guard: Guard,
    rate: ChangeRate,
    log: Mutex<LogLimit>,
    started: Instant,
}

/// Serves the control API on all of `sockets`, over TLS on `remote`, and its metrics on `metrics`, until one fails; drop the future to end it, which
/// removes the sockets' files.
///
/// Needs a tokio runtime with I/O and time.
///
/// # Errors
///
/// When the runtime cannot take a socket.
pub async fn serve<T: Target>(
    sockets: Vec<ControlSocket>,
    remote: Vec<RemoteSocket>,
    metrics: Vec<std::net::TcpListener>,
    control: Arc<Control<T>>,
    guard: Guard,
) -> io::Result<()> {
    let mut listeners = Vec::with_capacity(sockets.len());
    for socket in &sockets {
        let listener = socket.listener()?;
        listener.set_nonblocking(true)?;
        let listener = tokio::net::UnixListener::from_std(listener)?;
        listeners.push((BoundedListener::new(listener, socket.access()), socket.serves()));
    }
    let remote: Vec<TlsListener> =
        remote.into_iter().map(TlsListener::start).collect::<io::Result<_>>()?;
    let metrics: Vec<PlainListener> =
        metrics.into_iter().map(PlainListener::new).collect::<io::Result<_>>()?;
    let shared = Arc::new(Shared {
        control,
        guard,
        rate: ChangeRate::default(),
        log: Mutex::default(),
        started: Instant::now(),
    });
    let routers = [Serves::All, Serves::Metrics].map(|serves| router(&shared, serves));
    let service = |serves: Serves| {
        let router = routers[serves as usize].clone();
        router.into_make_service_with_connect_info::<Peer>()
    };
    let mut serving = tokio::task::JoinSet::new();
    for (listener, serves) in listeners {
        serving.spawn(axum::serve(listener, service(serves)).into_future());
    }
    for listener in remote {
        serving.spawn(axum::serve(listener, service(Serves::All)).into_future());
    }
    for listener in metrics {
        serving.spawn(axum::serve(listener, service(Serves::Metrics)).into_future());
    }
    match serving.join_next().await {
        Some(Ok(ended)) => ended,
        Some(Err(error)) => Err(io::Error::other(error)),
        None => std::future::pending().await,
    }
}

fn router<T: Target>(shared: &Arc<Shared<T>>, serves: Serves) -> Router {
    let mut router = Router::new();
    let is_served = |route: &Route<T>| serves == Serves::All || OF_METRICS.contains(&route.path);
    let hint = match serves {
        Serves::All => "GET / lists them".to_owned(),
        Serves::Metrics => format!("only GET {} are here", OF_METRICS.join(" and ")),
    };
    for route in routes::<T>().into_iter().filter(is_served) {
        let filter = match route.method {
            Method::Get => MethodFilter::GET,
            Method::Post => MethodFilter::POST,
        };
        let (path, route, shared) = (route.path, Arc::new(route), Arc::clone(shared));
        let handler = move |request: Request| {
            let (route, shared) = (Arc::clone(&route), Arc::clone(&shared));
            async move { answer(&route, &shared, request).await }
        };
        router = router.route(path, on(filter, handler));
    }
    let (of_path, of_method) = (hint.clone(), hint);
    router
        .fallback(|| async { Refused::missing("", "no such path").hint(of_path) })
        .method_not_allowed_fallback(|| async {
            Refused::method("not with this method").hint(of_method)
        })
        .layer(middleware::from_fn_with_state(Arc::clone(shared), admit::<T>))
}

/// Looks at what is checked of every request, before its path; then its [`Caller`] is known.
async fn admit<T: Target>(
    State(shared): State<Arc<Shared<T>>>,
    mut request: Request,
    next: Next,
) -> Response {
    let Some(ConnectInfo(peer)) = request.extensions().get::<ConnectInfo<Peer>>() else {
        return Refused::failed("a connection without a peer").into_response();
    };
    let caller = match peer {
        Peer::Known(caller) => caller.clone(),
        Peer::Remote(address) => {
            let tokens = shared.control.tokens();
            let Some((name, access)) = tokens.find(request.headers()) else {
                shared.log_without_token(*address);
                return Refused::unauthorized().into_response();
            };
            let identity = Identity::Token { name: name.to_owned(), address: *address };
            Caller { identity, access }
        }
    };
    if let Err(refused) = shared.guard.host(&request) {
        shared.log_refusal(&caller, "any", &refused);
        return refused.into_response();
    }
    request.extensions_mut().insert(caller);
    next.run(request).await
}

/// Answers a request of `route`.
async fn answer<T: Target>(route: &Route<T>, shared: &Shared<T>, request: Request) -> Response {
    let Some(caller) = request.extensions().get::<Caller>().cloned() else {
        return Refused::failed("a request without a caller").into_response();
    };
    let response = match act(route, shared, &caller, request).await {
        Ok(answer) => answer.into_response(),
        Err(refused) => {
            if route.is_change() {
                shared.log_refusal(&caller, route.operation, &refused);
            }
            refused.into_response()
        }
    };
    let status = response.status().as_u16();
    debug_assert!(
        status == 200 || route.statuses().contains(&status),
        "{}: {status} is not described",
        route.path
    );
    response
}

async fn act<T: Target>(
    route: &Route<T>,
    shared: &Shared<T>,
    caller: &Caller,
    request: Request,
) -> Result<Answer, Refused> {
    let mut call = Call::new(caller.clone());
    no_query(&request)?;
    let (parts, body) = request.into_parts();
    call.accept = header(&parts.headers, header::ACCEPT)?.map(str::to_owned);
    // An identifier that is none of ours is as none.
    let last = parts.headers.get("last-event-id").and_then(|value| value.to_str().ok());
    call.last_event_id = last.map(str::to_owned);
    if !route.is_change() {
        return (route.run)(Arc::clone(&shared.control), call, Vec::new()).await;
    }
    // Before anything is refused: a client that is cut off while it sends does not get to the answer.
    let body = whole(body).await;
    if caller.access == Access::Read {
        let (message, hint) = match &caller.identity {
            Identity::Token { name, .. } => (
                format!("the token {name:?} only reads"),
                "`access` under [token.NAME] says which tokens change something",
            ),
            _ => (
                "this socket only reads".to_owned(),
                "the other control socket takes changes: `control` under [server]",
            ),
        };
        return Err(Refused::forbidden(message).hint(hint.to_owned()));
    }
    shared.guard.origin(&parts.headers)?;
    let rate = shared.rate.take(&caller.rate_key(), Instant::now());
    rate.map_err(Refused::too_many)?;
    if route.body.is_some() {
        shared.guard.content_type(&parts.headers)?;
    }
    call.if_match = header(&parts.headers, header::IF_MATCH)?.map(IfMatch::parse).transpose()?;
    (route.run)(Arc::clone(&shared.control), call, body?).await
}

/// The header's only value, as text.
fn header(headers: &HeaderMap, name: HeaderName) -> Result<Option<&str>, Refused> {
    let Some(value) = headers.get(&name) else { return Ok(None) };
    let text = value.to_str().map_err(|_| {
        Refused::bad(name.as_str(), format!("the header {name} has other signs than ASCII"))
    })?;
    Ok(Some(text))
}

/// No route has parameters: one that is meant to change an answer is refused rather than overlooked.
fn no_query(request: &Request) -> Result<(), Refused> {
    match request.uri().query() {
        Some(query) if !query.is_empty() => Err(Refused::bad("", "there are no parameters here")
            .hint("leave the `?` and what follows out".to_owned())),
        _ => Ok(()),
    }
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

impl<T> Shared<T> {
    fn log_refusal(&self, caller: &Caller, operation: &'static str, refused: &Refused) {
        if let Some(permit) = self.permit(LogLine::ChangeRefused) {
            let reason = &refused.refusal.message;
            log_refusal(&caller.identity, operation, refused.status, reason, &permit);
        }
    }

    fn log_without_token(&self, address: SocketAddr) {
        if let Some(LogPermit { left_out }) = self.permit(LogLine::NoToken) {
            tracing::warn!(%address, left_out, "control request without a token that is known");
        }
    }

    fn permit(&self, line: LogLine) -> Option<LogPermit> {
        let nanos = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let now = weir_engine::Instant::from_nanos(nanos);
        self.log.lock().unwrap_or_else(PoisonError::into_inner).permit(now, line)
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let mut response = Response::new(self.body);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        // A generation has no other signs than those of a header.
        let tag = self.generation.map(|generation| format!("\"{generation}\"").parse());
        if let Some(Ok(tag)) = tag {
            headers.insert(header::ETAG, tag);
        }
        headers.extend(self.headers);
        response
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = Json(ErrorReply { error: self.refusal });
        match (self.status, self.retry_after) {
            (401, _) => (status, [(header::WWW_AUTHENTICATE, "Bearer")], body).into_response(),
            (_, Some(seconds)) => {
                (status, [(header::RETRY_AFTER, seconds.to_string())], body).into_response()
            }
            (_, None) => (status, body).into_response(),
        }
    }
}
