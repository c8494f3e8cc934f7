// One attempt to continue a session's stream after a break, and what the gateway says when nothing follows.

use std::time::Duration;

use reqwest::{Response, StatusCode};

use crate::client::BoxFuture;
use crate::error::{Error, Result};
use crate::messages::Messages;
use crate::request::{Request, Settings};
use crate::transport::Failure;
use crate::types::MessageStatus;

pub(crate) enum Resumed {
    Stream(Response),
    /// The gateway has nothing more; the message's end.
    Ended(MessageStatus),
    Failed(Failure),
}

/// Waits, then requests what follows `last_event_id`.
pub(crate) fn ask_for_rest(
    messages: &Messages,
    settings: Settings,
    id: &str,
    last_event_id: Option<&str>,
    wait: Duration,
) -> Result<BoxFuture<Resumed>> {
    let request = Request { settings, ..messages.stream_request(id, last_event_id)? };
    let (messages, id) = (messages.clone(), id.to_owned());
    Ok(Box::pin(async move {
        let inner = &messages.client.inner;
        (inner.sleep)(wait).await;
        match inner.attempt(&request).await {
            Ok(response) if response.status() == StatusCode::NO_CONTENT => how_it_ended(&messages, settings, &id).await,
            Ok(response) => Resumed::Stream(response),
            Err(failure) => Resumed::Failed(failure),
        }
    }))
}

/// The state of a message that has no more to stream.
pub(crate) fn how_it_ended(messages: &Messages, settings: Settings, id: &str) -> BoxFuture<Resumed> {
    let call = messages.retrieve(id).with(settings);
    Box::pin(async move {
        match call.await {
            Ok(message) => Resumed::Ended(message.status),
            // Without an answer, nobody can tell whether the text is complete.
            Err(error @ (Error::Connection { .. } | Error::Timeout { .. })) => {
                let what = format!("the stream has ended, and its message could not be read: {error}");
                Resumed::Failed(Error::incomplete(what).into())
            }
            Err(error) => Resumed::Failed(error.into()),
        }
    })
}
