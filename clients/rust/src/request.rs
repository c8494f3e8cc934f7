// One logical call, sent as often as needed: its content, and what may differ from the client's settings.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use serde::Serialize;

use crate::error::{Error, Result};
use crate::retry::fresh_key;
use crate::upload::Upload;

const EVENTS: &str = "text/event-stream";

#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) accept: &'static str,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Body,
    pub(crate) idempotency_key: Option<String>,
    /// Each arrival is charged, so it must not be sent twice.
    pub(crate) is_paid_each_time: bool,
    /// The backend generates the answer: after a 504 it is not requested again.
    pub(crate) generates: bool,
    pub(crate) follows_redirects: bool,
    pub(crate) settings: Settings,
}

/// Of one call; the client's where `None`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Settings {
    pub(crate) max_retries: Option<u32>,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) answer_timeout: Option<Duration>,
}

#[derive(Clone)]
pub(crate) enum Body {
    None,
    Json(Bytes),
    Upload(Arc<Upload>),
}

impl Request {
    pub(crate) fn get(url: Url) -> Self {
        Self::new(Method::GET, url)
    }

    pub(crate) fn delete(url: Url) -> Self {
        Self::new(Method::DELETE, url)
    }

    pub(crate) fn patch(url: Url, body: &impl Serialize) -> Result<Self> {
        Ok(Self { body: json(body)?, ..Self::new(Method::PATCH, url) })
    }

    /// One idempotency key for all attempts.
    pub(crate) fn post(url: Url, body: &impl Serialize) -> Result<Self> {
        Ok(Self { body: json(body)?, idempotency_key: Some(fresh_key()), ..Self::new(Method::POST, url) })
    }

    pub(crate) fn new(method: Method, url: Url) -> Self {
        Self {
            method,
            url,
            accept: "application/json",
            headers: HeaderMap::new(),
            body: Body::None,
            idempotency_key: None,
            is_paid_each_time: false,
            generates: false,
            follows_redirects: false,
            settings: Settings::default(),
        }
    }

    pub(crate) fn for_events(mut self) -> Self {
        self.accept = EVENTS;
        self
    }

    /// The answer's head comes only when everything has been generated.
    pub(crate) fn is_slow(&self) -> bool {
        self.generates && self.accept != EVENTS
    }

    pub(crate) fn can_be_sent_again(&self) -> bool {
        match &self.body {
            Body::Upload(upload) => upload.can_be_read_again(),
            Body::None | Body::Json(_) => true,
        }
    }

    pub(crate) fn query(&self, name: &str) -> Option<String> {
        self.url.query_pairs().find_map(|(other, value)| (other == name).then(|| value.into_owned()))
    }

    pub(crate) fn set_query(&mut self, name: &str, value: &str) {
        let kept: Vec<_> = self.url.query_pairs().into_owned().filter(|(other, _)| other != name).collect();
        self.url.query_pairs_mut().clear().extend_pairs(kept).append_pair(name, value);
    }
}

fn json(body: &impl Serialize) -> Result<Body> {
    let bytes = serde_json::to_vec(body).map_err(|error| Error::Config(error.to_string()))?;
    Ok(Body::Json(bytes.into()))
}

pub(crate) fn add_header(headers: &mut HeaderMap, name: &str, value: &str) -> Result<()> {
    // The value is not shown: it may be a secret.
    let bad = || Error::Config(format!("the header {name:?} is not one that can be sent"));
    let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
    headers.insert(name, HeaderValue::from_str(value).map_err(|_| bad())?);
    Ok(())
}

/// The options that each kind of call has.
macro_rules! settings {
    ($($generics:tt)*) => {
        impl $($generics)* {
            /// A header for this call.
            pub fn header(mut self, name: &str, value: &str) -> Self {
                self.request = self.request.and_then(|mut request| {
                    $crate::request::add_header(&mut request.headers, name, value)?;
                    Ok(request)
                });
                self
            }

            /// How often this call is tried again.
            pub fn max_retries(self, retries: u32) -> Self {
                self.set(|settings| settings.max_retries = Some(retries))
            }

            /// The longest time in which nothing comes or goes.
            pub fn idle_timeout(self, timeout: std::time::Duration) -> Self {
                self.set(|settings| settings.idle_timeout = Some(timeout))
            }

            fn set(mut self, set: impl FnOnce(&mut $crate::request::Settings)) -> Self {
                if let Ok(request) = &mut self.request {
                    set(&mut request.settings);
                }
                self
            }
        }
    };
}

pub(crate) use settings;
