// The client and its settings. Cheap to clone; all clones share one pool of connections. Nothing that the client shows
// contains the key.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderValue};

use crate::address::Address;
use crate::billing::Billing;
use crate::chat::Chat;
use crate::error::{Error, Result};
use crate::files::Files;
use crate::messages::Messages;
use crate::models::Models;
use crate::request::add_header;
use crate::sessions::Sessions;

pub(crate) type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type Sleep = Arc<dyn Fn(Duration) -> BoxFuture<()> + Send + Sync>;

/// A client of one gateway, with one API key. Clone it instead of making many: clones share their connections.
///
/// It needs a tokio runtime.
#[derive(Clone)]
pub struct Client {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) http: reqwest::Client,
    pub(crate) address: Address,
    pub(crate) authorization: HeaderValue,
    /// Used to find the key in what a server sends back.
    pub(crate) key: String,
    pub(crate) headers: HeaderMap,
    pub(crate) max_retries: u32,
    pub(crate) idle_timeout: Duration,
    pub(crate) answer_timeout: Duration,
    pub(crate) sleep: Sleep,
}

impl Client {
    /// Key and base URL from `TOLLGATE_API_KEY` and `TOLLGATE_BASE_URL`.
    ///
    /// # Errors
    /// [`Error::Config`] where one of them is missing or wrong.
    pub fn from_env() -> Result<Self> {
        Self::builder().build()
    }

    /// To set more than the key and the base URL.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// Chat without a session: `POST /v1/chat/completions`.
    pub fn chat(&self) -> Chat {
        Chat { client: self.clone() }
    }

    /// Chat sessions.
    pub fn sessions(&self) -> Sessions {
        Sessions { client: self.clone() }
    }

    /// The messages of one session.
    pub fn messages(&self, session_id: impl Into<String>) -> Messages {
        Messages { client: self.clone(), session_id: session_id.into() }
    }

    /// Files.
    pub fn files(&self) -> Files {
        Files { client: self.clone() }
    }

    /// The account's balance and what changed it.
    pub fn billing(&self) -> Billing {
        Billing { client: self.clone() }
    }

    /// The models that the key may use.
    pub fn models(&self) -> Models {
        Models { client: self.clone() }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("base_url", &self.inner.address.to_string()).finish_non_exhaustive()
    }
}

/// Sets up a [`Client`].
#[must_use = "nothing is made until build() is called"]
pub struct ClientBuilder {
    api_key: Option<String>,
    base_url: Option<String>,
    headers: Vec<(String, String)>,
    max_retries: u32,
    connect_timeout: Duration,
    idle_timeout: Duration,
    answer_timeout: Duration,
    http: Option<reqwest::ClientBuilder>,
    sleep: Sleep,
}

impl Default for ClientBuilder {
    fn default() -> Self {
        Self {
            api_key: None,
            base_url: None,
            headers: Vec::new(),
            max_retries: 2,
            connect_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(60),
            answer_timeout: Duration::from_secs(600),
            http: None,
            sleep: Arc::new(|wait| Box::pin(tokio::time::sleep(wait))),
        }
    }
}

impl ClientBuilder {
    /// Instead of `TOLLGATE_API_KEY`.
    pub fn api_key(mut self, key: impl Into<String>) -> Self {
        self.api_key = Some(key.into());
        self
    }

    /// Instead of `TOLLGATE_BASE_URL`; with or without `/v1`.
    pub fn base_url(mut self, url: impl Into<String>) -> Self {
        self.base_url = Some(url.into());
        self
    }

    /// Sent with each call.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// How often a failed call is tried again. 2 where not set.
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.max_retries = retries;
        self
    }

    /// Time for making a connection; by default 10 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// The longest time without a byte of an answer or a heartbeat of a stream; by default 60 s.
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = timeout;
        self
    }

    /// Time until an answer that is generated, but not streamed, begins; by default 600 s.
    pub fn answer_timeout(mut self, timeout: Duration) -> Self {
        self.answer_timeout = timeout;
        self
    }

    /// The HTTP client to use: proxies, certificates, DNS. Redirects and the connect time-out are set by this crate.
    pub fn http(mut self, http: reqwest::ClientBuilder) -> Self {
        self.http = Some(http);
        self
    }

    /// For tests of this crate: replaces the wait before a further attempt.
    #[doc(hidden)]
    pub fn sleep_with<F>(mut self, sleep: impl Fn(Duration) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.sleep = Arc::new(move |wait| Box::pin(sleep(wait)));
        self
    }

    /// Makes the client. Sends nothing.
    ///
    /// # Errors
    /// [`Error::Config`] where the key or the base URL is missing or wrong, or a header is none.
    pub fn build(self) -> Result<Client> {
        let key = given(self.api_key, "api_key", "TOLLGATE_API_KEY")?;
        let address = Address::parse(&given(self.base_url, "base_url", "TOLLGATE_BASE_URL")?)?;
        let unusable = |_| Error::Config("the API key has characters that no key has".into());
        let mut authorization = HeaderValue::from_str(&format!("Bearer {key}")).map_err(unusable)?;
        authorization.set_sensitive(true);
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            add_header(&mut headers, name, value)?;
        }
        let http = build_http(self.http, self.connect_timeout, address.is_plain())?;
        let inner = Inner {
            http,
            address,
            authorization,
            key,
            headers,
            max_retries: self.max_retries,
            idle_timeout: self.idle_timeout,
            answer_timeout: self.answer_timeout,
            sleep: self.sleep,
        };
        Ok(Client { inner: Arc::new(inner) })
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder").field("max_retries", &self.max_retries).finish_non_exhaustive()
    }
}

fn given(value: Option<String>, name: &str, variable: &str) -> Result<String> {
    let value = value.or_else(|| std::env::var(variable).ok()).unwrap_or_default();
    match value.trim() {
        "" => Err(Error::Config(format!("{name} is missing: set it, or {variable}"))),
        value => Ok(value.to_owned()),
    }
}

fn build_http(
    given: Option<reqwest::ClientBuilder>,
    connect_timeout: Duration,
    is_plain: bool,
) -> Result<reqwest::Client> {
    // rustls allows one provider in a process. If the application has chosen one, it stays.
    #[cfg(feature = "ring")]
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    let finish = |http: reqwest::ClientBuilder| {
        http.redirect(reqwest::redirect::Policy::none())
            .connect_timeout(connect_timeout)
            // Another crate of the program may have switched them on for all.
            .no_gzip()
            .no_brotli()
            .no_zstd()
            .no_deflate()
            // Less than the 75 s for which the gateway keeps a connection that is not used.
            .pool_idle_timeout(Duration::from_secs(60))
            .build()
    };
    let is_ours = given.is_none();
    // Without root certificates, a machine can still talk to a gateway that needs none.
    let http = finish(given.unwrap_or_default()).or_else(|error| {
        if is_ours && is_plain { finish(reqwest::Client::builder().tls_certs_only([])) } else { Err(error) }
    });
    http.map_err(|error| Error::Config(format!("the HTTP client can't be made: {error}")))
}

#[cfg(test)]
mod tests {
    use crate::{Call, Chat, ChatStream, Client, Download, Error, Items, MessageStream, Session, Upload};

    /// The client can be used from several threads.
    #[test]
    fn what_is_made_can_be_sent_to_another_thread() {
        fn is_send<T: Send + 'static>() {}
        fn is_sync<T: Send + Sync + 'static>() {}
        is_sync::<Client>();
        is_sync::<Chat>();
        is_sync::<Error>();
        is_send::<Call<Session>>();
        is_send::<<Call<Session> as IntoFuture>::IntoFuture>();
        is_send::<ChatStream>();
        is_send::<MessageStream>();
        is_send::<Items<Session>>();
        is_send::<Download>();
        is_send::<Upload>();
    }
}
