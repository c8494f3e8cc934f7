// The conformance driver: a JSON object a line in, what the client saw a line out. The client's waits are recorded, not
// waited. ../../../conformance/README.md has the protocol.

mod files;
mod steps;
mod streams;

use std::io::{BufRead, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tollgate_gateway::{Client, Error};

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    // In a thread of its own, so that connections can be closed while no line comes.
    let (sender, mut lines) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    while let Some(line) = lines.recv().await {
        let case = serde_json::from_str(&line?)?;
        let saw = run(&case).await;
        let mut out = std::io::stdout().lock();
        writeln!(out, "{saw}")?;
        out.flush()?;
    }
    Ok(())
}

async fn run(case: &Value) -> Value {
    let waits = Arc::new(Mutex::new(Vec::new()));
    let mut shown = Vec::new();
    let mut done = Vec::new();
    match client(&case["client"], Arc::clone(&waits)) {
        Ok(client) => {
            shown.push(format!("{client:?} {client:#?}"));
            for step in case["steps"].as_array().into_iter().flatten() {
                done.push(steps::run(&client, step, &mut shown).await);
            }
        }
        Err(error) => done.push(failed(&error, &mut shown)),
    }
    let waits = waits.lock().map(|waits| waits.clone()).unwrap_or_default();
    json!({ "steps": done, "waits": waits, "shown": shown })
}

fn client(settings: &Value, waits: Arc<Mutex<Vec<u128>>>) -> Result<Client, Error> {
    let mut builder = Client::builder().sleep_with(move |wait| {
        if let Ok(mut waits) = waits.lock() {
            waits.push(wait.as_millis());
        }
        tokio::task::yield_now()
    });
    if let Some(url) = settings["base_url"].as_str() {
        builder = builder.base_url(url);
    }
    if let Some(key) = settings["api_key"].as_str() {
        builder = builder.api_key(key);
    }
    if let Some(retries) = settings["max_retries"].as_u64() {
        builder = builder.max_retries(u32::try_from(retries).unwrap_or(u32::MAX));
    }
    if let Some(millis) = settings["connect_timeout_ms"].as_u64() {
        builder = builder.connect_timeout(Duration::from_millis(millis));
    }
    if let Some(millis) = settings["idle_timeout_ms"].as_u64() {
        builder = builder.idle_timeout(Duration::from_millis(millis));
    }
    builder.build()
}

/// A step's result.
pub(crate) fn failed(error: &Error, shown: &mut Vec<String>) -> Value {
    shown.push(format!("{error} {error:?} {error:#?}"));
    let class = match error {
        Error::Authentication(_) => "AuthenticationError",
        Error::InsufficientBalance(_) => "InsufficientBalanceError",
        Error::PermissionDenied(_) => "PermissionDeniedError",
        Error::NotFound(_) => "NotFoundError",
        Error::Conflict(_) => "ConflictError",
        Error::RateLimit(_) => "RateLimitError",
        Error::BadRequest(_) => "BadRequestError",
        Error::Server(_) => "ServerError",
        Error::Api(_) => "APIError",
        Error::Timeout { .. } => "TimeoutError",
        Error::Connection { .. } => "ConnectionError",
        Error::IncompleteStream(_) => "IncompleteStreamError",
        _ => "TollgateError",
    };
    let api = error.api();
    json!({ "error": {
        "class": class,
        "status": api.and_then(|api| api.status),
        "code": error.code(),
        "type": api.and_then(|api| api.kind.as_deref()),
        "param": api.and_then(|api| api.param.as_deref()),
        "request_id": error.request_id(),
        "retry_after": api.and_then(|api| api.retry_after).map(|wait| wait.as_secs_f64()),
        "message": api.map_or_else(|| error.to_string(), |api| api.message.clone()),
        "text": error.to_string(),
        "partial_text": error.partial_text(),
    } })
}
