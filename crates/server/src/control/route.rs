//! One route of the API: method, path, operation, and the types from which its description is made.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use axum::body;
use axum::http::{HeaderName, HeaderValue};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::api::{
    ChangeReply, DevicesReply, DifferencesReply, DoneReply, ExportsReply, HealthReply, RecordReply,
    ResizeReply, SetReply,
};
use super::caller::Caller;
use super::generation::IfMatch;
use super::operations::Control;
use super::refuse::Refused;
use crate::status::Status;

/// A request as an operation sees it, without its body.
#[derive(Clone, Debug)]
pub struct Call {
    /// Where it comes from.
    pub caller: Caller,
    /// `If-Match`: the generation that the caller knows.
    pub if_match: Option<IfMatch>,
    /// `Accept`, if it was sent.
    pub(super) accept: Option<String>,
    /// `Last-Event-ID`, if it was sent.
    pub(super) last_event_id: Option<String>,
}

impl Call {
    /// Of `caller`, with nothing besides.
    pub fn new(caller: Caller) -> Call {
        Call { caller, if_match: None, accept: None, last_event_id: None }
    }
}

/// Methods of the API.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Method {
    Get,
    Post,
}

impl Method {
    pub(super) fn name(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Post => "POST",
        }
    }
}

/// An answer with status 200.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) content_type: &'static str,
    pub(super) body: body::Body,
    /// For the header `ETag`.
    pub(super) generation: Option<String>,
    /// Further headers.
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
}

impl Answer {
    pub(super) fn new(content_type: &'static str, body: impl Into<body::Body>) -> Answer {
        Answer { content_type, body: body.into(), generation: None, headers: Vec::new() }
    }
}

/// An answer that is JSON.
pub(super) trait Reply: Serialize + JsonSchema {
    /// Whether it is of a generation.
    const TELLS_GENERATION: bool = true;

    /// The generation, for the header `ETag`.
    fn generation(&self) -> Option<&str>;
}

/// Answers that tell their generation in a field.
macro_rules! tell_generation {
    ($($reply:ty),+ $(,)?) => {
        $(impl Reply for $reply {
            fn generation(&self) -> Option<&str> {
                Some(&self.generation)
            }
        })+
    };
}

tell_generation!(
    Status,
    SetReply,
    DoneReply,
    ChangeReply,
    ResizeReply,
    DifferencesReply,
    DevicesReply,
    ExportsReply,
    RecordReply,
);

impl Reply for HealthReply {
    const TELLS_GENERATION: bool = false;

    fn generation(&self) -> Option<&str> {
        None
    }
}

pub(super) const JSON: &str = "application/json";

fn json(reply: &impl Reply) -> Result<Answer, Refused> {
    let body = serde_json::to_vec(reply).map_err(|error| Refused::failed(error.to_string()))?;
    let generation = reply.generation().map(str::to_owned);
    Ok(Answer { generation, ..Answer::new(JSON, body) })
}

/// A type's schema.
pub(super) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// Body of an answer with status 200.
#[derive(Clone, Copy)]
pub(super) enum Content {
    Json(SchemaOf),
    /// JSON that describes itself.
    AnyJson,
    /// Text, in one of these content types.
    Text(&'static [&'static str]),
    /// Server-sent events, whose data has this schema.
    Events(SchemaOf),
}

/// Body of a request.
#[derive(Clone, Copy)]
pub(super) struct Body {
    pub(super) schema: SchemaOf,
    /// For the help text, and in the description.
    pub(super) example: &'static str,
}

type Doing = Pin<Box<dyn Future<Output = Result<Answer, Refused>> + Send>>;
type Run<T> = Box<dyn Fn(Arc<Control<T>>, Call, Vec<u8>) -> Doing + Send + Sync>;

pub(super) struct Route<T> {
    pub(super) method: Method,
    pub(super) path: &'static str,
    /// Name of the operation: in the description, and in the log where it is a change.
    pub(super) operation: &'static str,
    /// One line.
    pub(super) summary: &'static str,
    pub(super) body: Option<Body>,
    pub(super) answer: Content,
    /// Whether the answer has an `ETag`.
    pub(super) tells_generation: bool,
    /// Statuses of its own, besides those of all routes and all changes.
    refusals: &'static [u16],
    pub(super) run: Run<T>,
}

/// Statuses that any request may be answered with.
const OF_ALL: [u16; 3] = [400, 401, 421];
/// Besides, statuses of changes.
const OF_CHANGES: [u16; 5] = [403, 412, 413, 415, 429];

impl<T: 'static> Route<T> {
    /// A request that changes nothing, with an answer in JSON.
    pub(super) fn get<R, F>(
        path: &'static str,
        operation: &'static str,
        summary: &'static str,
        run: impl Fn(Arc<Control<T>>, Call) -> F + Send + Sync + 'static,
    ) -> Route<T>
    where
        R: Reply,
        F: Future<Output = Result<R, Refused>> + Send + 'static,
    {
        Route {
            method: Method::Get,
            path,
            operation,
            summary,
            body: None,
            answer: Content::Json(SchemaGenerator::subschema_for::<R>),
            tells_generation: R::TELLS_GENERATION,
            refusals: &[],
            run: Box::new(move |control, call, _| {
                let doing = run(control, call);
                Box::pin(async move { json(&doing.await?) })
            }),
        }
    }

    /// A request that changes nothing, with an answer in another form.
    pub(super) fn get_raw<F>(
        path: &'static str,
        operation: &'static str,
        summary: &'static str,
        answer: Content,
        run: impl Fn(Arc<Control<T>>, Call) -> F + Send + Sync + 'static,
    ) -> Route<T>
    where
        F: Future<Output = Result<Answer, Refused>> + Send + 'static,
    {
        Route {
            method: Method::Get,
            path,
            operation,
            summary,
            body: None,
            answer,
            tells_generation: false,
            refusals: &[],
            run: Box::new(move |control, call, _| Box::pin(run(control, call))),
        }
    }

    /// A change, with a body in JSON.
    pub(super) fn change<Q, R, F>(
        method: Method,
        path: &'static str,
        operation: &'static str,
        summary: &'static str,
        example: &'static str,
        run: impl Fn(Arc<Control<T>>, Call, Q) -> F + Send + Sync + 'static,
    ) -> Route<T>
    where
        Q: DeserializeOwned + JsonSchema,
        R: Reply,
        F: Future<Output = Result<R, Refused>> + Send + 'static,
    {
        Route {
            method,
            path,
            operation,
            summary,
            body: Some(Body { schema: SchemaGenerator::subschema_for::<Q>, example }),
            answer: Content::Json(SchemaGenerator::subschema_for::<R>),
            tells_generation: R::TELLS_GENERATION,
            refusals: &[],
            run: Box::new(move |control, call, body| {
                let doing = parse(&body).map(|request| run(control, call, request));
                Box::pin(async move { json(&doing?.await?) })
            }),
        }
    }

    /// Statuses that it may be answered with, besides those of all routes.
    pub(super) fn refuses(mut self, refusals: &'static [u16]) -> Route<T> {
        self.refusals = refusals;
        self
    }

    /// Whether it changes anything.
    pub(super) fn is_change(&self) -> bool {
        self.method != Method::Get
    }

    /// All statuses besides 200, in order.
    pub(super) fn statuses(&self) -> Vec<u16> {
        let mut statuses = OF_ALL.to_vec();
        if self.is_change() {
            statuses.extend(OF_CHANGES);
        }
        statuses.extend(self.refusals);
        statuses.sort_unstable();
        statuses.dedup();
        statuses
    }
}

fn parse<Q: DeserializeOwned>(body: &[u8]) -> Result<Q, Refused> {
    serde_json::from_slice(body).map_err(|error| {
        let hint = "GET / shows what the body looks like".to_owned();
        Refused::bad("", format!("the body is not such a request: {error}")).hint(hint)
    })
}
