//! Uploads a file and downloads it again with reqwest, the file streamed from the disk. Prints what it saw as JSON.

use reqwest::header::{CONTENT_RANGE, LOCATION, RANGE};
use reqwest::multipart::{Form, Part};
use reqwest::Client;
use serde_json::{json, Value};
use sha2::{Digest, Sha256};
use std::error::Error;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let told = std::env::args().nth(1).ok_or("no ask")?;
    let ask: Value = serde_json::from_str(&told)?;
    let text = |name: &str| ask[name].as_str().unwrap_or_default().to_owned();
    let client = Client::new();

    let file = Part::file(text("path")).await?.file_name(text("name"));
    let form = Form::new()
        .text("session_id", text("session"))
        .part("file", file)
        .text("sha256", text("sha256"));
    let sent = client
        .post(text("url") + "/api/files/upload")
        .bearer_auth(text("key"))
        .multipart(form)
        .send()
        .await?;
    let status = sent.status().as_u16();
    let location = sent.headers().get(LOCATION).map(|value| value.to_str().map(str::to_owned));
    let answer: Value = sent.json().await?;
    let mut came = json!({
        "status": status, "answer": answer,
        "whole": null, "part": null, "partStatus": null, "contentRange": null,
    });
    if let Some(path) = location {
        let url = text("url") + &path?;
        let whole = client.get(&url).bearer_auth(text("key")).send().await?;
        came["whole"] = json!(digest(&whole.bytes().await?));
        let part = client.get(&url).bearer_auth(text("key")).header(RANGE, text("range"));
        let part = part.send().await?;
        came["partStatus"] = json!(part.status().as_u16());
        if let Some(range) = part.headers().get(CONTENT_RANGE) {
            came["contentRange"] = json!(range.to_str()?);
        }
        came["part"] = json!(digest(&part.bytes().await?));
    }
    println!("{came}");
    Ok(())
}

fn digest(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}
