// The models that the key may use.

use crate::call::Call;
use crate::client::Client;
use crate::list::List;
use crate::request::Request;
use crate::types::Model;

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
