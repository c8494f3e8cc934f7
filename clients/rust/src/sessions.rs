// Chat sessions: made, read, changed, deleted, listed.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::call::Call;
use crate::client::Client;
use crate::list::List;
use crate::request::Request;
use crate::types::Session;

/// Chat sessions. From [`Client::sessions`].
#[derive(Debug, Clone)]
pub struct Sessions {
    pub(crate) client: Client,
}

impl Sessions {
    /// `POST /api/chat/sessions`
    pub fn create(&self, params: SessionParams) -> Call<Session> {
        let SessionParams(body) = params;
        let url = self.client.inner.address.api(&["chat", "sessions"]);
        Call::json(&self.client, url.and_then(|url| Request::post(url, &body)))
    }

    /// `GET /api/chat/sessions/ID`
    pub fn retrieve(&self, id: impl AsRef<str>) -> Call<Session> {
        let url = self.client.inner.address.api(&["chat", "sessions", id.as_ref()]);
        Call::json(&self.client, url.map(Request::get))
    }

    /// `PATCH /api/chat/sessions/ID`: changes only the fields that `params` has.
    pub fn update(&self, id: impl AsRef<str>, params: SessionParams) -> Call<Session> {
        let SessionParams(body) = params;
        let url = self.client.inner.address.api(&["chat", "sessions", id.as_ref()]);
        Call::json(&self.client, url.and_then(|url| Request::patch(url, &body)))
    }

    /// `DELETE /api/chat/sessions/ID`: also deletes its messages and files.
    pub fn delete(&self, id: impl AsRef<str>) -> Call<()> {
        let url = self.client.inner.address.api(&["chat", "sessions", id.as_ref()]);
        Call::empty(&self.client, url.map(Request::delete))
    }

    /// `GET /api/chat/sessions`: the newest first.
    pub fn list(&self) -> List<Session> {
        List::new(&self.client, self.client.inner.address.api(&["chat", "sessions"]))
    }
}

/// The fields of a session.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(transparent)]
#[must_use]
pub struct SessionParams(Map<String, Value>);

impl SessionParams {
    /// All fields have their defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// For people; at most 200 characters.
    pub fn title(self, title: impl Into<String>) -> Self {
        self.param("title", title.into())
    }

    /// The model for messages that name none.
    pub fn model(self, model: impl Into<String>) -> Self {
        self.param("model", model.into())
    }

    /// The system message before the conversation.
    pub fn instructions(self, instructions: impl Into<String>) -> Self {
        self.param("instructions", instructions.into())
    }

    /// One pair; an update replaces all of them. At most 16, of 64 and 512 characters.
    pub fn metadata(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let pairs = self.0.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(pairs) = pairs {
            pairs.insert(name.into(), Value::String(value.into()));
        }
        self
    }

    /// Any field. In an update, `Value::Null` clears it.
    pub fn param(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.0.insert(name.into(), value.into());
        self
    }
}
