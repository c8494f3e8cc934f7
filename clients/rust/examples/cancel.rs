//! Stops an answer after its first words: the gateway stops generating, and says what it cost.

use tollgate_gateway::{Client, Message, SessionParams};

#[tokio::main]
async fn main() -> tollgate_gateway::Result<()> {
    let client = Client::from_env()?;
    let session = client.sessions().create(SessionParams::new()).await?;
    let mut stream = client.messages(&session.id).create(Message::text("Tell a long story.")).await?;
    let mut is_stopped = false;
    while let Some(chunk) = stream.next().await {
        print!("{}", chunk?.text());
        if !is_stopped && !stream.partial_text().is_empty() {
            stream.cancel().await?;
            is_stopped = true;
        }
    }
    let message = stream.final_message().await?;
    println!("\n{}, {} tokens", message.status, message.cost.unwrap_or_default());
    Ok(())
}
