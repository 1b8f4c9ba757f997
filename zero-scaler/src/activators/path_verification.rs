//! Whether activators are in the path of workloads that would go to zero: asked beside the looks.
//!
//! Input: a look at a workload that stands before zero, and its Service's doors. Output: what was found, with another look that is asked
//! for when it is there. An answer that never comes takes half a second, for each of a thousand workloads if a network policy
//! shuts us out; no look waits for it, so no look of a neighbour does. Who was not proven is asked again later each time.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use autoscaler::Key;
use parking_lot::Mutex;
use prometheus::IntCounterVec;
use runtime::retry;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::activators::path_probe::{PathProber, ProbedAddress, verify_path};
use crate::cache::work_queue::WorkQueue;

/// Workloads that are asked for at a time; the others wait.
const AT_A_TIME: usize = 64;
/// How old a proof may be when the last pod goes.
const FRESH: Duration = Duration::from_secs(2);
/// Until a question that failed is put again.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The same, however often it failed.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The workloads that are asked for.
pub struct PathVerifications {
    prober: Arc<dyn PathProber>,
    looks: Arc<WorkQueue>,
    answers: IntCounterVec,
    places: Arc<Semaphore>,
    inquiries: Mutex<HashMap<Key, Inquiry>>,
}

/// What is to be found out.
#[derive(Clone, Debug, PartialEq)]
pub struct VerificationRequest {
    /// The Service's, all of which have to lead to activators.
    pub doors: Vec<ProbedAddress>,
    /// Whether its endpoints are ours.
    pub managed: bool,
}

/// What is known of a workload's path.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PathVerification {
    /// What was found last, or what stood against it; `None` while nothing is known.
    pub outcome: Option<Result<(), String>>,
    /// When to look again; `None` where an answer asks for it.
    pub again: Option<Duration>,
}

/// A question that was put.
struct Inquiry {
    question: VerificationRequest,
    /// How often in a row it had failed before.
    failures: u32,
    /// What stood against it then.
    before: Option<String>,
    found: Found,
    _asks: AbortOnDropHandle<()>,
}

/// The answer, when it is there.
type Found = Arc<Mutex<Option<Answer>>>;

#[derive(Clone)]
struct Answer {
    at: Instant,
    verification: Result<(), String>,
}

// === impl Proofs ===

impl fmt::Debug for PathVerifications {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PathVerifications").finish_non_exhaustive()
    }
}

impl PathVerifications {
    /// Nobody is asked for yet. Answers are counted, and `looks` are asked for when they come.
    pub fn new(prober: Arc<dyn PathProber>, looks: Arc<WorkQueue>, answers: IntCounterVec) -> Self {
        let places = Arc::new(Semaphore::new(AT_A_TIME));
        Self { prober, looks, answers, places, inquiries: Mutex::default() }
    }

    /// What is known; asks if that is not enough. A proof is given out once.
    pub fn of(&self, key: &Key, question: VerificationRequest) -> PathVerification {
        let mut inquiries = self.inquiries.lock();
        let Some(known) = inquiries.remove(key).filter(|known| known.question == question) else {
            inquiries.insert(key.clone(), self.inquire(key, question, 0, None));
            return PathVerification::default();
        };
        let answer = known.found.lock().clone();
        match answer {
            None => {
                let outcome = known.before.clone().map(Err);
                inquiries.insert(key.clone(), known);
                PathVerification { outcome, again: None }
            }
            Some(Answer { at, verification: Ok(()) }) if at.elapsed() <= FRESH => {
                PathVerification { outcome: Some(Ok(())), again: None }
            }
            Some(Answer { verification: Ok(()), .. }) => {
                inquiries.insert(key.clone(), self.inquire(key, question, 0, None));
                PathVerification::default()
            }
            Some(Answer { at, verification: Err(error) }) => {
                let pause = retry::delay_after(known.failures, FIRST_PAUSE, LONGEST_PAUSE);
                let rest = pause.saturating_sub(at.elapsed());
                let due = rest.is_zero();
                let next = if due {
                    self.inquire(key, question, known.failures.saturating_add(1), Some(error.clone()))
                } else {
                    known
                };
                inquiries.insert(key.clone(), next);
                PathVerification { outcome: Some(Err(error)), again: (!due).then_some(rest) }
            }
        }
    }

    /// The workload does not stand before zero.
    pub fn forget(&self, key: &Key) {
        self.inquiries.lock().remove(key);
    }

    /// Frees the memory of workloads that are gone; to be called now and then.
    pub fn prune(&self, exists: impl Fn(&Key) -> bool) {
        self.inquiries.lock().retain(|key, _| exists(key));
    }

    fn inquire(
        &self,
        key: &Key,
        question: VerificationRequest,
        failures: u32,
        before: Option<String>,
    ) -> Inquiry {
        let found = Found::default();
        let asks = self.asks(key.clone(), question.clone(), found.clone());
        let asks = AbortOnDropHandle::new(tokio::spawn(asks));
        Inquiry { question, failures, before, found, _asks: asks }
    }

    fn asks(
        &self,
        key: Key,
        question: VerificationRequest,
        found: Found,
    ) -> impl Future<Output = ()> + Send + use<> {
        let (prober, looks) = (self.prober.clone(), self.looks.clone());
        let (answers, places) = (self.answers.clone(), self.places.clone());
        async move {
            let Ok(_place) = places.acquire().await else { return };
            let verification = verify_path(prober.as_ref(), &question.doors, &key, question.managed).await;
            answers.with_label_values(&[if verification.is_ok() { "passed" } else { "failed" }]).inc();
            let verification = verification.map_err(|error| error.to_string());
            *found.lock() = Some(Answer { at: Instant::now(), verification });
            looks.enqueue(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use autoscaler::Protocol;
    use futures::future::BoxFuture;
    use futures::{FutureExt, StreamExt, pin_mut};
    use prometheus::Opts;
    use tokio::time::{advance, sleep};

    use super::*;
    use crate::activators::path_probe::ProbeError;

    /// A network in which a question is lost, until it is not.
    #[derive(Debug, Default)]
    struct Lossy {
        open: AtomicBool,
        asked: AtomicUsize,
    }

    impl PathProber for Lossy {
        fn ask<'a>(&'a self, door: &'a ProbedAddress, _: &'a Key) -> BoxFuture<'a, Result<(), ProbeError>> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            Box::pin(async {
                if self.open.load(Ordering::Relaxed) {
                    return Ok(());
                }
                sleep(Duration::from_millis(500)).await;
                Err(ProbeError::Timeout(door.address))
            })
        }
    }

    fn verifications(network: &Arc<Lossy>) -> (PathVerifications, Arc<WorkQueue>) {
        let looks = Arc::new(WorkQueue::default());
        let answers = IntCounterVec::new(Opts::new("probes", "probes"), &["answer"]).unwrap();
        (PathVerifications::new(network.clone(), looks.clone(), answers), looks)
    }

    fn question() -> VerificationRequest {
        let door = ProbedAddress {
            address: SocketAddr::from(([10, 96, 0, 1], 80)),
            protocol: Protocol::Http,
            activator_port: 20000,
            activators: Vec::new(),
        };
        VerificationRequest { doors: vec![door], managed: true }
    }

    #[tokio::test(start_paused = true)]
    async fn no_look_waits_for_those_whom_nobody_answers_and_they_are_asked_less_and_less() {
        let network = Arc::new(Lossy::default());
        let (verifications, looks) = verifications(&network);
        let all: Vec<Key> = (0..200).map(|i| Key::new("shop", format!("web-{i}"))).collect();
        let began = Instant::now();
        for key in &all {
            assert_eq!(verifications.of(key, question()), PathVerification::default());
        }
        assert!(began.elapsed().is_zero());
        sleep(Duration::from_millis(400)).await;
        assert_eq!(network.asked.load(Ordering::Relaxed), AT_A_TIME);
        sleep(Duration::from_millis(1700)).await;
        assert_eq!(network.asked.load(Ordering::Relaxed), all.len());
        let told = looks.stream();
        pin_mut!(told);
        for _ in &all {
            assert!(told.next().now_or_never().is_some(), "a look is asked for when an answer is there");
        }
        // One of them, looked at again and again.
        network.asked.store(0, Ordering::Relaxed);
        for _ in 0..3600 {
            let verification = verifications.of(&all[0], question());
            assert!(matches!(verification.outcome, Some(Err(_))), "{verification:?}");
            advance(Duration::from_millis(100)).await;
            tokio::task::yield_now().await;
        }
        let asked = network.asked.load(Ordering::Relaxed);
        assert!((12..=17).contains(&asked), "{asked} times in six minutes");
    }

    #[tokio::test(start_paused = true)]
    async fn a_proof_is_given_out_once_and_only_while_it_is_fresh() {
        let network = Arc::new(Lossy { open: true.into(), ..Lossy::default() });
        let ((verifications, _), key) = (verifications(&network), Key::new("shop", "web"));
        let proven = PathVerification { outcome: Some(Ok(())), again: None };
        assert_eq!(verifications.of(&key, question()), PathVerification::default());
        sleep(Duration::from_millis(1)).await;
        assert_eq!(verifications.of(&key, question()), proven);
        assert_eq!(
            verifications.of(&key, question()),
            PathVerification::default(),
            "it was for one decision"
        );
        sleep(FRESH + Duration::from_millis(100)).await;
        assert_eq!(
            verifications.of(&key, question()),
            PathVerification::default(),
            "much may have happened since"
        );
        sleep(Duration::from_millis(1)).await;
        let other = VerificationRequest { managed: false, ..question() };
        assert_eq!(
            verifications.of(&key, other.clone()),
            PathVerification::default(),
            "it is about another path"
        );
        verifications.forget(&key);
        assert_eq!(verifications.of(&key, other), PathVerification::default());
        verifications.prune(|_| false);
        assert!(verifications.inquiries.lock().is_empty());
    }
}
