//! A refusal on its way to HTTP.

use std::time::Duration;

use weir_engine::ChangeError;

use super::api::Refusal;
use crate::command::SetError;

/// A refusal and the HTTP status that goes with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Refused {
    pub(super) status: u16,
    pub(super) refusal: Refusal,
    /// Seconds after which it may be tried again.
    pub(super) retry_after: Option<u64>,
}

impl Refused {
    fn new(status: u16, key: &str, message: impl Into<String>) -> Refused {
        let key = (!key.is_empty()).then(|| key.to_owned());
        let refusal = Refusal { message: message.into(), hint: None, key };
        Refused { status, refusal, retry_after: None }
    }

    /// 400: the request makes no sense.
    pub(super) fn bad(key: &str, message: impl Into<String>) -> Refused {
        Refused::new(400, key, message)
    }

    /// 401: over TCP, and no token that is known.
    pub(super) fn unauthorized() -> Refused {
        let hint = "send `Authorization: Bearer TOKEN` with a token of a [token.NAME]";
        Refused::new(401, "Authorization", "a token is needed, or this one is not known")
            .hint(hint.to_owned())
    }

    /// 403: the caller may not change anything.
    pub(super) fn forbidden(message: impl Into<String>) -> Refused {
        Refused::new(403, "", message)
    }

    /// 404: what the request names is not there.
    pub(super) fn missing(key: &str, message: impl Into<String>) -> Refused {
        Refused::new(404, key, message)
    }

    /// 405: the path is there, the method is not.
    pub(super) fn method(message: impl Into<String>) -> Refused {
        Refused::new(405, "", message)
    }

    /// 409: something is in the way.
    pub(super) fn conflict(key: &str, message: impl Into<String>) -> Refused {
        Refused::new(409, key, message)
    }

    /// 412: something has been set since.
    pub(super) fn stale(message: impl Into<String>) -> Refused {
        Refused::new(412, "If-Match", message)
    }

    /// 413: the body is too long.
    pub(super) fn too_large(message: impl Into<String>) -> Refused {
        Refused::new(413, "", message)
    }

    /// 415: the body is not said to be JSON.
    pub(super) fn unsupported(message: impl Into<String>) -> Refused {
        Refused::new(415, "Content-Type", message)
    }

    /// 421: the request is for another server.
    pub(super) fn misdirected(message: impl Into<String>) -> Refused {
        Refused::new(421, "Host", message)
    }

    /// 429: too many changes; one may go after `wait`.
    pub(super) fn too_many(wait: Duration) -> Refused {
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        let mut refused = Refused::new(429, "", "too many changes at once");
        refused.retry_after = Some(seconds);
        refused.hint(format!("wait {seconds} s, and set several at once or more slowly"))
    }

    /// 500: a mistake of this program.
    pub(super) fn failed(message: impl Into<String>) -> Refused {
        Refused::new(500, "", message)
    }

    /// 503: a device thread has ended or does not answer.
    pub(super) fn silent(message: impl Into<String>) -> Refused {
        Refused::new(503, "", message)
    }

    pub(super) fn hint(mut self, hint: impl Into<Option<String>>) -> Refused {
        self.refusal.hint = hint.into();
        self
    }

    /// Adds that `devices` have changed already.
    pub(super) fn after(mut self, devices: &[String]) -> Refused {
        if !devices.is_empty() {
            let done = devices.join(", ");
            self.refusal.message.push_str(&format!("; changed already on: {done}"));
        }
        self
    }

    /// A device's own refusal; `key` is what was set.
    pub(super) fn by_device(key: &str, error: &SetError) -> Refused {
        let (status, key, hint) = match error {
            SetError::Text(error) => (400, key, error.hint()),
            SetError::Bfq(error) => (400, key, error.hint()),
            SetError::Create(_) => (400, "cgroup", None),
            SetError::UnknownCgroup(_) => (404, "cgroup", Some(ASK_STATUS.to_owned())),
            SetError::TooManyCgroups { .. } => (
                409,
                "cgroup",
                Some("remove those that are not used, or raise `max_cgroups` of [server]".into()),
            ),
            SetError::TooDeep { .. } => (400, "cgroup", None),
            SetError::InUse(..) => {
                (409, "cgroup", Some("lift its limits instead: `weir set` with `max`".to_owned()))
            }
            SetError::OfClient(_) => {
                (409, "cgroup", Some("change `client_max` of the export".to_owned()))
            }
            SetError::InUseByPeer(..) => (
                409,
                "cgroup",
                Some("say another `cgroup` in that section first, and `weir reload`".to_owned()),
            ),
            SetError::Change(error) => match error {
                ChangeError::UnknownCgroup => (404, "cgroup", Some(ASK_STATUS.to_owned())),
                ChangeError::UnknownClient => (404, "client", Some(ASK_STATUS.to_owned())),
                ChangeError::NameTaken => {
                    (409, "cgroup", Some("move it elsewhere, or move the other one away".into()))
                }
                ChangeError::HasChildren { .. } => {
                    (409, "cgroup", Some("remove those below it first".into()))
                }
                ChangeError::Root => (400, "cgroup", None),
                ChangeError::MoveBelowItself => {
                    (400, "cgroup", Some("name a parent that is not below it".into()))
                }
                ChangeError::Limits(error) => (400, key, Some(weir_text::limits_hint(error))),
                ChangeError::TooManyWatermarks => (409, key, None),
                ChangeError::MergeRules => (
                    409,
                    key,
                    Some("`weir set / io.scheduler none`, and back when it is set".into()),
                ),
                _ => (400, key, None),
            },
        };
        Refused::new(status, key, error.to_string()).hint(hint)
    }
}

pub(super) const ASK_STATUS: &str = "`weir status` lists the cgroups";
