//! Websocket connections between two libraries, from the opening to the closing handshake.

use std::net::SocketAddr;

use futures::{SinkExt, StreamExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, accept_async, connect_async};

use crate::through_each;

/// A server that echoes all messages.
async fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                // A probe connects without sending a handshake.
                let Ok(mut socket) = accept_async(stream).await else { return };
                while let Some(Ok(message)) = socket.next().await {
                    if message.is_text() || message.is_binary() {
                        socket.send(message).await.unwrap();
                    }
                }
            });
        }
    });
    address
}

async fn connect(proxy: SocketAddr) -> WebSocketStream<MaybeTlsStream<TcpStream>> {
    connect_async(format!("ws://{proxy}/chat")).await.unwrap().0
}

#[tokio::test]
async fn relays_messages_until_the_closing_handshake() {
    through_each(echo().await, async |proxy| {
        let mut socket = connect(proxy).await;
        let large = vec![7; 1 << 20];
        for message in [Message::text("hello"), Message::binary(large), Message::text("")] {
            socket.send(message.clone()).await.unwrap();
            assert_eq!(socket.next().await.unwrap().unwrap(), message);
        }
        socket.send(Message::Ping("ping".into())).await.unwrap();
        assert_eq!(socket.next().await.unwrap().unwrap(), Message::Pong("ping".into()));
        let close_frame = CloseFrame { code: CloseCode::Normal, reason: "done".into() };
        socket.close(Some(close_frame.clone())).await.unwrap();
        assert_eq!(socket.next().await.unwrap().unwrap(), Message::Close(Some(close_frame)));
        assert!(socket.next().await.is_none());
    })
    .await;
}

#[tokio::test]
async fn keeps_hundred_concurrent_connections_separate() {
    through_each(echo().await, async |proxy| {
        let connections = (0..100).map(async |number| {
            let mut socket = connect(proxy).await;
            for turn in 0..10 {
                let message = Message::text(format!("{number}: {turn}"));
                socket.send(message.clone()).await.unwrap();
                assert_eq!(socket.next().await.unwrap().unwrap(), message);
            }
        });
        futures::future::join_all(connections).await;
    })
    .await;
}
