// Each step of a case as the call of the public API that a user would write.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tollgate::{ChatRequest, Client, Error, List, Message, SessionParams};

use crate::failed;
use crate::files;
use crate::streams::{Chat, Session, follow};

pub(crate) async fn run(client: &Client, step: &Value, shown: &mut Vec<String>) -> Value {
    match step["op"].as_str().unwrap_or_default() {
        "chat.stream" => match client.chat().create_stream(chat(step)).await {
            Ok(stream) => Box::pin(follow(client, Chat(stream), step, shown)).await,
            Err(error) => failed(&error, shown),
        },
        "messages.create" => {
            let mut call = client.messages(word(step, "session_id")).create(message(step));
            if let Some(key) = step["idempotency_key"].as_str() {
                call = call.idempotency_key(key);
            }
            match call.await {
                Ok(stream) => Box::pin(follow(client, Session(stream), step, shown)).await,
                Err(error) => failed(&error, shown),
            }
        }
        "messages.resume" => {
            let messages = client.messages(word(step, "session_id"));
            match messages.resume(word(step, "id"), step["last_event_id"].as_str()).await {
                Ok(stream) => Box::pin(follow(client, Session(stream), step, shown)).await,
                Err(error) => failed(&error, shown),
            }
        }
        "messages.active" => match client.messages(word(step, "session_id")).active().await {
            Ok(Some(stream)) => Box::pin(follow(client, Session(stream), step, shown)).await,
            Ok(None) => json!({ "ok": null }),
            Err(error) => failed(&error, shown),
        },
        op => match call(client, op, step).await {
            Ok(value) => json!({ "ok": value }),
            Err(error) => failed(&error, shown),
        },
    }
}

async fn call(client: &Client, op: &str, step: &Value) -> Result<Value, Error> {
    let id = word(step, "id");
    let messages = client.messages(word(step, "session_id"));
    match op {
        "chat.create" => shown(client.chat().create(chat(step)).await?),
        "sessions.create" => shown(client.sessions().create(params(step)).await?),
        "sessions.retrieve" => shown(client.sessions().retrieve(id).await?),
        "sessions.update" => shown(client.sessions().update(id, params(step)).await?),
        "sessions.delete" => shown(client.sessions().delete(id).await?),
        "sessions.list" => items(client.sessions().list(), step).await,
        "messages.send" => {
            let mut call = messages.send(message(step));
            if let Some(key) = step["idempotency_key"].as_str() {
                call = call.idempotency_key(key);
            }
            shown(call.await?)
        }
        "messages.retrieve" => shown(messages.retrieve(id).await?),
        "messages.cancel" => shown(messages.cancel(id).await?),
        "messages.list" => items(messages.list(), step).await,
        "files.upload" => files::upload(client, step).await,
        "files.content" => files::content(client, step).await,
        "files.retrieve" => shown(client.files().retrieve(id).await?),
        "files.delete" => shown(client.files().delete(id).await?),
        "files.list" => items(client.files().list(), step).await,
        "billing.balance" => shown(client.billing().balance().await?),
        "billing.transactions" => items(client.billing().transactions(), step).await,
        "billing.usage" => items(client.billing().usage(), step).await,
        "models.list" => items(client.models().list(), step).await,
        "models.retrieve" => shown(client.models().retrieve(id).await?),
        "memory" => Ok(memory()),
        _ => Err(Error::Config(format!("the driver does not know {op}"))),
    }
}

pub(crate) fn word<'a>(step: &'a Value, name: &str) -> &'a str {
    step[name].as_str().unwrap_or_default()
}

pub(crate) fn shown(value: impl Serialize) -> Result<Value, Error> {
    serde_json::to_value(value).map_err(|error| Error::Config(error.to_string()))
}

fn fields<'a>(step: &'a Value, name: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    step[name].as_object().into_iter().flatten()
}

fn chat(step: &Value) -> ChatRequest {
    let body: Map<String, Value> = step["body"].as_object().cloned().unwrap_or_default();
    ChatRequest::from(body)
}

fn params(step: &Value) -> SessionParams {
    fields(step, "params").fold(SessionParams::new(), |params, (name, value)| params.param(name, value.clone()))
}

fn message(step: &Value) -> Message {
    let message = match step["messages"].as_array() {
        Some(turns) => Message::turns(turns.iter().cloned()),
        None => Message::content(step["content"].clone()),
    };
    fields(step, "params").fold(message, |message, (name, value)| message.param(name, value.clone()))
}

async fn items<T: DeserializeOwned + Serialize + Unpin + 'static>(
    mut list: List<T>,
    step: &Value,
) -> Result<Value, Error> {
    for (name, value) in fields(step, "params") {
        list = list.query(name, value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    }
    let take = step["take"].as_u64().unwrap_or(u64::MAX);
    let mut items = list.items();
    let mut taken = Vec::new();
    while (taken.len() as u64) < take {
        let Some(item) = items.next().await else { break };
        taken.push(shown(item?)?);
    }
    Ok(Value::Array(taken))
}

fn memory() -> Value {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().find_map(|word| word.parse::<u64>().ok()).map(|kib| kib * 1024)
    };
    json!({ "rss": bytes("VmRSS:"), "peak": bytes("VmHWM:") })
}
