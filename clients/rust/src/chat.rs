// Chat without a session: the whole conversation goes along each time, and what is not read is gone.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::call::Call;
use crate::client::Client;
use crate::completion::{ChatCompletion, Chunk};
use crate::error::{Error, Result};
use crate::events::{Events, Said, Stop, Transcript, understand};
use crate::request::Request;
use crate::transport::request_id;

/// Chat Completions. From [`Client::chat`].
///
/// When its connection fails, a call is tried again only if it can't have arrived: otherwise it would be charged twice.
/// For the same reason it is not tried again after a 504.
#[derive(Debug, Clone)]
pub struct Chat {
    pub(crate) client: Client,
}

impl Chat {
    /// `POST /v1/chat/completions`: the answer when it is complete.
    pub fn create(&self, chat: ChatRequest) -> Call<ChatCompletion> {
        Call::new(&self.client, self.request(chat, false), |client, request| async move {
            let body = client.inner.body(&request).await?;
            let text = String::from_utf8_lossy(&body).into_owned();
            ChatCompletion::parse(text).map_err(|_| Error::protocol("the answer is no JSON object"))
        })
    }

    /// `POST /v1/chat/completions` with `stream`: the answer while it is generated. Such a stream can't be resumed;
    /// leaving it stops the model.
    pub fn create_stream(&self, chat: ChatRequest) -> Call<ChatStream> {
        let request = self.request(chat, true).map(Request::for_events);
        Call::new(&self.client, request, |client, request| async move {
            let response = client.inner.send(&request).await?;
            Ok(ChatStream {
                request_id: request_id(response.headers()),
                events: Some(Events::new(response, client.inner.idle_timeout(request.settings))?),
                transcript: Transcript::default(),
                key: client.inner.key.clone(),
            })
        })
    }

    fn request(&self, chat: ChatRequest, stream: bool) -> Result<Request> {
        let ChatRequest(mut body) = chat;
        if stream {
            body.insert("stream".into(), true.into())
        } else {
            body.remove("stream")
        };
        let url = self.client.inner.address.v1(&["chat", "completions"])?;
        Ok(Request { generates: true, is_paid_each_time: true, ..Request::post(url, &body)? })
    }
}

/// The request for a model.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(transparent)]
#[must_use]
pub struct ChatRequest(Map<String, Value>);

impl ChatRequest {
    /// A request without messages.
    pub fn new(model: impl Into<String>) -> Self {
        Self::default().param("model", model.into())
    }

    /// Adds the operator's instructions.
    pub fn system(self, text: impl Into<String>) -> Self {
        self.message(json!({ "role": "system", "content": text.into() }))
    }

    /// Adds what a person says.
    pub fn user(self, text: impl Into<String>) -> Self {
        self.message(json!({ "role": "user", "content": text.into() }))
    }

    /// Adds what the model said before.
    pub fn assistant(self, text: impl Into<String>) -> Self {
        self.message(json!({ "role": "assistant", "content": text.into() }))
    }

    /// Adds a message as Chat Completions has it, with parts or tool calls.
    pub fn message(mut self, message: impl Into<Value>) -> Self {
        let messages = self.0.entry("messages").or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(messages) = messages {
            messages.push(message.into());
        }
        self
    }

    /// Any parameter of Chat Completions, such as `temperature`.
    pub fn param(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.0.insert(name.into(), value.into());
        self
    }
}

/// A whole body.
impl From<Map<String, Value>> for ChatRequest {
    fn from(body: Map<String, Value>) -> Self {
        Self(body)
    }
}

/// An answer while it is generated: its chunks, one after another. Dropping it closes the connection.
///
/// # Errors
/// An item is an error if the gateway sent one or something that is not a stream, or [`Error::IncompleteStream`] if the
/// stream broke off; each has the text so far. Nothing follows an error.
#[must_use = "a stream is read by next()"]
pub struct ChatStream {
    events: Option<Events>,
    transcript: Transcript,
    request_id: Option<String>,
    key: String,
}

impl ChatStream {
    /// The next chunk; `None` when the answer is complete. Can be dropped and called again.
    pub async fn next(&mut self) -> Option<Result<Chunk>> {
        std::future::poll_fn(|cx| self.poll_chunk(cx)).await
    }

    /// The text of choice 0 so far; at most 8 MiB of it.
    pub fn partial_text(&self) -> &str {
        self.transcript.text()
    }

    /// Finds the line in the gateway's log.
    pub fn request_id(&self) -> Option<&str> {
        self.request_id.as_deref()
    }

    /// Closes the connection, which stops the model. The same as dropping it.
    pub fn close(&mut self) {
        self.events = None;
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk>>> {
        let Some(events) = &mut self.events else { return Poll::Ready(None) };
        let said = match ready!(events.poll_next(cx)) {
            Ok(event) => understand(event.data),
            Err(Stop::Malformed(error)) => Err(error),
            Err(Stop::Lost(why)) => Err(Error::incomplete(format!(
                "the stream was cut off before its end ({why}); a stream of /v1/chat can't be resumed"
            ))),
        };
        let end = match said {
            Ok(Said::Chunk(chunk)) => {
                self.transcript.add(chunk.text());
                return Poll::Ready(Some(Ok(*chunk)));
            }
            Ok(Said::Done) => None,
            Ok(Said::Failed(error)) => Some(Error::of_kind(error.without_secret(&self.key))),
            Err(error) => Some(error),
        };
        self.events = None;
        Poll::Ready(end.map(|error| Err(error.of_stream(self.transcript.text(), self.request_id.as_deref()))))
    }
}

impl Stream for ChatStream {
    type Item = Result<Chunk>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_chunk(cx)
    }
}

impl fmt::Debug for ChatStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatStream").field("request_id", &self.request_id).finish_non_exhaustive()
    }
}
