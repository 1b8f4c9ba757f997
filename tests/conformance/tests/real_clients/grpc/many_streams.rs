//! Many streams at a time on one connection.

use futures::future::join_all;
use tokio::sync::Barrier;

use super::*;

/// Streams that one connection of a client has open at a time.
const STREAMS: usize = 1000;

#[tokio::test]
async fn thousand_open_streams_share_a_connection() {
    let (app, _) = Echo::serve().await;
    through_each(app, async |proxy| {
        let client = client(proxy).await;
        // Every stream has an answer before the first one ends.
        let all_open = Barrier::new(STREAMS);
        let streams = (0..STREAMS).map(async |number| {
            let mut client = client.clone();
            client.ready().await.unwrap();
            let (sender, mut messages) = mpsc::channel::<Bytes>(1);
            let request = Request::new(stream::poll_fn(move |cx| messages.poll_recv(cx)));
            let word = Bytes::from(format!("word {number}"));
            sender.send(word.clone()).await.unwrap();
            let response = client.streaming(request, method(service::CHAT), BytesCodec).await;
            let mut responses = response.unwrap().into_inner();
            assert_eq!(responses.message().await.unwrap().unwrap(), word);
            all_open.wait().await;
            sender.send(word.clone()).await.unwrap();
            assert_eq!(responses.message().await.unwrap().unwrap(), word);
            drop(sender);
            assert!(responses.message().await.unwrap().is_none());
        });
        join_all(streams).await;
    })
    .await;
}
