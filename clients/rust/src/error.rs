// What can go wrong, as one enum: a variant for each family of answers, so that a caller can match those that it can
// handle. None of them contains the API key.

use std::error::Error as StdError;

use reqwest::StatusCode;

use crate::api_error::ApiError;

/// What the calls of this crate answer.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A call or a stream that failed.
///
/// Answers of the gateway carry an [`ApiError`], which [`Error::api`] finds whatever the variant.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// 401: the key is missing, wrong, revoked or expired.
    #[error(transparent)]
    Authentication(Box<ApiError>),
    /// 402: the balance does not cover the request.
    #[error(transparent)]
    InsufficientBalance(Box<ApiError>),
    /// 403: the key may not do this, or a quota is used up.
    #[error(transparent)]
    PermissionDenied(Box<ApiError>),
    /// 404, 410: there is no such thing, or no longer.
    #[error(transparent)]
    NotFound(Box<ApiError>),
    /// 409: another answer is being generated, or the same call is still running.
    #[error(transparent)]
    Conflict(Box<ApiError>),
    /// 429: wait as [`ApiError::retry_after`] says.
    #[error(transparent)]
    RateLimit(Box<ApiError>),
    /// Any other 4xx: the request has to change.
    #[error(transparent)]
    BadRequest(Box<ApiError>),
    /// 5xx: the gateway or the model failed.
    #[error(transparent)]
    Server(Box<ApiError>),
    /// Any other answer that is an error, redirects included.
    #[error(transparent)]
    Api(Box<ApiError>),
    /// Nothing came for as long as the call's time-out allows. A kind of failed connection.
    #[error("{message}")]
    Timeout {
        /// Which time-out, and how long.
        message: String,
    },
    /// The connection could not be made, or broke.
    #[error("{message}")]
    Connection {
        /// What failed, as the HTTP library and the system say it.
        message: String,
        /// The HTTP library's error.
        #[source]
        source: Option<Box<dyn StdError + Send + Sync>>,
    },
    /// A stream or a download broke off and could not be continued, or its end could not be read.
    #[error(transparent)]
    IncompleteStream(Box<IncompleteStream>),
    /// The client or the call is not set up correctly: no key, a bad base URL, an empty id.
    #[error("{0}")]
    Config(String),
    /// What came is not part of the API: an answer that is no stream, an event that is no JSON or over 8 MiB.
    #[error("{message}")]
    Protocol {
        /// What is wrong.
        message: String,
        /// The text of a stream that came before it.
        partial_text: Option<String>,
        /// The request id of the first answer of a stream.
        request_id: Option<String>,
    },
    /// A file to upload could not be read, or a download could not be written.
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

/// What is known of a stream or a download that was cut off.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct IncompleteStream {
    /// Why it was not continued.
    pub message: String,
    /// The text that came; `None` for a download.
    pub partial_text: Option<String>,
    /// The request id of the first answer.
    pub request_id: Option<String>,
}

/// The gateway's error in the variants that have one, shared or mutable as `$error` is.
macro_rules! answer {
    ($error:expr) => {
        match $error {
            Self::Authentication(error)
            | Self::InsufficientBalance(error)
            | Self::PermissionDenied(error)
            | Self::NotFound(error)
            | Self::Conflict(error)
            | Self::RateLimit(error)
            | Self::BadRequest(error)
            | Self::Server(error)
            | Self::Api(error) => Some(error),
            _ => None,
        }
    };
}

impl Error {
    /// The gateway's error, if it answered one.
    pub fn api(&self) -> Option<&ApiError> {
        answer!(self)
    }

    /// The gateway's code, such as `session_busy`.
    pub fn code(&self) -> Option<&str> {
        self.api()?.code.as_deref()
    }

    /// Finds the line in the gateway's log.
    pub fn request_id(&self) -> Option<&str> {
        match self {
            Self::IncompleteStream(error) => error.request_id.as_deref(),
            Self::Protocol { request_id, .. } => request_id.as_deref(),
            _ => self.api()?.request_id.as_deref(),
        }
    }

    /// The text of choice 0 that came before a stream failed.
    pub fn partial_text(&self) -> Option<&str> {
        match self {
            Self::IncompleteStream(error) => error.partial_text.as_deref(),
            Self::Protocol { partial_text, .. } => partial_text.as_deref(),
            _ => self.api()?.partial_text.as_deref(),
        }
    }

    /// Whether the call was refused, or never sent.
    pub(crate) fn did_nothing(&self) -> bool {
        match self.api() {
            Some(answer) => answer.status < Some(500),
            None => matches!(self, Self::Config(_)),
        }
    }

    /// What a stream adds to its error: the text so far, and the id of its first request.
    pub(crate) fn of_stream(mut self, text: &str, request_id: Option<&str>) -> Self {
        let (partial, id) = if let Self::IncompleteStream(error) = &mut self {
            (&mut error.partial_text, &mut error.request_id)
        } else if let Self::Protocol { partial_text, request_id, .. } = &mut self {
            (partial_text, request_id)
        } else if let Some(error) = answer!(&mut self) {
            (&mut error.partial_text, &mut error.request_id)
        } else {
            return self;
        };
        *partial = Some(text.to_owned());
        if id.is_none() {
            *id = request_id.map(str::to_owned);
        }
        self
    }

    pub(crate) fn incomplete(message: impl Into<String>) -> Self {
        Self::IncompleteStream(Box::new(IncompleteStream {
            message: message.into(),
            partial_text: None,
            request_id: None,
        }))
    }

    pub(crate) fn protocol(message: impl Into<String>) -> Self {
        Self::Protocol { message: message.into(), partial_text: None, request_id: None }
    }

    /// The error for an answer's status.
    pub(crate) fn of_status(status: StatusCode, error: ApiError) -> Self {
        let error = Box::new(error);
        match status.as_u16() {
            401 => Self::Authentication(error),
            402 => Self::InsufficientBalance(error),
            403 => Self::PermissionDenied(error),
            404 | 410 => Self::NotFound(error),
            409 => Self::Conflict(error),
            429 => Self::RateLimit(error),
            400..=499 => Self::BadRequest(error),
            500..=599 => Self::Server(error),
            _ => Self::Api(error),
        }
    }

    /// The error for an event inside a stream, when no status can tell it any more.
    pub(crate) fn of_kind(error: ApiError) -> Self {
        let error = Box::new(error);
        match error.kind.as_deref().unwrap_or_default() {
            "authentication_error" => Self::Authentication(error),
            "billing_error" => Self::InsufficientBalance(error),
            "permission_error" => Self::PermissionDenied(error),
            "not_found_error" | "gone_error" => Self::NotFound(error),
            "conflict_error" => Self::Conflict(error),
            "rate_limit_error" => Self::RateLimit(error),
            "invalid_request_error" | "request_too_large" => Self::BadRequest(error),
            "server_error" | "upstream_error" | "overloaded_error" | "timeout_error" => Self::Server(error),
            _ => Self::Api(error),
        }
    }

    pub(crate) fn of_http(error: reqwest::Error) -> Self {
        if error.is_timeout() {
            let what =
                if error.is_connect() { "no connection within the connect time-out" } else { "it took too long" };
            return Self::Timeout { message: what.into() };
        }
        // Without the URL, because it may contain ids, and many people read logs.
        let error = error.without_url();
        Self::Connection { message: chain(&error), source: Some(Box::new(error)) }
    }
}

/// reqwest's own text has neither the cause nor the cause's cause.
fn chain(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}
