// The files of sessions: uploaded, downloaded, described, listed, deleted.

use std::sync::Arc;

use reqwest::Method;

use crate::call::Call;
use crate::client::Client;
use crate::download::Content;
use crate::list::List;
use crate::request::{Body, Request};
use crate::types::FileObject;
use crate::upload::Upload;

/// Files. From [`Client::files`].
#[derive(Debug, Clone)]
pub struct Files {
    pub(crate) client: Client,
}

impl Files {
    /// `POST /api/files/upload`: streamed, in constant memory.
    pub fn upload(&self, session_id: impl AsRef<str>, upload: Upload) -> Call<FileObject> {
        let url = self.client.inner.address.api(&["files", "upload"]);
        let request = url.map(|url| Request {
            body: Body::Upload(Arc::new(upload.of_session(session_id.as_ref()))),
            ..Request::new(Method::POST, url)
        });
        Call::json(&self.client, request)
    }

    /// `GET /api/files/ID`: the bytes, streamed.
    pub fn content(&self, id: impl AsRef<str>) -> Content {
        let url = self.client.inner.address.api(&["files", id.as_ref()]);
        Content::new(&self.client, url.map(Request::get))
    }

    /// `GET /api/files/ID/metadata`
    pub fn retrieve(&self, id: impl AsRef<str>) -> Call<FileObject> {
        let url = self.client.inner.address.api(&["files", id.as_ref(), "metadata"]);
        Call::json(&self.client, url.map(Request::get))
    }

    /// `GET /api/files`: the newest first, of all sessions.
    pub fn list(&self) -> List<FileObject> {
        List::new(&self.client, self.client.inner.address.api(&["files"]))
    }

    /// The same, of one session.
    pub fn list_of(&self, session_id: impl AsRef<str>) -> List<FileObject> {
        self.list().query("session_id", session_id)
    }

    /// `DELETE /api/files/ID`
    pub fn delete(&self, id: impl AsRef<str>) -> Call<()> {
        let url = self.client.inner.address.api(&["files", id.as_ref()]);
        Call::empty(&self.client, url.map(Request::delete))
    }
}
