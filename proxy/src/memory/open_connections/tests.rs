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
    (0..places.len()).filter(|&at| places[at].is_closed()).collect()
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
    let permit = used.0.place.lock().of_connection.clone().unwrap();
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
    assert!(idle.is_closed());
}

#[tokio::test(start_paused = true)]
async fn moved_connection_is_closed_for_its_new_list_alone() {
    let (from, to) = (connections(), connections());
    let permits = [Arc::new(()), Arc::new(())];
    let place = from.add(permits[0].clone());
    let activity = place.activity();
    let request = activity.begin_request();
    activity.move_to(&to, permits[1].clone());
    assert_eq!(permits.each_ref().map(Arc::strong_count), [1, 2]);
    assert!(activity.holds(|permit| Arc::ptr_eq(permit, &permits[1])));
    drop(request);
    advance(Duration::from_millis(LAST_BYTES)).await;
    assert!(!from.close_longest_idle());
    assert!(to.close_longest_idle());
    assert!(place.is_closed());
    assert_eq!(Arc::strong_count(&permits[1]), 1);
}

#[tokio::test(start_paused = true)]
async fn moved_connections_do_not_replace_each_other() {
    let (first, second, to) = (connections(), connections(), connections());
    let places = [first.add(Arc::new(())), second.add(Arc::new(()))];
    for place in &places {
        let _request = place.activity().begin_request();
        place.activity().move_to(&to, Arc::new(()));
    }
    assert_eq!(to.order.lock().by_position.len(), 2, "both had the number 0 in their lists");
    drop(places);
    assert!(to.order.lock().by_position.is_empty());
}

#[tokio::test(start_paused = true)]
async fn ended_connection_does_not_move() {
    let (from, to) = (connections(), connections());
    let place = from.add(Arc::new(()));
    let activity = place.activity();
    let _request = activity.begin_request();
    drop(place);
    let permit = Arc::new(());
    activity.move_to(&to, permit.clone());
    assert!(!activity.holds(|_| true));
    assert_eq!(Arc::strong_count(&permit), 1);
    assert!(to.order.lock().by_position.is_empty());
}
