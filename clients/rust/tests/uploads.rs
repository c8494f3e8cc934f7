//! What arrives from a reader whose length was given: all of it, or an error.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;

use tollgate_gateway::{Client, Error, Result, Upload};

/// Takes one upload, whatever happens to it.
fn serve() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(socket.try_clone().unwrap());
        let mut length = 0;
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            reader.read_line(&mut line).unwrap();
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
                length = value.trim().parse().unwrap();
            }
        }
        if reader.read_exact(&mut vec![0; length]).is_ok() {
            let answer = r#"{"id":"file_1","object":"file","bytes":4,"created_at":0,"filename":"a"}"#;
            write!(socket, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{answer}", answer.len()).unwrap();
        }
    });
    url
}

async fn upload(told: u64, text: &'static str) -> Result<()> {
    let gate = Client::builder().api_key("tg_live_secret").base_url(serve()).build()?;
    // The total is there from the first piece on.
    let tell = move |_, total| assert_eq!(total, Some(told));
    let file = Upload::reader("a.txt", text.as_bytes()).length(told).on_progress(tell);
    gate.files().upload("sess_1", file).await.map(drop)
}

#[tokio::test]
async fn a_reader_gives_as_much_as_was_told_or_is_an_error() {
    upload(4, "text").await.unwrap();
    assert!(matches!(upload(5, "text").await, Err(Error::Io(_))));
    assert!(matches!(upload(3, "text").await, Err(Error::Io(_))));
}
