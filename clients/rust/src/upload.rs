// An upload: a form that is read as it is sent, never whole in memory, with its length if that is known. A source that
// can't be read twice is sent once.

use std::fmt::{self, Write};
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_core::Stream;
use reqwest::header::HeaderValue;
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::retry::fresh_key;

const PIECE: usize = 64 << 10;

type Reader = Pin<Box<dyn AsyncRead + Send>>;

/// A file to upload, with its properties.
#[must_use = "it is uploaded by files().upload()"]
pub struct Upload {
    source: Source,
    filename: String,
    content_type: Option<String>,
    fields: Vec<(&'static str, String)>,
    progress: Progress,
}

enum Source {
    Path(PathBuf),
    Bytes(Bytes),
    Once { reader: Mutex<Option<Reader>>, length: Option<u64> },
}

impl Upload {
    /// A file of this machine, read while it is sent, and again for each attempt.
    pub fn path(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let filename = path.file_name().map_or("file".into(), |name| name.to_string_lossy().into_owned());
        Self::new(Source::Path(path), filename)
    }

    /// Bytes that are in memory already.
    pub fn bytes(filename: impl Into<String>, bytes: impl Into<Bytes>) -> Self {
        Self::new(Source::Bytes(bytes.into()), filename.into())
    }

    /// Anything that can be read, once: if its upload fails, it is not tried again.
    pub fn reader(filename: impl Into<String>, reader: impl AsyncRead + Send + 'static) -> Self {
        let reader: Reader = Box::pin(reader);
        Self::new(Source::Once { reader: Mutex::new(Some(reader)), length: None }, filename.into())
    }

    fn new(source: Source, filename: String) -> Self {
        Self { source, filename, content_type: None, fields: Vec::new(), progress: Progress::default() }
    }

    /// Replaces the name from the path.
    pub fn filename(mut self, name: impl Into<String>) -> Self {
        self.filename = name.into();
        self
    }

    /// How many bytes a reader has, so that the gateway can refuse too large a file at once. One that gives more or
    /// fewer is an error.
    pub fn length(mut self, bytes: u64) -> Self {
        if let Source::Once { length, .. } = &mut self.source {
            *length = Some(bytes);
        }
        self
    }

    /// A hint: the gateway looks at the bytes.
    pub fn content_type(mut self, content_type: impl Into<String>) -> Self {
        self.content_type = Some(content_type.into());
        self
    }

    /// Hex. A file that arrives with another hash is refused with `checksum_mismatch`.
    pub fn sha256(self, hex: impl Into<String>) -> Self {
        self.field("sha256", hex.into())
    }

    /// By default `user_data`.
    pub fn purpose(self, purpose: impl Into<String>) -> Self {
        self.field("purpose", purpose.into())
    }

    /// How long the gateway keeps it. Whole seconds.
    pub fn expires_after(self, time: Duration) -> Self {
        self.field("expires_after", time.as_secs().to_string())
    }

    /// Called with the bytes of the file that have been handed to the network so far, and how many it has: `None` for a
    /// reader without [`Upload::length`]. A further attempt starts anew, but what is reported only rises.
    pub fn on_progress(mut self, report: impl FnMut(u64, Option<u64>) + Send + 'static) -> Self {
        self.progress = Progress::new(report);
        self
    }

    fn field(mut self, name: &'static str, value: String) -> Self {
        self.fields.retain(|(other, _)| *other != name);
        self.fields.push((name, value));
        self
    }

    pub(crate) fn of_session(mut self, session_id: &str) -> Self {
        self.fields.insert(0, ("session_id", session_id.to_owned()));
        self
    }

    pub(crate) fn can_be_read_again(&self) -> bool {
        !matches!(self.source, Source::Once { .. })
    }

    /// The body of one attempt.
    pub(crate) async fn open(&self) -> Result<Form> {
        let (content, length) = match &self.source {
            Source::Bytes(bytes) => (Content::Bytes(bytes.clone()), Some(bytes.len() as u64)),
            Source::Path(path) => {
                let name = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
                let file = tokio::fs::File::open(path).await.map_err(name)?;
                let facts = file.metadata().await.map_err(name)?;
                (Content::File(Box::pin(file)), facts.is_file().then_some(facts.len()))
            }
            Source::Once { reader, length } => {
                let reader = reader.lock().ok().and_then(|mut reader| reader.take());
                let reader = reader.ok_or_else(|| Error::Config("the upload's reader was read already".into()))?;
                (Content::Reader(reader), *length)
            }
        };
        let boundary = format!("tollgate-{}", fresh_key());
        let head = Bytes::from(self.head(&boundary)?);
        let tail = Bytes::from(format!("\r\n--{boundary}--\r\n"));
        let sending = Arc::new(Sending::default());
        Ok(Form {
            content_type: format!("multipart/form-data; boundary={boundary}"),
            length: length.map(|length| length + (head.len() + tail.len()) as u64),
            sending: Arc::clone(&sending),
            body: reqwest::Body::wrap_stream(Pieces {
                head: Some(head),
                content,
                total: length,
                left: length,
                buffer: BytesMut::new(),
                tail: Some(tail),
                progress: self.progress.clone(),
                sending,
            }),
        })
    }

    fn head(&self, boundary: &str) -> Result<String> {
        let mut head = String::new();
        let mut part = |name: &str, rest: &str| {
            // Writing to a string can't fail.
            let _ = write!(head, "--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"{rest}");
        };
        for (name, value) in &self.fields {
            part(name, &format!("\r\n\r\n{value}\r\n"));
        }
        let content_type = self.content_type.as_deref().unwrap_or("application/octet-stream");
        let bad = |_| Error::Config("the content type is not one".into());
        HeaderValue::from_str(content_type).map_err(bad)?;
        // Names are written as browsers do.
        let name = self.filename.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A");
        part("file", &format!("; filename=\"{name}\"\r\nContent-Type: {content_type}\r\n\r\n"));
        Ok(head)
    }
}

impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upload").field("filename", &self.filename).finish_non_exhaustive()
    }
}

pub(crate) struct Form {
    pub(crate) content_type: String,
    pub(crate) length: Option<u64>,
    pub(crate) body: reqwest::Body,
    pub(crate) sending: Arc<Sending>,
}

/// What the code that waits for the answer can see and do to the body.
#[derive(Default)]
pub(crate) struct Sending {
    sent: AtomicU64,
    is_stopped: AtomicBool,
    source_error: Mutex<Option<io::Error>>,
}

impl Sending {
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// The rest is not needed: the answer came before it.
    pub(crate) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    /// Why the source could not be read, if that is what failed.
    pub(crate) fn source_error(&self) -> Option<io::Error> {
        self.source_error.lock().ok()?.take()
    }
}

enum Content {
    Bytes(Bytes),
    File(Reader),
    Reader(Reader),
}

/// The form, piece by piece.
struct Pieces {
    head: Option<Bytes>,
    content: Content,
    total: Option<u64>,
    /// Of the content, where its length was promised.
    left: Option<u64>,
    buffer: BytesMut,
    tail: Option<Bytes>,
    progress: Progress,
    sending: Arc<Sending>,
}

impl Pieces {
    fn poll_content(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        let most = self.left.map_or(PIECE, |left| usize::try_from(left).unwrap_or(PIECE).min(PIECE));
        let piece = match &mut self.content {
            Content::Bytes(bytes) => bytes.split_to(bytes.len().min(most)),
            // Bytes that were added to a file after its length was sent are not sent.
            Content::File(_) if most == 0 => Bytes::new(),
            Content::File(reader) | Content::Reader(reader) => {
                // A reader must end here: more bytes than promised are an error, unlike a file that has grown.
                let most = most.max(1);
                self.buffer.reserve(most);
                let mut limited = reader.take(most as u64);
                // It keeps no state between polls, so it can be made anew for each.
                ready!(std::pin::pin!(limited.read_buf(&mut self.buffer)).poll(cx))?;
                self.buffer.split().freeze()
            }
        };
        if let Some(left) = &mut self.left {
            let Some(rest) = left.checked_sub(piece.len() as u64) else {
                return Poll::Ready(Err(io::Error::other("the reader gives more than the length that was told")));
            };
            *left = rest;
            if piece.is_empty() && *left > 0 {
                return Poll::Ready(Err(io::Error::other("the file has become shorter while it was read")));
            }
        }
        Poll::Ready(Ok(piece))
    }
}

impl Stream for Pieces {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.sending.is_stopped.load(Ordering::Relaxed) {
            return Poll::Ready(Some(Err(io::Error::other("the answer came before the whole file was sent"))));
        }
        if let Some(head) = self.head.take() {
            return Poll::Ready(Some(Ok(head)));
        }
        match ready!(self.poll_content(cx)) {
            Ok(piece) if piece.is_empty() => Poll::Ready(self.tail.take().map(Ok)),
            Ok(piece) => {
                let size = piece.len() as u64;
                let sent = self.sending.sent.fetch_add(size, Ordering::Relaxed) + size;
                self.progress.report(sent, self.total);
                Poll::Ready(Some(Ok(piece)))
            }
            Err(error) => {
                let told = io::Error::new(error.kind(), error.to_string());
                if let Ok(mut slot) = self.sending.source_error.lock() {
                    *slot = Some(error);
                }
                Poll::Ready(Some(Err(told)))
            }
        }
    }
}
