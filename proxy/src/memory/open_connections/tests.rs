use std::time::Duration;

use tokio::time::{advance, timeout};

use super::*;

/// A permit with a count that shows its drop.
type Permit = Arc<()>;

fn connections() -> Arc<OpenConnections<Permit>> {
    OpenConnections::new(Instant::now())
}

async fn add(to: &Arc<OpenConnections<Permit>>) -> ConnectionPlace<Permit> {
    advance(Duration::from_millis(10)).await;
    to.add(Arc::new(()))
}

fn closed(places: &[ConnectionPlace<Permit>]) -> Vec<usize> {
    (0..places.len()).filter(|&at| places[at].connection.is_closed()).collect()
}

#[tokio::test(start_paused = true)]
async fn closes_connections_in_the_order_of_their_last_use() {
    let connections = connections();
    let places = [add(&connections).await, add(&connections).await, add(&connections).await];
    drop(places[0].activity().begin_request());
    advance(Duration::from_millis(LAST_BYTES)).await;
    let order = [vec![1], vec![1, 2], vec![0, 1, 2]];
    for expected in order {
        assert!(connections.close_longest_idle());
        assert_eq!(closed(&places), expected);
    }
    assert!(!connections.close_longest_idle());
}

#[tokio::test(start_paused = true)]
async fn connection_is_not_idle_until_its_last_bytes_have_left() {
    let connections = connections();
    let place = add(&connections).await;
    let requests = [place.activity(), place.activity()].map(|activity| activity.begin_request());
    let [first, second] = requests;
    drop(first);
    advance(2 * Duration::from_millis(LAST_BYTES)).await;
    assert!(!connections.close_longest_idle(), "a request of HTTP/2 still runs");
    drop(second);
    assert!(!connections.close_longest_idle(), "the response may not have left");
    advance(Duration::from_millis(LAST_BYTES)).await;
    assert!(connections.close_longest_idle());
}

#[tokio::test(start_paused = true)]
async fn closed_connection_has_no_permits_and_begins_no_request() {
    let connections = connections();
    let permits = [Arc::new(()), Arc::new(()), Arc::new(())];
    let place = connections.add(permits[0].clone());
    place.keep_http2(permits[1].clone());
    assert!(timeout(Duration::from_millis(1), place.closed()).await.is_err());
    assert!(connections.close_longest_idle());
    place.closed().await;
    place.keep_http2(permits[2].clone());
    assert!(permits.iter().all(|permit| Arc::strong_count(permit) == 1));
    assert!(place.activity().begin_request().is_none());
}

#[tokio::test(start_paused = true)]
async fn ended_connection_leaves_the_order_wherever_it_is() {
    let connections = connections();
    let (used, unused) = (add(&connections).await, add(&connections).await);
    let request = used.activity().begin_request();
    assert!(connections.longest_idle().is_some(), "a search moves the used connection");
    let permit = used.connection.permits.lock().of_connection.clone().unwrap();
    drop((used, request, unused));
    assert!(connections.order.lock().by_position.is_empty());
    assert_eq!(Arc::strong_count(&permit), 1);
}

#[tokio::test(start_paused = true)]
async fn search_is_bounded_and_continues_where_it_ended() {
    let connections = connections();
    let mut running = Vec::new();
    for _ in 0..MAX_EXAMINED {
        let place = add(&connections).await;
        running.push((place.activity().begin_request(), place));
    }
    let idle = add(&connections).await;
    assert!(!connections.close_longest_idle());
    assert!(connections.close_longest_idle());
    assert!(idle.connection.is_closed());
}
