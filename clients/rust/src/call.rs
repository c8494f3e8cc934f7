// A call that was set up; it is sent when it is awaited.

use std::fmt;
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::client::{BoxFuture, Client};
use crate::error::Result;
use crate::request::{Request, Settings, settings};

type Run<T> = Box<dyn FnOnce(Client, Request) -> BoxFuture<Result<T>> + Send>;

/// One call. Nothing is sent until it is awaited; dropping the future ends it.
///
/// # Errors
/// Awaiting it answers any [`Error`](crate::Error) but those of streams, after the retries that are allowed.
#[must_use = "a call is sent when it is awaited"]
pub struct Call<T> {
    client: Client,
    request: Result<Request>,
    run: Run<T>,
}

settings!(<T> Call<T>);

impl<T> Call<T> {
    /// `run` sends the request and turns the answer into a result.
    pub(crate) fn new<F>(
        client: &Client,
        request: Result<Request>,
        run: impl FnOnce(Client, Request) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = Result<T>> + Send + 'static,
    {
        Self { client: client.clone(), request, run: Box::new(|client, request| Box::pin(run(client, request))) }
    }

    /// Replaces the random key: a call with the same key and body is the same call. At most 255 visible ASCII
    /// characters. Only for calls that create something.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        if let Ok(request) = &mut self.request {
            if request.idempotency_key.is_some() {
                request.idempotency_key = Some(key.into());
            }
        }
        self
    }

    pub(crate) fn with(self, settings: Settings) -> Self {
        self.set(|own| *own = settings)
    }

    /// How long to wait for the first byte of an answer that is generated, but not streamed.
    pub fn answer_timeout(self, timeout: Duration) -> Self {
        self.set(|settings| settings.answer_timeout = Some(timeout))
    }
}

impl<T: DeserializeOwned + Send + 'static> Call<T> {
    pub(crate) fn json(client: &Client, request: Result<Request>) -> Self {
        Self::new(client, request, |client, request| async move { client.inner.json(&request).await })
    }
}

impl Call<()> {
    pub(crate) fn empty(client: &Client, request: Result<Request>) -> Self {
        Self::new(client, request, |client, request| async move { client.inner.send(&request).await.map(drop) })
    }
}

impl<T: 'static> IntoFuture for Call<T> {
    type Output = Result<T>;
    type IntoFuture = BoxFuture<Result<T>>;

    fn into_future(self) -> Self::IntoFuture {
        match self.request {
            Ok(request) => (self.run)(self.client, request),
            Err(error) => Box::pin(async { Err(error) }),
        }
    }
}

impl<T> fmt::Debug for Call<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").finish_non_exhaustive()
    }
}
