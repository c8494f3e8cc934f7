// Each step of a case as the call of the public API that a user would write.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tollgate_gateway::{Call, ChatRequest, Client, Error, List, Message, Result, SessionParams, Transaction, UsageSum};

use crate::streams::follow;
use crate::{failed, files};

pub(crate) async fn run(client: &Client, step: &Value, shown: &mut Vec<String>) -> Value {
    perform(client, step, shown).await.unwrap_or_else(|error| failed(&error, shown))
}

/// The step's result. An error is one of the call itself: a stream's own is in its result, beside what came before it.
async fn perform(client: &Client, step: &Value, shown: &mut Vec<String>) -> Result<Value> {
    let messages = client.messages(word(step, "session_id"));
    Ok(match word(step, "op") {
        "chat.stream" => follow(client, client.chat().create_stream(chat(step)).await?, step, shown).await,
        "messages.create" => follow(client, keyed(messages.create(message(step)), step).await?, step, shown).await,
        "messages.resume" => {
            let stream = messages.resume(word(step, "id"), step["last_event_id"].as_str()).await?;
            follow(client, stream, step, shown).await
        }
        "messages.active" => match messages.active().await? {
            Some(stream) => follow(client, stream, step, shown).await,
            None => json!({ "ok": null }),
        },
        op => json!({ "ok": call(client, op, step).await? }),
    })
}

async fn call(client: &Client, op: &str, step: &Value) -> Result<Value> {
    let id = word(step, "id");
    let messages = client.messages(word(step, "session_id"));
    match op {
        "chat.create" => shown(client.chat().create(chat(step)).await?),
        "sessions.create" => shown(client.sessions().create(params(step)).await?),
        "sessions.retrieve" => shown(client.sessions().retrieve(id).await?),
        "sessions.update" => shown(client.sessions().update(id, params(step)).await?),
        "sessions.delete" => shown(client.sessions().delete(id).await?),
        "sessions.list" => items(client.sessions().list(), step).await,
        "messages.send" => shown(keyed(messages.send(message(step)), step).await?),
        "messages.retrieve" => shown(messages.retrieve(id).await?),
        "messages.cancel" => shown(messages.cancel(id).await?),
        "messages.list" => items(messages.list(), step).await,
        "files.upload" => files::upload(client, step).await,
        "files.content" => files::content(client, step).await,
        "files.retrieve" => shown(client.files().retrieve(id).await?),
        "files.delete" => shown(client.files().delete(id).await?),
        "files.list" => items(client.files().list(), step).await,
        "billing.balance" => shown(client.billing().balance().await?),
        "billing.transactions" => taken(transactions(client.billing().transactions(), step), step).await,
        "billing.usage" => taken(usage(client.billing().usage(), step), step).await,
        "models.list" => items(client.models().list(), step).await,
        "models.retrieve" => shown(client.models().retrieve(id).await?),
        "memory" => Ok(memory()),
        _ => Err(Error::Config(format!("the driver does not know {op}"))),
    }
}

pub(crate) fn word<'a>(step: &'a Value, name: &str) -> &'a str {
    step[name].as_str().unwrap_or_default()
}

pub(crate) fn shown(value: impl Serialize) -> Result<Value> {
    serde_json::to_value(value).map_err(|error| Error::Config(error.to_string()))
}

fn fields<'a>(step: &'a Value, name: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    step[name].as_object().into_iter().flatten()
}

fn keyed<T>(call: Call<T>, step: &Value) -> Call<T> {
    match step["idempotency_key"].as_str() {
        Some(key) => call.idempotency_key(key),
        None => call,
    }
}

fn chat(step: &Value) -> ChatRequest {
    step["body"].as_object().cloned().unwrap_or_default().into()
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

fn transactions(mut list: List<Transaction>, step: &Value) -> List<Transaction> {
    for (name, value) in fields(step, "params") {
        let (text, seconds) = (text(value), value.as_u64().unwrap_or_default());
        list = match name.as_str() {
            "from" => list.from(seconds),
            "to" => list.to(seconds),
            "type" => list.kind(&text.into()),
            "model" => list.model(text),
            "key" => list.key(text),
            "reference" => list.reference(text),
            _ => list.query(name, text),
        };
    }
    list
}

fn usage(mut list: List<UsageSum>, step: &Value) -> List<UsageSum> {
    for (name, value) in fields(step, "params") {
        let (text, seconds) = (text(value), value.as_u64().unwrap_or_default());
        list = match name.as_str() {
            "from" => list.from(seconds),
            "to" => list.to(seconds),
            "bucket" => list.bucket(text),
            "group_by" => list.group_by(text),
            "model" => list.model(text),
            "key" => list.key(text),
            _ => list.query(name, text),
        };
    }
    list
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

async fn items<T: DeserializeOwned + Serialize + Unpin + 'static>(mut list: List<T>, step: &Value) -> Result<Value> {
    for (name, value) in fields(step, "params") {
        list = list.query(name, text(value));
    }
    taken(list, step).await
}

async fn taken<T: DeserializeOwned + Serialize + Unpin + 'static>(list: List<T>, step: &Value) -> Result<Value> {
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
