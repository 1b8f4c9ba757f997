//! Simulated activators that lend slots over connections with latency, and random requests.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::num::NonZeroU32;

use proptest::prelude::*;

use super::*;
use crate::routing::pod_assignment::slot_share;

/// Latency of a message.
const LATENCY: Duration = Duration::from_millis(1);

type Lending = SlotLending<String, usize>;

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrival { activator: usize, service: Duration },
    Finished { activator: usize, slot: usize },
    Delivered { from: usize, to: usize, message: usize },
}

/// Simulation of activators and pods, with a queue of events.
struct Network {
    now: Duration,
    events: BinaryHeap<Reverse<(Duration, u64, Event)>>,
    scheduled: u64,
    activators: Vec<Activator>,
    messages: Vec<SlotMessage<String>>,
    slots: Vec<Option<Slot<String, usize>>>,
    /// Running requests of each pod.
    running: BTreeMap<String, u32>,
    container_concurrency: u32,
    /// (activator, pod) pairs in which the activator cannot reach the pod.
    cut: BTreeSet<(usize, String)>,
    /// Idle pods, and since when they are idle.
    idle_since: BTreeMap<String, Duration>,
    /// Longest time for which a request waited while the same pod was idle.
    longest_idle: Duration,
    waits: Vec<Duration>,
}

#[derive(Default)]
struct Activator {
    lending: Lending,
    /// (arrival, service time), in order of arrival.
    queue: VecDeque<(Duration, Duration)>,
}

impl Network {
    fn new(activators: usize, pods: usize, container_concurrency: u32) -> Self {
        let mut network = Self {
            now: Duration::from_secs(1_000),
            events: BinaryHeap::new(),
            scheduled: 0,
            activators: (0..activators).map(|_| Activator::default()).collect(),
            messages: Vec::new(),
            slots: Vec::new(),
            running: (0..pods).map(|i| (format!("pod-{i}"), 0)).collect(),
            container_concurrency,
            cut: BTreeSet::new(),
            idle_since: (0..pods).map(|i| (format!("pod-{i}"), Duration::ZERO)).collect(),
            longest_idle: Duration::ZERO,
            waits: Vec::new(),
        };
        network.assign();
        network
    }

    fn assign(&mut self) {
        let names: Vec<String> = (0..self.activators.len()).map(|i| format!("activator-{i}")).collect();
        let all = names.iter().map(String::as_str).collect();
        let pods = self.running.keys().map(String::as_str).collect();
        let cc = NonZeroU32::new(self.container_concurrency).unwrap();
        for (i, activator) in self.activators.iter_mut().enumerate() {
            let share = slot_share("shop/web", &pods, &all, cc, &names[i]);
            activator.lending.set_share(share.into_iter().map(|(pod, slots)| (pod.to_owned(), slots)));
            activator.lending.set_peers(&(0..names.len()).filter(|peer| *peer != i).collect());
            // Each activator has a third of the pods on its node, and another third in its zone.
            let near = [Proximity::Elsewhere, Proximity::SameZone, Proximity::SameNode];
            let located = self.running.keys().enumerate().map(|(n, pod)| (pod, near[(n + i) % near.len()]));
            let usable = located.filter(|(pod, _)| !self.cut.contains(&(i, pod.to_string())));
            activator.lending.set_usable(usable.map(|(pod, near)| (pod.clone(), near)).collect());
        }
    }

    fn at(&mut self, after: Duration, event: Event) {
        self.scheduled += 1;
        self.events.push(Reverse((self.now + after, self.scheduled, event)));
    }

    fn run(&mut self) {
        while let Some(Reverse((at, _, event))) = self.events.pop() {
            self.now = at;
            let activator = match event {
                Event::Arrival { activator, service } => {
                    self.activators[activator].queue.push_back((at, service));
                    activator
                }
                Event::Finished { activator, slot } => {
                    let slot = self.slots[slot].take().unwrap();
                    let running = self.running.get_mut(&slot.pod).unwrap();
                    *running -= 1;
                    if *running == 0 {
                        self.idle_since.insert(slot.pod.clone(), at);
                    }
                    self.activators[activator].lending.release(slot, at);
                    activator
                }
                Event::Delivered { from, to, message } => {
                    let message = self.messages[message].clone();
                    self.activators[to].lending.receive(&from, message, at);
                    to
                }
            };
            self.serve(activator);
        }
    }

    /// The call sequence of an activator after each event.
    fn serve(&mut self, id: usize) {
        while let Some((arrived, service)) = self.activators[id].queue.front().copied() {
            let lending = &mut self.activators[id].lending;
            let Some(slot) = lending.take(LoadBalancingPolicy::FirstAvailable) else { break };
            assert!(!self.cut.contains(&(id, slot.pod.clone())), "activator {id} cannot reach {}", slot.pod);
            self.record_idleness(&slot.pod, arrived);
            self.activators[id].queue.pop_front();
            self.waits.push(self.now - arrived);
            let running = self.running.get_mut(&slot.pod).unwrap();
            *running += 1;
            assert!(*running <= self.container_concurrency, "{} has {running} requests", slot.pod);
            self.slots.push(Some(slot));
            self.at(service, Event::Finished { activator: id, slot: self.slots.len() - 1 });
        }
        let activator = &mut self.activators[id];
        let oldest = activator.queue.front().map_or(self.now, |(arrived, _)| *arrived);
        activator.lending.set_waiting(WaitingRequests { requests: activator.queue.len() as u32, oldest });
        for (to, message) in activator.lending.settle(self.now) {
            self.messages.push(message);
            self.at(LATENCY, Event::Delivered { from: id, to, message: self.messages.len() - 1 });
        }
    }

    /// Updates `longest_idle` when a request that arrived at `arrived` takes a slot on `pod`: it
    /// may have waited beside another idle pod, and another request may have waited beside this
    /// pod.
    fn record_idleness(&mut self, pod: &str, arrived: Duration) {
        let together = |request: Duration, idle: Duration| self.now - request.max(idle);
        let elsewhere = self.idle_since.values().map(|idle| together(arrived, *idle)).max();
        let oldest =
            self.activators.iter().filter_map(|a| a.queue.front()).map(|(arrived, _)| *arrived).min();
        let idle = self.idle_since.get(pod);
        let here = oldest.zip(idle).map(|(request, idle)| together(request, *idle));
        self.longest_idle = self.longest_idle.max(elsewhere.max(here).unwrap_or_default());
        self.idle_since.remove(pod);
    }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn elsewhere(pods: &[&str]) -> BTreeMap<String, Proximity> {
    pods.iter().map(|pod| ((*pod).to_owned(), Proximity::Elsewhere)).collect()
}

proptest! {
    #[test]
    fn no_pod_is_idle_while_a_request_waits_or_exceeds_its_limit(
        activators in 1usize..6,
        pods in 1usize..8,
        container_concurrency in 1u32..4,
        arrivals in proptest::collection::vec((0u64..500, 0usize..6, 1u64..60), 1..150),
    ) {
        let mut network = Network::new(activators, pods, container_concurrency);
        let count = arrivals.len();
        for (at, activator, service) in arrivals {
            let activator = activator % activators;
            network.at(ms(at), Event::Arrival { activator, service: ms(service) });
        }
        network.run();
        prop_assert_eq!(network.waits.len(), count, "every request was served");
        // A Want and a Lend. Before that, the slot may have gone to each other activator and back.
        let longest = LATENCY * 2 * activators as u32;
        prop_assert!(network.longest_idle <= longest, "{:?}", network.longest_idle);
        // At the end, all slots are with their owners and no want is left.
        let free: usize = network.activators.iter().map(|a| a.lending.free_slots()).sum();
        prop_assert_eq!(free, pods * container_concurrency as usize);
        for activator in &network.activators {
            prop_assert!(activator.lending.peers.values().all(|p| p.lent.is_empty() && p.wants == 0));
        }
    }

    #[test]
    fn pods_that_some_activators_cannot_reach_are_used_by_others(
        activators in 2usize..5,
        pods in 2usize..8,
        container_concurrency in 1u32..4,
        cut in proptest::collection::btree_set((0usize..5, 1usize..8), 0..15),
        arrivals in proptest::collection::vec((0u64..300, 0usize..5, 1u64..60), 1..100),
    ) {
        let mut network = Network::new(activators, pods, container_concurrency);
        // All activators reach the first pod.
        network.cut = cut.into_iter().map(|(activator, pod)| (activator, format!("pod-{pod}"))).collect();
        network.assign();
        let count = arrivals.len();
        for (at, activator, service) in arrivals {
            network.at(ms(at), Event::Arrival { activator: activator % activators, service: ms(service) });
        }
        network.run();
        prop_assert_eq!(network.waits.len(), count, "every request was served");
        let free: usize = network.activators.iter().map(|a| a.lending.free_slots()).sum();
        prop_assert_eq!(free, pods * container_concurrency as usize);
        // An activator refuses each unusable slot at most once.
        let refused = network.messages.iter().filter(|m| matches!(m, SlotMessage::Refuse(_))).count();
        prop_assert!(refused <= activators * pods * container_concurrency as usize, "{} refusals", refused);
    }

    /// No message of a peer makes an activator panic or lend more slots than it has.
    #[test]
    fn arbitrary_messages_keep_the_number_of_slots(steps in proptest::collection::vec((0usize..4, 0u8..9, any::<u32>()), 0..100)) {
        let mut lending = Lending::default();
        lending.set_share([("pod-0".to_owned(), 2), ("pod-1".to_owned(), 1)]);
        lending.set_peers(&(0..3).collect());
        lending.set_usable([("pod-0".to_owned(), Proximity::SameNode), ("pod-2".to_owned(), Proximity::Elsewhere)].into());
        let mut used = Vec::new();
        for (step, (peer, action, n)) in steps.into_iter().enumerate() {
            let now = ms(step as u64);
            let pod = format!("pod-{}", n % 3);
            match action {
                0 => lending.receive(&peer, SlotMessage::Want { requests: n, oldest_millis: u64::from(n) << 20 }, now),
                1 => lending.receive(&peer, SlotMessage::Lend(pod), now),
                2 => lending.receive(&peer, SlotMessage::Return(pod), now),
                3 => used.extend(lending.take(LoadBalancingPolicy::FirstAvailable)),
                4 => lending.receive(&peer, SlotMessage::Refuse(pod), now),
                5 => lending.receive(&peer, SlotMessage::Accept(pod), now),
                6 => lending.receive(&peer, SlotMessage::Begin, now),
                _ => {
                    if let Some(slot) = used.pop() {
                        lending.release(slot, now);
                    }
                }
            }
            lending.set_waiting(WaitingRequests { requests: n % 4, oldest: now });
            lending.settle(now);
            let own = used.iter().filter(|slot| slot.lender.is_none()).count();
            let lent = lending.peers.values().flat_map(|ledger| ledger.lent.values()).sum::<u32>();
            prop_assert_eq!(lending.own.free_slots() + own + lent as usize, 3, "all 3 slots are accounted for");
            prop_assert!(lending.borrowed.len() <= 3);
        }
    }
}

/// knative/serving#13331 and #12734: all requests arrive at one activator with busy own slots.
#[test]
fn requests_at_one_activator_use_the_slots_of_all() {
    let mut network = Network::new(3, 20, 1);
    for _ in 0..20 {
        network.at(ms(0), Event::Arrival { activator: 0, service: ms(100) });
    }
    network.run();
    assert!(network.waits.iter().all(|wait| *wait <= 2 * LATENCY), "{:?}", network.waits);
}

#[test]
fn busy_owner_lends_to_peer_whose_request_waits_much_longer() {
    let mut network = Network::new(2, 1, 1);
    let owner = usize::from(network.activators[1].lending.free_slots() > 0);
    for i in 0..300 {
        network.at(ms(10 * i), Event::Arrival { activator: owner, service: ms(20) });
    }
    for i in 0..10 {
        network.at(ms(300 * i), Event::Arrival { activator: 1 - owner, service: ms(20) });
    }
    network.run();
    // The queue grows to 3 s. The borrower's requests wait at most about 1.25 times as long.
    let longest = network.waits.iter().max().unwrap();
    assert!(*longest < ms(4_200), "{longest:?}");
}

#[test]
fn equal_overload_needs_few_messages() {
    let mut network = Network::new(3, 6, 1);
    for i in 0..300 {
        network.at(ms(i / 3), Event::Arrival { activator: (i % 3) as usize, service: ms(30) });
    }
    network.run();
    // Each activator announces its want once, again when it doubles, and withdraws it at the end.
    assert!(network.messages.len() < 100, "{} messages for 300 requests", network.messages.len());
}

#[test]
fn slots_and_wants_of_a_lost_peer_are_void() {
    let mut lending = Lending::default();
    lending.set_share([("pod-0".to_owned(), 1)]);
    lending.set_usable(elsewhere(&["pod-0"]));
    lending.set_peers(&[1, 2].into());
    lending.receive(&1, SlotMessage::Want { requests: 5, oldest_millis: 9 }, ms(10));
    assert_eq!(lending.settle(ms(10)), [(1, SlotMessage::Lend("pod-0".to_owned()))]);
    assert_eq!(lending.free_slots(), 0);
    lending.set_peers(&[2].into());
    assert_eq!(lending.free_slots(), 1, "a slot lent to a lost peer is free again");
    assert_eq!(lending.settle(ms(10)), [], "the want of a lost peer is void");
    lending.receive(&1, SlotMessage::Return("pod-0".to_owned()), ms(11));
    assert_eq!(lending.free_slots(), 1, "a message of an unconnected peer is ignored");
}

#[test]
fn slot_of_a_lost_lender_is_dropped_on_release() {
    let mut lending = Lending::default();
    lending.set_peers(&[1].into());
    lending.set_usable(elsewhere(&["pod-0"]));
    lending.set_waiting(WaitingRequests { requests: 1, oldest: ms(0) });
    assert_eq!(lending.settle(ms(5)), [(1, SlotMessage::Want { requests: 1, oldest_millis: 5 })]);
    lending.receive(&1, SlotMessage::Lend("pod-0".to_owned()), ms(6));
    let slot = lending.take(LoadBalancingPolicy::FirstAvailable).unwrap();
    lending.set_waiting(WaitingRequests::default());
    lending.set_peers(&BTreeSet::new());
    lending.release(slot, ms(7));
    assert_eq!((lending.settle(ms(7)), lending.free_slots()), (Vec::new(), 0));
}

#[test]
fn slot_that_has_a_new_owner_is_dropped_on_release() {
    let mut lending = Lending::default();
    lending.set_share([("pod-0".to_owned(), 1), ("pod-1".to_owned(), 1)]);
    lending.set_usable(elsewhere(&["pod-0", "pod-1"]));
    let slot = lending.take(LoadBalancingPolicy::FirstAvailable).unwrap();
    assert_eq!(slot.pod, "pod-0");
    lending.set_share([("pod-1".to_owned(), 1)]);
    lending.release(slot, ms(1));
    assert_eq!((lending.settle(ms(1)), lending.free_slots()), (Vec::new(), 1));
    let taken = lending.take(LoadBalancingPolicy::FirstAvailable).map(|slot| slot.pod);
    assert_eq!((taken.as_deref(), lending.take(LoadBalancingPolicy::FirstAvailable)), (Some("pod-1"), None));
}

/// During a wake, an owner may lend a slot before the borrower can reach the new pod.
#[test]
fn slot_lent_before_the_pod_is_usable_is_refused_once_and_lent_later() {
    let pod = || "pod-0".to_owned();
    let (mut owner, mut holder) = (Lending::default(), Lending::default());
    owner.set_peers(&[1].into());
    holder.set_peers(&[0].into());
    owner.set_share([(pod(), 1)]);
    holder.set_waiting(WaitingRequests { requests: 1, oldest: ms(0) });
    let mut messages = Vec::new();
    let mut exchange = |owner: &mut Lending, holder: &mut Lending| loop {
        let (to_owner, to_holder) = (holder.settle(ms(1)), owner.settle(ms(1)));
        if to_owner.is_empty() && to_holder.is_empty() {
            return std::mem::take(&mut messages);
        }
        for (_, message) in to_owner {
            owner.receive(&1, message.clone(), ms(1));
            messages.push(message);
        }
        for (_, message) in to_holder {
            holder.receive(&0, message.clone(), ms(1));
            messages.push(message);
        }
    };
    let want = SlotMessage::Want { requests: 1, oldest_millis: 1 };
    assert_eq!(
        exchange(&mut owner, &mut holder),
        [want.clone(), SlotMessage::Lend(pod()), SlotMessage::Refuse(pod()), want]
    );
    holder.set_usable(elsewhere(&["pod-0"]));
    let messages = exchange(&mut owner, &mut holder);
    assert_eq!(messages[..2], [SlotMessage::Accept(pod()), SlotMessage::Lend(pod())]);
    assert_eq!(holder.take(LoadBalancingPolicy::FirstAvailable), Some(Slot { pod: pod(), lender: Some(0) }));
}

#[test]
fn begin_voids_loans_of_the_peer_and_announces_the_want_again() {
    let mut lending = Lending::default();
    lending.set_share([("pod-0".to_owned(), 1)]);
    lending.set_peers(&[1].into());
    lending.receive(&1, SlotMessage::Want { requests: 1, oldest_millis: 0 }, ms(1));
    lending.set_waiting(WaitingRequests { requests: 1, oldest: ms(1) });
    assert_eq!(lending.settle(ms(1)).len(), 2, "a slot of a pod that is set aside, and a want");
    lending.receive(&1, SlotMessage::Begin, ms(2));
    assert_eq!(lending.free_slots(), 1);
    assert_eq!(lending.settle(ms(2)), [(1, SlotMessage::Want { requests: 1, oldest_millis: 1 })]);
}

#[test]
fn container_concurrency_selects_the_load_balancing_policy() {
    let pods = [Proximity::Elsewhere; 3];
    assert_eq!(taken(3, &pods, 10), "111222333");
    assert_eq!(taken(4, &pods, 14), "123123123123");
}

#[test]
fn near_pods_come_first_among_those_that_are_equally_free() {
    use Proximity::{Elsewhere, SameNode, SameZone};
    assert_eq!(taken(1, &[Elsewhere, SameZone, SameNode, Elsewhere], 4), "3214");
    assert_eq!(taken(2, &[Elsewhere, SameNode], 4), "2211");
    // Pod 2 goes before pod 1 while it has as many free slots; then pod 1 is freer.
    assert_eq!(taken(4, &[Elsewhere, SameNode], 8), "21212121");
    assert_eq!(taken(4, &[Elsewhere, Elsewhere, Elsewhere, SameNode], 8), "41234123");
}

#[test]
fn sequential_requests_stay_on_a_near_pod_and_use_others_once_it_is_busy() {
    let mut lending = SlotLending::<u32, ()>::default();
    lending.set_share([(1, 4), (2, 4)]);
    lending.set_usable([(1, Proximity::Elsewhere), (2, Proximity::SameZone)].into());
    for _ in 0..5 {
        let slot = lending.take(LoadBalancingPolicy::RoundRobin).unwrap();
        assert_eq!(slot.pod, 2);
        lending.release(slot, ms(0));
    }
    let busy = lending.take(LoadBalancingPolicy::RoundRobin);
    assert_eq!(busy.map(|slot| slot.pod), Some(2));
    assert_eq!(lending.take(LoadBalancingPolicy::RoundRobin).map(|slot| slot.pod), Some(1));
}

/// The pods, in order, of `count` slots that are taken one after the other and kept.
fn taken(container_concurrency: u32, pods: &[Proximity], count: usize) -> String {
    let mut lending = SlotLending::<usize, ()>::default();
    lending.set_share((1..=pods.len()).map(|pod| (pod, container_concurrency)));
    lending.set_usable((1..).zip(pods.iter().copied()).collect());
    let policy =
        LoadBalancingPolicy::of_container_concurrency(NonZeroU32::new(container_concurrency).unwrap());
    (0..count).filter_map(|_| lending.take(policy)).map(|slot| slot.pod.to_string()).collect()
}
