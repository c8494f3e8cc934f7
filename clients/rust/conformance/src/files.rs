// Uploads from each kind of source, and downloads that are hashed as they come.

use std::io::Cursor;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tollgate_gateway::{Client, Result, Upload};

use crate::steps::{shown, word};

pub(crate) async fn upload(client: &Client, step: &Value) -> Result<Value> {
    let filename = word(step, "filename");
    let mut upload = match (step["path"].as_str(), step["once"].as_str()) {
        (Some(path), _) => Upload::path(path).filename(filename),
        (None, Some(once)) => Upload::reader(filename, Cursor::new(once.to_owned())),
        (None, None) => Upload::bytes(filename, word(step, "text").to_owned()),
    };
    if let Some(content_type) = step["content_type"].as_str() {
        upload = upload.content_type(content_type);
    }
    if let Some(sha256) = step["sha256"].as_str() {
        upload = upload.sha256(sha256);
    }
    if let Some(purpose) = step["purpose"].as_str() {
        upload = upload.purpose(purpose);
    }
    if let Some(seconds) = step["expires_after"].as_u64() {
        upload = upload.expires_after(Duration::from_secs(seconds));
    }
    let (progress, report) = recorder();
    let file = client.files().upload(word(step, "session_id"), upload.on_progress(report)).await?;
    Ok(json!({ "file": shown(file)?, "progress": taken(&progress) }))
}

pub(crate) async fn content(client: &Client, step: &Value) -> Result<Value> {
    let (progress, report) = recorder();
    let mut content = client.files().content(word(step, "id")).on_progress(report);
    if let Some(start) = step["start"].as_u64() {
        content = content.start(start);
    }
    if let Some(etag) = step["etag"].as_str() {
        content = content.etag(etag);
    }
    let take = step["take"].as_u64().unwrap_or(u64::MAX);
    let mut download = content.await?;
    let mut sha256 = Sha256::new();
    let mut bytes = 0;
    while bytes < take {
        let Some(piece) = download.next().await else { break };
        let piece = piece?;
        bytes += piece.len() as u64;
        sha256.update(&piece);
    }
    Ok(json!({
        "bytes": bytes,
        "sha256": format!("{:x}", sha256.finalize()),
        "content_type": download.content_type(),
        "filename": download.filename(),
        "progress": taken(&progress),
    }))
}

type Recorded = Arc<Mutex<Vec<(u64, Option<u64>)>>>;

fn recorder() -> (Recorded, impl FnMut(u64, Option<u64>) + Send + 'static) {
    let recorded = Recorded::default();
    let record = Arc::clone(&recorded);
    (recorded, move |at, total| record.lock().into_iter().for_each(|mut record| record.push((at, total))))
}

fn taken(recorded: &Recorded) -> Value {
    recorded.lock().map(|recorded| json!(*recorded)).unwrap_or_default()
}
