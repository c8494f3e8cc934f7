//! How streams end, where the cases of all clients do not reach.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc;

use tollgate_gateway::{Client, Error, Message};

/// Answers each connection with the next answer, then with none. Reports each request that came.
fn server<const N: usize>(answers: [&'static str; N]) -> (Client, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        for answer in answers {
            let (mut socket, _) = listener.accept().unwrap();
            let mut request = [0; 4096];
            let length = socket.read(&mut request).unwrap();
            let line = String::from_utf8_lossy(&request[..length]).lines().next().map(str::to_owned);
            tell.send(line.unwrap_or_default()).unwrap();
            socket.write_all(format!("HTTP/1.1 {answer}").as_bytes()).unwrap();
        }
    });
    (Client::builder().api_key("tg_live_secret").base_url(url).build().unwrap(), told)
}

#[tokio::test]
async fn a_message_that_is_read_for_its_end_is_tried_as_often_as_its_stream() {
    let busy = "503 Busy\r\nconnection: close\r\nretry-after-ms: 1\r\ncontent-length: 0\r\n\r\n";
    let ended = "204 No Content\r\nconnection: close\r\n\r\n";
    let (client, told) = server([ended, busy, busy]);
    let mut stream = client.messages("sess_1").resume("msg_1", None).max_retries(0).await.unwrap();
    let end = stream.next().await.unwrap();
    assert!(matches!(end, Err(Error::Server(error)) if error.partial_text.as_deref() == Some("")));
    let told: Vec<_> = told.try_iter().collect();
    assert_eq!(told.len(), 2, "{told:?}");
}

#[tokio::test]
async fn a_cancel_that_could_not_be_sent_makes_no_cancel_of_somebody_else_the_own() {
    let nameless = concat!(
        "200 OK\r\nconnection: close\r\ncontent-type: text/event-stream\r\n\r\n",
        "data: {\"error\":{\"type\":\"conflict_error\",\"code\":\"message_cancelled\"}}\n\n",
    );
    let (client, _told) = server([nameless]);
    let mut stream = client.messages("sess_1").create(Message::text("Hi")).await.unwrap();
    assert!(matches!(stream.cancel().await, Err(Error::Config(_))));
    let end = stream.next().await;
    assert!(matches!(end, Some(Err(Error::Conflict(_)))), "{end:?}");
}

#[tokio::test]
async fn a_place_that_no_header_can_carry_leaves_the_stream_incomplete() {
    let cut = concat!(
        "200 OK\r\nconnection: close\r\ncontent-type: text/event-stream\r\n\r\n",
        "id: \u{1}:1\ndata: {\"choices\":[{\"delta\":{\"content\":\"Hello\"}}]}\n\n",
    );
    let (client, _told) = server([cut]);
    let mut stream = client.messages("sess_1").create(Message::text("Hi")).await.unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap().text(), "Hello");
    let end = stream.next().await.unwrap().unwrap_err();
    assert!(matches!(end, Error::IncompleteStream(_)), "{end:?}");
    assert_eq!(end.partial_text(), Some("Hello"));
}
