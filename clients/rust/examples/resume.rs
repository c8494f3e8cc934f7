//! Leaves an answer in the middle, and reads the rest of it as another process could: with three ids and nothing else.

use tollgate_gateway::{Client, Message, SessionParams};

#[tokio::main]
async fn main() -> tollgate_gateway::Result<()> {
    let client = Client::from_env()?;
    let session = client.sessions().create(SessionParams::new()).await?;
    let messages = client.messages(&session.id);
    let mut stream = messages.create(Message::text("Count to twenty.")).await?;
    while stream.partial_text().is_empty() {
        let Some(chunk) = stream.next().await else { break };
        print!("{}", chunk?.text());
    }
    let (id, last) = (stream.message_id().map(str::to_owned), stream.last_event_id().map(str::to_owned));
    drop(stream); // The answer goes on.

    print!(" | ");
    let mut rest = messages.resume(id.unwrap_or_default(), last.as_deref()).await?;
    while let Some(chunk) = rest.next().await {
        print!("{}", chunk?.text());
    }
    println!("\n{}", rest.final_message().await?.status);
    Ok(())
}
