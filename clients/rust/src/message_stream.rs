// A session's answer while it is generated. When the connection breaks, it requests the rest by itself, from after the
// last event that arrived: no event is missed, none comes twice. All of it happens while it is polled; no task runs
// in the background.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use reqwest::header::HeaderMap;
use reqwest::{Response, StatusCode};

use crate::api_error::ApiError;
use crate::client::BoxFuture;
use crate::completion::Chunk;
use crate::error::{Error, Result};
use crate::events::{Events, Said, Stop, Transcript, understand};
use crate::messages::Messages;
use crate::request::Settings;
use crate::resume::{Resumed, ask_for_rest, how_it_ended};
use crate::retry::wait_before;
use crate::sse::Event;
use crate::transport::{Again, Failure, request_id, text_of};
use crate::types::{ChatMessage, MessageStatus};

/// The most attempts without a new chunk between them.
const MAX_ATTEMPTS: u32 = 5;

/// A session's answer while it is generated: its chunks, one after another.
///
/// Dropping it closes the connection, and the answer goes on at the gateway; [`MessageStream::cancel`] stops it.
///
/// # Errors
/// An item is an error if the gateway sent one or something that is not a stream, or [`Error::IncompleteStream`] if the
/// stream could not be resumed or its message is not complete; each has the text so far. Nothing follows an error.
#[must_use = "a stream is read by next()"]
pub struct MessageStream {
    messages: Messages,
    settings: Settings,
    state: State,
    message_id: Option<String>,
    user_message_id: Option<String>,
    request_id: Option<String>,
    last_event_id: Option<String>,
    last_number: Option<u64>,
    transcript: Transcript,
    attempts: u32,
    /// True when a resume could not tell what was given already.
    has_unnumbered: bool,
    own_cancels: Arc<AtomicU32>,
}

enum State {
    Reading(Events),
    Resuming(BoxFuture<Resumed>),
    Over,
}

impl MessageStream {
    pub(crate) fn new(messages: Messages, settings: Settings, response: Response) -> Result<Self> {
        let mut stream = Self::unread(messages, settings, response.headers());
        stream.state = State::Reading(stream.events(response)?);
        Ok(stream)
    }

    pub(crate) fn resumed(
        messages: Messages,
        settings: Settings,
        response: Response,
        message_id: String,
        last_event_id: Option<String>,
    ) -> Result<Self> {
        let mut stream = Self::unread(messages, settings, response.headers());
        stream.state = match response.status() {
            StatusCode::NO_CONTENT => State::Resuming(how_it_ended(&stream.messages, settings, &message_id)),
            _ => State::Reading(stream.events(response)?),
        };
        stream.message_id = Some(message_id);
        stream.last_number = last_event_id.as_deref().and_then(number_of);
        stream.last_event_id = last_event_id;
        Ok(stream)
    }

    fn unread(messages: Messages, settings: Settings, headers: &HeaderMap) -> Self {
        Self {
            messages,
            settings,
            state: State::Over,
            message_id: text_of(headers, "x-message-id"),
            user_message_id: text_of(headers, "x-user-message-id"),
            request_id: request_id(headers),
            last_event_id: None,
            last_number: None,
            transcript: Transcript::default(),
            attempts: 0,
            has_unnumbered: false,
            own_cancels: Arc::default(),
        }
    }

    fn events(&self, response: Response) -> Result<Events> {
        Events::new(response, self.messages.client.inner.idle_timeout(self.settings))
    }

    /// The next chunk; `None` when the answer is complete, or [`cancel`](Self::cancel) stopped it. Can be dropped and
    /// called again.
    pub async fn next(&mut self) -> Option<Result<Chunk>> {
        std::future::poll_fn(|cx| self.poll_chunk(cx)).await
    }

    /// The id of the answer.
    pub fn message_id(&self) -> Option<&str> {
        self.message_id.as_deref()
    }

    /// The id of the message that is answered.
    pub fn user_message_id(&self) -> Option<&str> {
        self.user_message_id.as_deref()
    }

    /// The id of the last chunk: [`Messages::resume`] continues after it.
    pub fn last_event_id(&self) -> Option<&str> {
        self.last_event_id.as_deref()
    }

    /// Finds the line in the gateway's log.
    pub fn request_id(&self) -> Option<&str> {
        self.request_id.as_deref()
    }

    /// The text of choice 0 so far; at most 8 MiB of it.
    pub fn partial_text(&self) -> &str {
        self.transcript.text()
    }

    /// Stops the answer at the gateway. The stream goes on to its end, which is then no error. The future does not
    /// borrow the stream: it can run while the stream is read.
    ///
    /// # Errors
    /// As of [`Messages::cancel`]; [`Error::Config`] as long as the stream has named no message.
    pub fn cancel(&self) -> impl Future<Output = Result<ChatMessage>> + Send + 'static {
        let (messages, cancels) = (self.messages.clone(), Arc::clone(&self.own_cancels));
        let id = self.message_id.clone().unwrap_or_default();
        async move {
            cancels.fetch_add(1, Ordering::Relaxed);
            let answer = messages.cancel(id).await;
            // A cancel whose answer was lost may have stopped the message.
            if answer.as_ref().is_err_and(Error::did_nothing) {
                cancels.fetch_sub(1, Ordering::Relaxed);
            }
            answer
        }
    }

    /// Closes the connection; the answer goes on at the gateway. The same as dropping it.
    pub fn close(&mut self) {
        self.state = State::Over;
    }

    /// Reads what is left of the stream, then the message as the gateway keeps it, with usage and cost.
    ///
    /// # Errors
    /// Those of the stream, unless it has returned its error already, and those of [`Messages::retrieve`].
    pub async fn final_message(&mut self) -> Result<ChatMessage> {
        while let Some(chunk) = self.next().await {
            chunk?;
        }
        self.messages.retrieve(self.message_id.clone().unwrap_or_default()).await
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk>>> {
        loop {
            let step = match &mut self.state {
                State::Over => return Poll::Ready(None),
                State::Reading(events) => match ready!(events.poll_next(cx)) {
                    Ok(event) => self.take(event),
                    Err(Stop::Lost(why)) => self.resume(&why, None),
                    Err(Stop::Malformed(error)) => Step::Over(Some(error)),
                },
                State::Resuming(resuming) => match ready!(resuming.as_mut().poll(cx)) {
                    Resumed::Stream(response) => self.go_on(response),
                    Resumed::Ended(status) => Step::Over(self.judge(&status)),
                    Resumed::Failed(Failure { error, again: Again::No, .. }) => Step::Over(Some(error)),
                    Resumed::Failed(failure) => self.resume(&failure.error.to_string(), failure.wait),
                },
            };
            match step {
                Step::On => {}
                Step::Chunk(chunk) => return Poll::Ready(Some(Ok(*chunk))),
                Step::Over(error) => {
                    self.state = State::Over;
                    let told = |error: Error| error.of_stream(self.transcript.text(), self.request_id.as_deref());
                    return Poll::Ready(error.map(|error| Err(told(error))));
                }
            }
        }
    }

    fn go_on(&mut self, response: Response) -> Step {
        match self.events(response) {
            Ok(events) => {
                self.state = State::Reading(events);
                Step::On
            }
            Err(error) => Step::Over(Some(error)),
        }
    }

    fn take(&mut self, event: Event) -> Step {
        let number = event.id.as_deref().and_then(number_of);
        if number.is_some() && number <= self.last_number {
            return Step::On;
        }
        let said = understand(event.data);
        if let Some(id) = event.id.filter(|id| !id.is_empty()) {
            if self.message_id.is_none() {
                self.message_id = id.rsplit_once(':').map(|(message_id, _)| message_id.to_owned());
            }
            self.last_event_id = Some(id);
            self.last_number = number.or(self.last_number);
        } else {
            self.has_unnumbered = true;
        }
        match said {
            Ok(Said::Chunk(chunk)) => {
                self.attempts = 0;
                self.transcript.add(chunk.text());
                Step::Chunk(chunk)
            }
            Ok(Said::Done) => Step::Over(None),
            Ok(Said::Failed(error)) => Step::Over(self.failed(error)),
            Err(error) => Step::Over(Some(error)),
        }
    }

    fn failed(&self, error: ApiError) -> Option<Error> {
        let is_own = error.code.as_deref() == Some("message_cancelled") && self.own_cancels.load(Ordering::Relaxed) > 0;
        (!is_own).then(|| Error::of_kind(error.without_secret(&self.messages.client.inner.key)))
    }

    /// The next attempt, if another one is allowed. `why` is what ended the one before.
    fn resume(&mut self, why: &str, wait: Option<Duration>) -> Step {
        let incomplete =
            |what: &str| Step::Over(Some(Error::incomplete(format!("the stream was cut off ({why}) {what}"))));
        let Some(id) = self.message_id.clone().filter(|_| !self.has_unnumbered) else {
            return incomplete("and can't be resumed: it named no message, or not all events");
        };
        if self.attempts == MAX_ATTEMPTS {
            return incomplete("and could not be resumed");
        }
        let wait = wait_before(self.attempts, wait);
        let last = self.last_event_id.as_deref();
        self.state = match ask_for_rest(&self.messages, self.settings, &id, last, wait) {
            Ok(resuming) => State::Resuming(resuming),
            Err(error) => return incomplete(&format!("and can't be resumed: {error}")),
        };
        self.attempts += 1;
        Step::On
    }

    /// What the message's status means to a reader who missed the stream's end.
    fn judge(&self, status: &MessageStatus) -> Option<Error> {
        match status {
            MessageStatus::Completed => None,
            MessageStatus::Cancelled if self.own_cancels.load(Ordering::Relaxed) > 0 => None,
            _ => Some(Error::incomplete(format!("the stream has ended, and the message is {status}"))),
        }
    }
}

enum Step {
    On,
    Chunk(Box<Chunk>),
    Over(Option<Error>),
}

/// 17 of `msg_…:17`.
fn number_of(event_id: &str) -> Option<u64> {
    event_id.rsplit_once(':')?.1.parse().ok()
}

impl Stream for MessageStream {
    type Item = Result<Chunk>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_chunk(cx)
    }
}

impl fmt::Debug for MessageStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageStream")
            .field("message_id", &self.message_id)
            .field("last_event_id", &self.last_event_id)
            .finish_non_exhaustive()
    }
}
