//! The longest possible time-out means no limit.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc;
use std::time::Duration;

use tollgate_gateway::Client;

#[tokio::test]
async fn a_time_out_may_be_endless() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (go, went) = mpsc::channel();
    std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        assert_ne!(socket.read(&mut [0; 4096]).unwrap(), 0);
        socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n").unwrap();
        went.recv().unwrap();
        socket.write_all(b"text").unwrap();
    });
    let timeout = Duration::MAX;
    let builder = Client::builder().api_key("tg_live_secret").base_url(url);
    let client = builder.connect_timeout(timeout).idle_timeout(timeout).answer_timeout(timeout).build().unwrap();
    let mut download = client.files().content("file_1").await.unwrap();
    // The second half runs when the first has no data yet and waits.
    let (piece, ()) = tokio::join!(download.next(), async { go.send(()).unwrap() });
    assert_eq!(piece.unwrap().unwrap(), "text");
}
