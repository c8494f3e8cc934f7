// A file on its way from the gateway, pulled piece by piece. When the connection breaks, the rest is asked for, if it
// is still the same file.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use reqwest::header::{HeaderMap, IF_RANGE, RANGE};
use reqwest::{Response, StatusCode};
use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::client::{BoxFuture, Client};
use crate::disposition::filename;
use crate::error::{Error, Result};
use crate::events::Bytestream;
use crate::progress::Progress;
use crate::request::{Request, settings};
use crate::retry::wait_before;
use crate::transport::{Again, Failure, text_of};

/// The most attempts without a byte between them.
const MAX_ATTEMPTS: u32 = 5;

/// A download that has not been sent yet; awaiting it gives a [`Download`].
#[must_use = "a download is asked for when it is awaited"]
pub struct Content {
    client: Client,
    request: Result<Request>,
    start: u64,
    etag: Option<String>,
    progress: Progress,
}

settings!(Content);

impl Content {
    pub(crate) fn new(client: &Client, request: Result<Request>) -> Self {
        let request = request.map(|request| Request { accept: "*/*", follows_redirects: true, ..request });
        Self { client: client.clone(), request, start: 0, etag: None, progress: Progress::default() }
    }

    /// Continues an earlier download: from this byte on.
    pub fn start(mut self, byte: u64) -> Self {
        self.start = byte;
        self
    }

    /// Continues an earlier download only if the file is the same: pass its [`Download::etag`]. An empty one is none.
    pub fn etag(mut self, etag: impl Into<String>) -> Self {
        self.etag = Some(etag.into()).filter(|etag| !etag.is_empty());
        self
    }

    /// Called with the bytes so far, those before the start included, and how many the file has: `None` where the gateway
    /// does not tell.
    pub fn on_progress(mut self, report: impl FnMut(u64, Option<u64>) + Send + 'static) -> Self {
        self.progress = Progress::new(report);
        self
    }
}

impl IntoFuture for Content {
    type Output = Result<Download>;
    type IntoFuture = BoxFuture<Result<Download>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let mut request = self.request?;
            set_start(&mut request, self.start, self.etag.as_deref())?;
            let response = self.client.inner.send(&request).await?;
            // With no bytes yet, nothing can have changed.
            let etag = self.etag.filter(|_| self.start > 0);
            check_start(&response, self.start, etag)?;
            Ok(Download::new(self.client, request, response, self.start, self.progress))
        })
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Content").field("start", &self.start).finish_non_exhaustive()
    }
}

/// The bytes of a file, piece by piece. Dropping it closes the connection.
///
/// # Errors
/// A piece is an error if the file has changed or could not be continued ([`Error::IncompleteStream`]), or the
/// gateway refuses the rest or sends it compressed ([`Error::Protocol`]). Nothing follows an error.
#[must_use = "a download is read by next(), write_to() or bytes()"]
pub struct Download {
    client: Client,
    request: Request,
    state: State,
    position: u64,
    total: Option<u64>,
    headers: HeaderMap,
    attempts: u32,
    progress: Progress,
}

enum State {
    Reading(Bytestream),
    Resuming(BoxFuture<Result<Response, Failure>>),
    Over,
}

impl Download {
    fn new(client: Client, request: Request, response: Response, start: u64, progress: Progress) -> Self {
        let headers = response.headers().clone();
        let total = total_of(&response);
        let state = State::Reading(Bytestream::new(response, client.inner.idle_timeout(request.settings)));
        Self { client, request, state, position: start, total, headers, attempts: 0, progress }
    }

    /// As the gateway found it.
    pub fn content_type(&self) -> Option<String> {
        text_of(&self.headers, "content-type")
    }

    /// The file's name, without a path.
    pub fn filename(&self) -> Option<String> {
        let name = filename(&text_of(&self.headers, "content-disposition")?)?;
        let last = name.rsplit(['/', '\\']).next()?;
        (!["", ".", ".."].contains(&last)).then(|| last.to_owned())
    }

    /// The tag of this content: with it, a later download can continue this one.
    pub fn etag(&self) -> Option<String> {
        tag_of(&self.headers)
    }

    /// Bytes of the whole file, once the gateway has said so.
    pub fn total(&self) -> Option<u64> {
        self.total
    }

    /// The position of the next piece: the start for a download that continues this one.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The next piece; `None` when the file is complete. Can be dropped and called again.
    pub async fn next(&mut self) -> Option<Result<Bytes>> {
        std::future::poll_fn(|cx| self.poll_piece(cx)).await
    }

    /// Writes what is left of it, such as to a `tokio::fs::File`. Answers how many bytes that were. Where it fails or
    /// is dropped, less may be written than [`Download::position`] says: what was written tells where to go on.
    ///
    /// # Errors
    /// As of the pieces, and [`Error::Io`] where writing fails.
    pub async fn write_to(&mut self, writer: &mut (impl AsyncWrite + Unpin)) -> Result<u64> {
        let start = self.position;
        while let Some(piece) = self.next().await {
            writer.write_all(&piece?).await?;
        }
        writer.flush().await?;
        Ok(self.position - start)
    }

    /// What is left of it, in memory: for files that are known to be small.
    ///
    /// # Errors
    /// As of the pieces.
    pub async fn bytes(mut self) -> Result<Bytes> {
        let mut all = Vec::new();
        while let Some(piece) = self.next().await {
            all.extend_from_slice(&piece?);
        }
        Ok(all.into())
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes>>> {
        loop {
            let went_on = match &mut self.state {
                State::Over => return Poll::Ready(None),
                State::Reading(bytes) => match ready!(bytes.poll_next(cx)) {
                    Some(Ok(piece)) => {
                        self.position += piece.len() as u64;
                        self.attempts = 0;
                        self.progress.report(self.position, self.total);
                        return Poll::Ready(Some(Ok(piece)));
                    }
                    None if self.total.is_none_or(|total| self.position == total) => {
                        self.state = State::Over;
                        return Poll::Ready(None);
                    }
                    None => self.resume("the connection ended", None),
                    Some(Err(error)) => self.resume(&error.to_string(), None),
                },
                State::Resuming(resuming) => match ready!(resuming.as_mut().poll(cx)) {
                    Ok(response) => self.go_on(response),
                    Err(Failure { error, again: Again::No, .. }) => Err(error),
                    Err(failure) => self.resume(&failure.error.to_string(), failure.wait),
                },
            };
            if let Err(error) = went_on {
                self.state = State::Over;
                return Poll::Ready(Some(Err(error)));
            }
        }
    }

    fn go_on(&mut self, response: Response) -> Result<()> {
        check_start(&response, self.position, self.etag())?;
        // In an answer without a length, nothing else tells a part from the whole.
        self.total = self.total.or_else(|| total_of(&response));
        self.state = State::Reading(Bytestream::new(response, self.client.inner.idle_timeout(self.request.settings)));
        Ok(())
    }

    fn resume(&mut self, why: &str, wait: Option<Duration>) -> Result<()> {
        let incomplete = |what: &str| Err(Error::incomplete(format!("the download was cut off ({why}) {what}")));
        // A weak tag does not promise the same bytes.
        let Some(etag) = self.etag().filter(|etag| etag.starts_with('"')) else {
            return incomplete("and can't be continued: the answer had no strong ETag");
        };
        if self.attempts == MAX_ATTEMPTS {
            return incomplete("and could not be continued");
        }
        let mut request = self.request.clone();
        set_start(&mut request, self.position, Some(&etag))?;
        let wait = wait_before(self.attempts, wait);
        let client = self.client.clone();
        self.attempts += 1;
        self.state = State::Resuming(Box::pin(async move {
            (client.inner.sleep)(wait).await;
            client.inner.attempt(&request).await
        }));
        Ok(())
    }
}

/// At the first byte there is nothing to continue.
fn set_start(request: &mut Request, start: u64, etag: Option<&str>) -> Result<()> {
    if start == 0 {
        return Ok(());
    }
    let bad = |_| Error::Config("an ETag is visible ASCII".into());
    request.headers.insert(RANGE, format!("bytes={start}-").parse().map_err(bad)?);
    if let Some(etag) = etag {
        request.headers.insert(IF_RANGE, etag.parse().map_err(bad)?);
    }
    Ok(())
}

/// An empty one is none.
fn tag_of(headers: &HeaderMap) -> Option<String> {
    text_of(headers, "etag").filter(|etag| !etag.is_empty())
}

/// Of the whole file.
fn total_of(response: &Response) -> Option<u64> {
    if response.status() == StatusCode::PARTIAL_CONTENT {
        text_of(response.headers(), "content-range")?.rsplit_once('/')?.1.parse().ok()
    } else {
        response.content_length()
    }
}

/// An answer with the whole file instead of its rest, or with another tag, means that the file has changed.
fn check_start(response: &Response, start: u64, etag: Option<String>) -> Result<()> {
    let coding = text_of(response.headers(), "content-encoding");
    if let Some(coding) = coding.filter(|coding| !coding.eq_ignore_ascii_case("identity")) {
        return Err(Error::protocol(format!("the file came packed ({coding}), which was not asked for")));
    }
    let is_part = response.status() == StatusCode::PARTIAL_CONTENT;
    let range = text_of(response.headers(), "content-range").unwrap_or_default();
    let first = range.strip_prefix("bytes ").and_then(|range| range.split_once('-')).map(|(first, _)| first);
    let is_rest = if is_part { first == Some(&start.to_string()) } else { start == 0 };
    let is_same = etag.zip(tag_of(response.headers())).is_none_or(|(before, now)| before == now);
    if is_rest && is_same {
        Ok(())
    } else {
        Err(Error::incomplete("what came is not the rest of the same file: it has changed, or another part was sent"))
    }
}

impl Stream for Download {
    type Item = Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_piece(cx)
    }
}

impl fmt::Debug for Download {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Download").field("position", &self.position).field("total", &self.total).finish_non_exhaustive()
    }
}
