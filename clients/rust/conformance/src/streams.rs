// A stream as a user's loop sees it, with what a case does while it is read.

use std::fmt::Debug;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tollgate_gateway::{ChatStream, Chunk, Client, Error, MessageStream, Result};

use crate::{failed, steps};

/// The calls that both kinds of streams have; only the driver needs one trait for them.
pub(crate) trait Followed: Debug {
    async fn next(&mut self) -> Option<Result<Chunk>>;
    fn close(&mut self);

    async fn cancel(&self) -> Result<Value> {
        Err(Error::Config("a stream of /v1/chat has no cancel".into()))
    }

    async fn last(&mut self) -> Result<Value> {
        Err(Error::Config("a stream of /v1/chat has no final message".into()))
    }

    fn message_id(&self) -> Option<&str> {
        None
    }

    fn last_event_id(&self) -> Option<&str> {
        None
    }
}

impl Followed for ChatStream {
    async fn next(&mut self) -> Option<Result<Chunk>> {
        self.next().await
    }

    fn close(&mut self) {
        self.close();
    }
}

impl Followed for MessageStream {
    async fn next(&mut self) -> Option<Result<Chunk>> {
        self.next().await
    }

    fn close(&mut self) {
        self.close();
    }

    async fn cancel(&self) -> Result<Value> {
        steps::shown(self.cancel().await?)
    }

    async fn last(&mut self) -> Result<Value> {
        steps::shown(self.final_message().await?)
    }

    fn message_id(&self) -> Option<&str> {
        self.message_id()
    }

    fn last_event_id(&self) -> Option<&str> {
        self.last_event_id()
    }
}

pub(crate) async fn follow(client: &Client, mut stream: impl Followed, step: &Value, shown: &mut Vec<String>) -> Value {
    shown.push(format!("{stream:?}"));
    let mut chunks = Chunks::new(step["report"].as_str().unwrap_or("digest"));
    let leave_after = step["leave_after"].as_u64().unwrap_or(u64::MAX);
    let mut during = Vec::new();
    let mut error = None;
    for count in 1..=leave_after {
        match stream.next().await {
            Some(Ok(chunk)) => chunks.add(&chunk),
            Some(Err(end)) => {
                error = Some(end);
                break;
            }
            None => break,
        }
        for then in step["during"].as_array().into_iter().flatten() {
            if then["after"] == count {
                during.push(act(client, &mut stream, &then["step"], shown).await);
            }
        }
    }
    let mut seen = json!({
        "chunks": chunks.report(),
        "message_id": stream.message_id(),
        "last_event_id": stream.last_event_id(),
    });
    if step["during"].is_array() {
        seen["during"] = Value::Array(during);
    }
    if step["final"] == true {
        match stream.last().await {
            Ok(message) => seen["final"] = message,
            Err(end) => seen["final_error"] = failed(&end, shown)["error"].take(),
        }
    }
    match error {
        None => json!({ "ok": seen }),
        Some(error) => {
            seen["error"] = failed(&error, shown)["error"].take();
            seen
        }
    }
}

async fn act(client: &Client, stream: &mut impl Followed, step: &Value, shown: &mut Vec<String>) -> Value {
    match step["op"].as_str() {
        Some("stream.cancel") => match stream.cancel().await {
            Ok(message) => json!({ "ok": message }),
            Err(error) => failed(&error, shown),
        },
        Some("stream.close") => {
            stream.close();
            json!({ "ok": null })
        }
        _ => Box::pin(steps::run(client, step, shown)).await,
    }
}

enum Chunks {
    Texts(Vec<String>),
    Raw(Vec<Value>),
    Digest { count: u64, bytes: u64, sha256: Sha256 },
}

impl Chunks {
    fn new(report: &str) -> Self {
        match report {
            "texts" => Self::Texts(Vec::new()),
            "raw" => Self::Raw(Vec::new()),
            _ => Self::Digest { count: 0, bytes: 0, sha256: Sha256::new() },
        }
    }

    fn add(&mut self, chunk: &Chunk) {
        match self {
            Self::Texts(texts) => texts.push(chunk.text().to_owned()),
            Self::Raw(chunks) => chunks.push(steps::shown(chunk).unwrap_or_default()),
            Self::Digest { count, bytes, sha256 } => {
                *count += 1;
                *bytes += chunk.text().len() as u64;
                sha256.update(chunk.text());
            }
        }
    }

    fn report(self) -> Value {
        match self {
            Self::Texts(texts) => json!(texts),
            Self::Raw(chunks) => Value::Array(chunks),
            Self::Digest { count, bytes, sha256 } => {
                json!({ "count": count, "bytes": bytes, "sha256": format!("{:x}", sha256.finalize()) })
            }
        }
    }
}
