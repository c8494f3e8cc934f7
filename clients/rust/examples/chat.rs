//! Talks in the terminal, in one session: a line is a turn, Ctrl-D ends it. What was said is kept by the gateway.

use std::io::{BufRead, Write, stdin, stdout};

use tollgate_gateway::{Client, Message, SessionParams};

#[tokio::main]
async fn main() -> tollgate_gateway::Result<()> {
    let client = Client::from_env()?;
    let session = client.sessions().create(SessionParams::new().instructions("Be brief.")).await?;
    for line in stdin().lock().lines() {
        let mut stream = client.messages(&session.id).create(Message::text(line?)).await?;
        while let Some(chunk) = stream.next().await {
            print!("{}", chunk?.text());
            stdout().flush()?;
        }
        println!();
    }
    println!("{} tokens left", client.billing().balance().await?.available);
    Ok(())
}
