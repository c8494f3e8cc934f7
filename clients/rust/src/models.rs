// The models that the key may use.

use serde::{Deserialize, Serialize};

use crate::call::Call;
use crate::client::Client;
use crate::list::List;
use crate::request::Request;
use crate::types::Extra;

/// A model that the key may use.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Model {
    /// Its name.
    pub id: String,
    /// When the gateway started, in Unix seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<u64>,
    /// `tollgate`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owned_by: Option<String>,
    /// What it costs.
    pub price: Option<ModelPrice>,
    /// In model tokens.
    pub context_window: Option<u64>,
    /// In model tokens.
    pub max_output_tokens: Option<u64>,
    /// `text`, `image` …: what messages of a session may have attached.
    pub accepts: Vec<String>,
    /// `chat`, `embeddings` …: what of `/v1` it serves.
    pub endpoints: Vec<String>,
    /// Everything else.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Balance tokens for each model token.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ModelPrice {
    /// Of the prompt.
    pub input: f64,
    /// Of the answer.
    pub output: f64,
    /// Of what the backend had cached of the prompt.
    pub cached_input: f64,
    /// Balance tokens for each request.
    pub request: f64,
    /// Everything else.
    #[serde(flatten)]
    pub extra: Extra,
}

/// The models. From [`Client::models`].
#[derive(Debug, Clone)]
pub struct Models {
    pub(crate) client: Client,
}

impl Models {
    /// `GET /v1/models`
    pub fn list(&self) -> List<Model> {
        List::new(&self.client, self.client.inner.address.v1(&["models"]))
    }

    /// `GET /v1/models/ID`
    pub fn retrieve(&self, id: impl AsRef<str>) -> Call<Model> {
        let url = self.client.inner.address.v1(&["models", id.as_ref()]);
        Call::json(&self.client, url.map(Request::get))
    }
}
