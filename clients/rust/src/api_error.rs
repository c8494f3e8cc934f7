// The gateway's description of a failure, in any of the shapes that it and the backends behind it use.

use std::fmt;
use std::time::Duration;

use serde_json::Value;

/// An error that the gateway answered, or sent in a stream.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct ApiError {
    /// HTTP status; `None` for an error that came inside a stream.
    pub status: Option<u16>,
    /// The code to switch on, such as `insufficient_balance`.
    pub code: Option<String>,
    /// The family, such as `billing_error`.
    pub kind: Option<String>,
    /// The field at fault.
    pub param: Option<String>,
    /// For people. May change.
    pub message: String,
    /// Finds the line in the gateway's log.
    pub request_id: Option<String>,
    /// How long the gateway asks to wait.
    pub retry_after: Option<Duration>,
    /// The text that came before an error inside a stream.
    pub partial_text: Option<String>,
}

impl ApiError {
    /// From `{"error": …, "request_id"}` in any of the shapes that backends give it. Never fails; a message that is no
    /// text is empty.
    pub(crate) fn from_json(body: &Value) -> Self {
        let error = &body["error"];
        let text = |name: &str| as_text(&error[name]);
        Self {
            code: text("code"),
            kind: text("type"),
            param: text("param"),
            message: match &error["message"] {
                Value::String(message) => message.clone(),
                Value::Null => as_text(error).unwrap_or_default(),
                _ => String::new(),
            },
            request_id: as_text(&body["request_id"]),
            ..Self::default()
        }
    }

    /// A server may answer with the key that it was sent: the key must not get into a log.
    pub(crate) fn without_secret(mut self, secret: &str) -> Self {
        let fields = [&mut self.code, &mut self.kind, &mut self.param, &mut self.request_id];
        for text in fields.into_iter().flatten().chain([&mut self.message]) {
            if text.contains(secret) {
                *text = text.replace(secret, "***");
            }
        }
        self
    }
}

fn as_text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// `402 insufficient_balance: The balance … (request req_…)`: the same in all of our clients.
impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let status = self.status.map(|status| status.to_string());
        let code = self.code.clone().or_else(|| self.kind.clone());
        let facts: Vec<_> = status.into_iter().chain(code).collect();
        if !facts.is_empty() {
            write!(f, "{}: ", facts.join(" "))?;
        }
        f.write_str(&self.message)?;
        match &self.request_id {
            Some(id) => write!(f, " (request {id})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ApiError {}
