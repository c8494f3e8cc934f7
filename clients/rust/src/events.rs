// The events of one answer's body, on demand: what the reader does not ask for stays at the server. A body that gives
// no byte for the idle time-out counts as lost. It says what each event means; its callers act on it.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use reqwest::StatusCode;
use serde_json::Value;
use tokio::time::{Instant, Sleep, sleep};

use crate::api_error::ApiError;
use crate::completion::Chunk;
use crate::error::Error;
use crate::sse::{Decoder, Event};
use crate::transport::text_of;

/// Why no more events come.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The connection ended, broke or stayed idle. Another connection may continue.
    Lost(String),
    /// What came is no stream of events.
    Malformed(Error),
}

/// An answer's bytes, with a time limit for each wait.
pub(crate) struct Bytestream {
    body: Pin<Box<dyn Stream<Item = reqwest::Result<Bytes>> + Send>>,
    idle: Duration,
    timer: Pin<Box<Sleep>>,
    /// The timer belongs to an earlier wait.
    stale: bool,
}

impl Bytestream {
    pub(crate) fn new(response: reqwest::Response, idle: Duration) -> Self {
        Self { body: Box::pin(response.bytes_stream()), idle, timer: Box::pin(sleep(idle)), stale: true }
    }

    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        if let Poll::Ready(next) = self.body.as_mut().poll_next(cx) {
            self.stale = true;
            return Poll::Ready(next.map(|bytes| bytes.map_err(Error::of_http)));
        }
        // Bytes that are already there need no timer.
        if std::mem::take(&mut self.stale) {
            // Resetting a timer takes no lock, a new timer would. An endless time-out needs no reset.
            if let Some(end) = Instant::now().checked_add(self.idle) {
                self.timer.as_mut().reset(end);
            }
        }
        ready!(self.timer.as_mut().poll(cx));
        Poll::Ready(Some(Err(idle(self.idle))))
    }

    pub(crate) async fn next(&mut self) -> Option<Result<Bytes, Error>> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }
}

pub(crate) fn idle(after: Duration) -> Error {
    Error::Timeout { message: format!("nothing came for {} s", after.as_secs_f64()) }
}

pub(crate) struct Events {
    bytes: Bytestream,
    pending: Bytes,
    decoder: Decoder,
}

impl Events {
    /// Refuses an answer that is not declared as a stream: otherwise a proxy's page would look like an empty stream.
    pub(crate) fn new(response: reqwest::Response, idle: Duration) -> Result<Self, Error> {
        let status = response.status();
        let came = text_of(response.headers(), "content-type").unwrap_or_else(|| "no content type".into());
        let is_stream = came.trim_start().to_ascii_lowercase().starts_with("text/event-stream");
        if status != StatusCode::OK || !is_stream {
            return Err(Error::protocol(format!("the answer is no stream of events, but {status} with {came}")));
        }
        Ok(Self { bytes: Bytestream::new(response, idle), pending: Bytes::new(), decoder: Decoder::default() })
    }

    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Event, Stop>> {
        loop {
            match self.decoder.next(&mut self.pending) {
                Ok(Some(event)) => return Poll::Ready(Ok(event)),
                Ok(None) => {}
                Err(_) => {
                    let error = Error::protocol("an event of the stream is larger than 8 MiB");
                    return Poll::Ready(Err(Stop::Malformed(error)));
                }
            }
            // An event without its blank line is incomplete.
            match ready!(self.bytes.poll_next(cx)) {
                Some(Ok(bytes)) => self.pending = bytes,
                Some(Err(error)) => return Poll::Ready(Err(Stop::Lost(error.to_string()))),
                None => return Poll::Ready(Err(Stop::Lost("the connection ended".into()))),
            }
        }
    }
}

/// What an event says.
pub(crate) enum Said {
    Chunk(Box<Chunk>),
    Done,
    Failed(ApiError),
}

pub(crate) fn understand(data: String) -> Result<Said, Error> {
    if data == "[DONE]" {
        return Ok(Said::Done);
    }
    let chunk = Chunk::parse(data).map_err(|_| Error::protocol("an event of the stream is no JSON object"))?;
    if chunk.extra.get("error").is_some_and(|error| !error.is_null()) {
        let body: Value = serde_json::from_str(chunk.raw()).unwrap_or_default();
        let mut error = ApiError::from_json(&body);
        if error.message.is_empty() {
            error.message = "the stream ended in an error without a reason".into();
        }
        return Ok(Said::Failed(error));
    }
    Ok(Said::Chunk(Box::new(chunk)))
}

/// The text of choice 0 so far, for errors.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    text: String,
    full: bool,
}

impl Transcript {
    const MAX: usize = 8 << 20;

    pub(crate) fn add(&mut self, text: &str) {
        if self.full {
            return;
        }
        let mut fits = text.len().min(Self::MAX - self.text.len());
        while !text.is_char_boundary(fits) {
            fits -= 1;
        }
        self.full = fits < text.len();
        self.text.push_str(&text[..fits]);
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}
