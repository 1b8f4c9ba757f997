//! A client that upgrades its connection to an echo protocol, on the raw connection.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{Harness, within};

impl Harness {
    /// A connection on which the upgrade is requested.
    pub async fn send_upgrade(&self) -> TcpStream {
        let mut client = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        let head = "GET /upgrade HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n";
        client.write_all(head.as_bytes()).await.unwrap();
        client
    }
}

/// Reads the response's head, and nothing behind it.
pub async fn read_head(client: &mut TcpStream) -> Vec<u8> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(within("head", client.read_u8()).await.unwrap());
    }
    head
}

/// Expects that the upgrade is accepted, and that the app echoes.
pub async fn expect_echo_tunnel(client: &mut TcpStream) {
    let head = read_head(client).await;
    assert!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
    client.write_all(b"ping").await.unwrap();
    let mut echo = [0; 4];
    within("echo", client.read_exact(&mut echo)).await.unwrap();
    assert_eq!(&echo, b"ping");
}
