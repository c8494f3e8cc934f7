// The messages of one session: sent, read, listed, cancelled, and streams of them found again.

use reqwest::{Method, StatusCode, Url};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::call::Call;
use crate::client::Client;
use crate::error::{Error, Result};
use crate::list::List;
use crate::message_stream::MessageStream;
use crate::request::Request;
use crate::types::ChatMessage;

/// The messages of one session. From [`Client::messages`].
#[derive(Debug, Clone)]
pub struct Messages {
    pub(crate) client: Client,
    pub(crate) session_id: String,
}

impl Messages {
    /// `POST …/messages`: says something, and streams the answer.
    pub fn create(&self, message: Message) -> Call<MessageStream> {
        let messages = self.clone();
        let request = self.post(message, true).map(Request::for_events);
        Call::new(&self.client, request, |client, request| async move {
            let response = client.inner.send(&request).await?;
            MessageStream::new(messages, request.settings, response)
        })
    }

    /// `POST …/messages` with `stream: false`: the answer when it is complete.
    pub fn send(&self, message: Message) -> Call<ChatMessage> {
        Call::json(&self.client, self.post(message, false))
    }

    /// `GET …/messages/ID`; a message in progress has what came so far.
    pub fn retrieve(&self, id: impl AsRef<str>) -> Call<ChatMessage> {
        Call::json(&self.client, self.url(&["messages", id.as_ref()]).map(Request::get))
    }

    /// `GET …/messages`: the oldest first.
    pub fn list(&self) -> List<ChatMessage> {
        List::new(&self.client, self.url(&["messages"]))
    }

    /// `POST …/messages/ID/cancel`: stops it, whoever reads it. Returns the message as it ended.
    pub fn cancel(&self, id: impl AsRef<str>) -> Call<ChatMessage> {
        let url = self.url(&["messages", id.as_ref(), "cancel"]);
        Call::json(&self.client, url.map(|url| Request::new(Method::POST, url)))
    }

    /// `GET …/messages/ID/stream`: the stream of a message again, from the start, or from behind the event
    /// `last_event_id` on.
    pub fn resume(&self, id: impl Into<String>, last_event_id: Option<&str>) -> Call<MessageStream> {
        let id = id.into();
        let messages = self.clone();
        let request = self.stream_request(&id, last_event_id);
        let last_event_id = last_event_id.map(str::to_owned);
        Call::new(&self.client, request, |client, request| async move {
            let response = client.inner.send(&request).await?;
            MessageStream::resumed(messages, request.settings, response, id, last_event_id)
        })
    }

    /// `GET …/stream`: the stream of the answer that is being generated; `None` if there is none.
    pub fn active(&self) -> Call<Option<MessageStream>> {
        let messages = self.clone();
        let request = self.url(&["stream"]).map(|url| Request::get(url).for_events());
        Call::new(&self.client, request, |client, request| async move {
            let response = client.inner.send(&request).await?;
            match response.status() {
                StatusCode::NO_CONTENT => Ok(None),
                _ => MessageStream::new(messages, request.settings, response).map(Some),
            }
        })
    }

    pub(crate) fn stream_request(&self, id: &str, last_event_id: Option<&str>) -> Result<Request> {
        let mut request = Request::get(self.url(&["messages", id, "stream"])?).for_events();
        if let Some(last) = last_event_id {
            let bad = |_| Error::Config("an event id is visible ASCII".into());
            request.headers.insert("last-event-id", last.parse().map_err(bad)?);
        }
        Ok(request)
    }

    fn url(&self, rest: &[&str]) -> Result<Url> {
        let path = [&["chat", "sessions", &self.session_id], rest].concat();
        self.client.inner.address.api(&path)
    }

    fn post(&self, message: Message, stream: bool) -> Result<Request> {
        let request = Request::post(self.url(&["messages"])?, &message.param("stream", stream))?;
        Ok(Request { generates: true, ..request })
    }
}

/// What happens to an answer whose reader leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnDisconnect {
    /// It is generated to its end, and kept. This is the default.
    Continue,
    /// It is cancelled.
    Cancel,
}

/// Something to say in a session.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(transparent)]
#[must_use]
pub struct Message(Map<String, Value>);

impl Message {
    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::content(text.into())
    }

    /// A text, or parts as Chat Completions has them.
    pub fn content(content: impl Into<Value>) -> Self {
        Self::default().param("content", content)
    }

    /// Several turns at once, the last one of a user or a tool: results of tools, for example.
    pub fn turns(turns: impl IntoIterator<Item = Value>) -> Self {
        Self::default().param("messages", turns.into_iter().collect::<Vec<_>>())
    }

    /// Attaches a file of the session.
    pub fn file(self, file_id: impl Into<String>) -> Self {
        self.part(json!({ "type": "file", "file": { "file_id": file_id.into() } }))
    }

    /// Attaches an image, as a data URL.
    pub fn image(self, url: impl Into<String>) -> Self {
        self.part(json!({ "type": "image_url", "image_url": { "url": url.into() } }))
    }

    /// Uses this model instead of the session's.
    pub fn model(self, model: impl Into<String>) -> Self {
        self.param("model", model.into())
    }

    /// What happens to the answer when its reader leaves.
    pub fn on_disconnect(self, what: OnDisconnect) -> Self {
        self.param("on_disconnect", if what == OnDisconnect::Cancel { "cancel" } else { "continue" })
    }

    /// Any parameter of Chat Completions, such as `temperature`.
    pub fn param(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.0.insert(name.into(), value.into());
        self
    }

    fn part(mut self, part: Value) -> Self {
        let content = self.0.entry("content").or_insert_with(|| Value::Array(Vec::new()));
        if let Value::String(text) = content {
            *content = json!([{ "type": "text", "text": text }]);
        }
        if let Value::Array(parts) = content {
            parts.push(part);
        }
        self
    }
}
