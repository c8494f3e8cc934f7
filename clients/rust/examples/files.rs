//! Uploads the file that its argument names, or itself, and downloads it again, showing how far it is.

use tollgate_gateway::{Client, SessionParams, Upload};

#[tokio::main]
async fn main() -> tollgate_gateway::Result<()> {
    let path = std::env::args().nth(1).map_or_else(std::env::current_exe, |path| Ok(path.into()))?;
    let client = Client::from_env()?;
    let session = client.sessions().create(SessionParams::new()).await?;
    let upload = Upload::path(path).on_progress(|bytes, total| {
        let total = total.unwrap_or(bytes).max(1);
        print!("\r{} % up", 100 * bytes / total);
    });
    let file = client.files().upload(&session.id, upload).await?;
    println!("\n{} {} {}", file.id, file.content_type, file.sha256);

    let mut download = client.files().content(&file.id).on_progress(|bytes, _| print!("\r{bytes} bytes down")).await?;
    let size = download.write_to(&mut tokio::io::sink()).await?;
    println!("\n{} has {size} bytes", download.filename().unwrap_or_default());
    client.sessions().delete(&session.id).await
}
