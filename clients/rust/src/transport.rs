// Sends a request until it is answered, or until another attempt is useless or not allowed. Only this file sends the
// key, and only to the base URL's origin.

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION,
    USER_AGENT,
};
use reqwest::{Response, Url};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::api_error::ApiError;
use crate::client::Inner;
use crate::error::{Error, Result};
use crate::events::{Bytestream, idle};
use crate::request::{Body, Request, Settings};
use crate::retry::{asked_wait, is_worth_retrying, wait_before};
use crate::upload::Sending;

const AGENT: &str = concat!("tollgate-gateway-rust/", env!("CARGO_PKG_VERSION"));
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const MAX_JSON: usize = 64 << 20;
const MAX_ERROR: usize = 1 << 20;
/// The time limit for reading a refusal, even if it comes byte by byte.
const MAX_ERROR_TIME: Duration = Duration::from_secs(10);
const MAX_REDIRECTS: u32 = 5;

/// An attempt that did not succeed.
pub(crate) struct Failure {
    pub(crate) error: Error,
    pub(crate) again: Again,
    /// The wait that the gateway asks for.
    pub(crate) wait: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Again {
    Yes,
    /// The request may have arrived.
    UnlessPaid,
    No,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { error, again: Again::No, wait: None }
    }
}

impl Inner {
    /// Resolves with a 2xx answer, or fails.
    pub(crate) async fn send(&self, request: &Request) -> Result<Response> {
        let retries =
            if request.can_be_sent_again() { request.settings.max_retries.unwrap_or(self.max_retries) } else { 0 };
        let mut n = 0;
        loop {
            let failure = match self.attempt(request).await {
                Ok(response) => return Ok(response),
                Err(failure) => failure,
            };
            let is_allowed = match failure.again {
                Again::Yes => true,
                Again::UnlessPaid => !request.is_paid_each_time,
                Again::No => false,
            };
            if n >= retries || !is_allowed {
                return Err(failure.error);
            }
            (self.sleep)(wait_before(n, failure.wait)).await;
            n += 1;
        }
    }

    pub(crate) async fn json<T: DeserializeOwned>(&self, request: &Request) -> Result<T> {
        let body = self.body(request).await?;
        serde_json::from_slice(&body).map_err(|error| {
            let why = error.to_string().replace(&self.key, "***");
            Error::protocol(format!("the answer is not the API's: {why}"))
        })
    }

    /// The answer's whole body.
    pub(crate) async fn body(&self, request: &Request) -> Result<Vec<u8>> {
        let response = self.send(request).await?;
        let bytes = Bytestream::new(response, self.idle_timeout(request.settings));
        read(bytes, MAX_JSON).await?.ok_or_else(|| Error::protocol("the answer is larger than 64 MiB"))
    }

    pub(crate) fn idle_timeout(&self, settings: Settings) -> Duration {
        settings.idle_timeout.unwrap_or(self.idle_timeout)
    }

    pub(crate) async fn attempt(&self, request: &Request) -> Result<Response, Failure> {
        let mut url = request.url.clone();
        let mut hops = 0;
        loop {
            let (response, sending) = self.exchange(request, &url).await?;
            let status = response.status();
            if status.is_success() {
                return Ok(response);
            }
            let next = if request.follows_redirects && hops < MAX_REDIRECTS { redirect(&response, &url) } else { None };
            let Some(next) = next else {
                let failure = self.refusal(request, response).await;
                // When an upload is refused before its end, the rest of its source need not be read.
                if let Some(sending) = sending {
                    sending.stop();
                }
                return Err(failure);
            };
            url = next;
            hops += 1;
        }
    }

    async fn exchange(&self, request: &Request, url: &Url) -> Result<(Response, Option<Arc<Sending>>), Failure> {
        let mut http = self.http.request(request.method.clone(), url.clone()).headers(self.headers_for(request, url)?);
        let mut sending = None;
        match &request.body {
            Body::None => {}
            Body::Json(bytes) => http = http.header(CONTENT_TYPE, "application/json").body(bytes.clone()),
            Body::Upload(upload) => {
                let form = upload.open().await?;
                http = http.header(CONTENT_TYPE, form.content_type);
                if let Some(length) = form.length {
                    http = http.header(CONTENT_LENGTH, length);
                }
                http = http.body(form.body);
                sending = Some(form.sending);
            }
        }
        let limit = if request.is_slow() {
            request.settings.answer_timeout.unwrap_or(self.answer_timeout)
        } else {
            self.idle_timeout(request.settings)
        };
        let answer = within(http.send(), limit, sending.as_deref()).await;
        if let Some(error) = sending.as_deref().and_then(Sending::source_error) {
            return Err(Error::Io(error).into());
        }
        match answer {
            Some(Ok(mut response)) => {
                self.hide_key(response.headers_mut());
                Ok((response, sending))
            }
            Some(Err(error)) => {
                let again = if error.is_connect() { Again::Yes } else { Again::UnlessPaid };
                Err(Failure { error: Error::of_http(error), again, wait: None })
            }
            None => Err(Failure { error: idle(limit), again: Again::UnlessPaid, wait: None }),
        }
    }

    fn headers_for(&self, request: &Request, url: &Url) -> Result<HeaderMap> {
        let mut headers = HeaderMap::new();
        if self.address.has_origin_of(url) {
            headers.extend(self.headers.clone());
            headers.extend(request.headers.clone());
            headers.insert(AUTHORIZATION, self.authorization.clone());
            if let Some(key) = &request.idempotency_key {
                let value = HeaderValue::from_str(key).ok().filter(|value| value.to_str().is_ok());
                let bad = || Error::Config("an idempotency key is visible ASCII".into());
                headers.insert(IDEMPOTENCY_KEY, value.ok_or_else(bad)?);
            }
        } else {
            // Other headers of the caller may be secrets too.
            let ranges = request.headers.iter().filter(|(name, _)| ["range", "if-range"].contains(&name.as_str()));
            headers.extend(ranges.map(|(name, value)| (name.clone(), value.clone())));
        }
        headers.entry(ACCEPT).or_insert(HeaderValue::from_static(request.accept));
        // Answers are counted and continued by bytes, which compression would change.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers.entry(USER_AGENT).or_insert(HeaderValue::from_static(AGENT));
        Ok(headers)
    }

    /// Errors contain ids and types, which a server may have copied from the request.
    fn hide_key(&self, headers: &mut HeaderMap) {
        for value in headers.values_mut() {
            if String::from_utf8_lossy(value.as_bytes()).contains(&self.key) {
                *value = HeaderValue::from_static("***");
            }
        }
    }

    /// The error for an answer that is not 2xx.
    async fn refusal(&self, request: &Request, response: Response) -> Failure {
        let status = response.status();
        let headers = response.headers().clone();
        let idle = self.idle_timeout(request.settings);
        let bytes = Bytestream::new(response, idle);
        let limit = idle.min(MAX_ERROR_TIME);
        // If the body breaks, comes too slowly or is no JSON, the status alone says what happened.
        let reading = tokio::time::timeout(limit, read(bytes, MAX_ERROR));
        let body = reading.await.ok().and_then(Result::ok).flatten().unwrap_or_default();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let mut error = ApiError::from_json(&body).without_secret(&self.key);
        error.status = Some(status.as_u16());
        error.retry_after = asked_wait(&headers);
        if let Some(id) = request_id(&headers) {
            error.request_id = Some(id);
        }
        if error.message.is_empty() {
            error.message = format!("the answer was {status}, without a reason");
        }
        let is_worth_it = is_worth_retrying(status, &headers, error.code.as_deref(), request.generates);
        let again = if is_worth_it { Again::Yes } else { Again::No };
        Failure { wait: error.retry_after, error: Error::of_status(status, error), again }
    }
}

pub(crate) fn request_id(headers: &HeaderMap) -> Option<String> {
    text_of(headers, "x-request-id")
}

pub(crate) fn text_of(headers: &HeaderMap, name: &str) -> Option<String> {
    Some(String::from_utf8_lossy(headers.get(name)?.as_bytes()).into_owned())
}

fn redirect(response: &Response, url: &Url) -> Option<Url> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let next = url.join(response.headers().get(LOCATION)?.to_str().ok()?).ok()?;
    matches!(next.scheme(), "http" | "https").then_some(next)
}

/// `None` if there is more than `limit`.
async fn read(mut bytes: Bytestream, limit: usize) -> Result<Option<Vec<u8>>> {
    let mut body = Vec::new();
    while let Some(more) = bytes.next().await.transpose()? {
        if body.len() + more.len() > limit {
            return Ok(None);
        }
        body.extend_from_slice(&more);
    }
    Ok(Some(body))
}

/// `None` when nothing went out or came in for `limit`.
async fn within<T>(answer: impl Future<Output = T>, limit: Duration, sending: Option<&Sending>) -> Option<T> {
    let mut answer = std::pin::pin!(answer);
    let mut sent = sending.map(Sending::sent);
    loop {
        if let Ok(answer) = tokio::time::timeout(limit, answer.as_mut()).await {
            return Some(answer);
        }
        let now = sending.map(Sending::sent);
        if now == sent {
            return None;
        }
        sent = now;
    }
}
