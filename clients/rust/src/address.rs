// Where the gateway is, from any way to write its base URL, and the URL of each call. An id is one path segment,
// whatever is in it.

use reqwest::Url;

use crate::error::{Error, Result};

pub(crate) struct Address {
    /// Its path ends without a slash and without `/v1`.
    root: Url,
}

impl Address {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        // The text is not shown, because it may contain a password.
        let refuse = |what: &str| Err(Error::Config(format!("the base URL {what}")));
        let Ok(mut root) = Url::parse(text.trim()) else {
            return refuse("is not a URL, such as https://gateway.example.com/v1");
        };
        if !matches!(root.scheme(), "http" | "https") {
            return refuse("must start with http:// or https://");
        }
        if !root.username().is_empty() || root.password().is_some() {
            return refuse("must not have a user or a password in it");
        }
        root.set_query(None);
        root.set_fragment(None);
        let path = root.path().trim_end_matches('/');
        let path = path.strip_suffix("/v1").unwrap_or(path).trim_end_matches('/').to_owned();
        root.set_path(&path);
        Ok(Self { root })
    }

    /// `…/api/chat/sessions` of `["chat", "sessions"]`.
    pub(crate) fn api(&self, segments: &[&str]) -> Result<Url> {
        self.join("api", segments)
    }

    pub(crate) fn v1(&self, segments: &[&str]) -> Result<Url> {
        self.join("v1", segments)
    }

    pub(crate) fn has_origin_of(&self, url: &Url) -> bool {
        self.root.origin() == url.origin()
    }

    pub(crate) fn is_plain(&self) -> bool {
        self.root.scheme() == "http"
    }

    fn join(&self, mount: &str, segments: &[&str]) -> Result<Url> {
        let mut path = format!("{}/{mount}", self.root.path().trim_end_matches('/'));
        for segment in segments {
            path.push('/');
            encode(segment, &mut path)?;
        }
        let mut url = self.root.clone();
        url.set_path(&path);
        Ok(url)
    }
}

fn encode(segment: &str, path: &mut String) -> Result<()> {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    match segment {
        "" => return Err(Error::Config("an id must not be empty".into())),
        // URLs drop these segments even when they are encoded, so the request would go to another resource.
        "." | ".." => return Err(Error::Config(format!("{segment:?} is no id"))),
        _ => {}
    }
    for byte in segment.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            path.push(char::from(byte));
        } else {
            path.push('%');
            path.push(char::from(HEX[usize::from(byte >> 4)]));
            path.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
    Ok(())
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.root.fmt(f)
    }
}
