//! Generates the requests of a [`Load`], second by second.
//!
//! The simulation calls it at each whole second and at the end of each request, and schedules the
//! returned requests. Every property of a request is drawn from a random generator of its own, so
//! open-loop traffic does not depend on the scaler under test.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::clock::Time;
use crate::load::service_time::{ServiceTime, exponential};
use crate::load::{Load, LoadKind, Modulation};
use crate::workload::request::{Request, RequestResult};

const SECOND: Duration = Duration::from_secs(1);
/// Pause of a client after a refused request.
const BACK_OFF: Duration = Duration::from_secs(1);

/// Generator of requests.
#[derive(Debug)]
pub struct Arrivals {
    load: Load,
    service_time: ServiceTime,
    client_timeout: Duration,
    random: StdRng,
    next_id: u64,
    /// Current and target number of clients.
    clients: u32,
    wanted: u32,
    /// Fraction of a request that a paced load carries over to the next second.
    owed: f64,
    /// The modulation's own generator, whether a burst goes on, and when that ends.
    modulating: StdRng,
    in_burst: bool,
    until: Time,
}

// === impl Arrivals ===

impl Arrivals {
    /// A generator before its first request.
    pub fn new(load: Load, service_time: ServiceTime, client_timeout: Duration, seed: u64) -> Self {
        let random = StdRng::seed_from_u64(seed);
        // Of another seed, so that a load without bursts stays as it is.
        let modulating = StdRng::seed_from_u64(!seed);
        Self {
            load,
            service_time,
            client_timeout,
            random,
            next_id: 0,
            clients: 0,
            wanted: 0,
            owed: 0.0,
            modulating,
            in_burst: true,
            until: Time::ZERO,
        }
    }

    /// Changes the service time of requests that arrive from now on.
    pub fn set_service_time(&mut self, service_time: ServiceTime) {
        self.service_time = service_time;
    }

    /// The requests that arrive in the second from `now`.
    pub fn second(&mut self, now: Time) -> Vec<Request> {
        let noise = self.random.random_range(-1.0..=1.0);
        let level = self.load.profile.at(now, noise) * self.modulation(now);
        let mut instants = match self.load.kind {
            LoadKind::Clients => self.clients(level, now),
            LoadKind::Paced => self.paced(level, now),
            LoadKind::Poisson => self.poisson(level, now),
        };
        let repeats = self.load.kind == LoadKind::Clients;
        let mut requests: Vec<_> = instants.drain(..).map(|at| self.request(at, repeats)).collect();
        let bursts: Vec<_> =
            self.load.bursts.iter().filter(|(at, _)| (now..now + SECOND).contains(at)).copied().collect();
        for (at, size) in bursts {
            requests.extend((0..size).map(|_| self.request(at, false)));
        }
        requests
    }

    /// The next request of a client whose last one has ended; `None` if the client leaves.
    pub fn next_of(&mut self, request: &Request, outcome: RequestResult, now: Time) -> Option<Request> {
        if !request.repeats {
            return None;
        }
        if self.clients > self.wanted {
            self.clients -= 1;
            return None;
        }
        let pause = if outcome == RequestResult::Refused { BACK_OFF } else { Duration::ZERO };
        Some(self.request(now + pause, true))
    }

    /// Factor on the level of the second from `now`. A run begins between two bursts.
    fn modulation(&mut self, now: Time) -> f64 {
        let Some(Modulation { every, length, factor }) = self.load.modulation else { return 1.0 };
        while self.until <= now {
            self.in_burst = !self.in_burst;
            let mean = if self.in_burst { length } else { every };
            // A state lasts a second at least: that is the step of the level.
            self.until += mean.mul_f64(exponential(&mut self.modulating)).max(SECOND);
        }
        if self.in_burst { factor } else { 1.0 }
    }

    fn clients(&mut self, level: f64, now: Time) -> Vec<Time> {
        // Surplus clients leave when their request has ended.
        self.wanted = level.round() as u32;
        let come = self.wanted.saturating_sub(self.clients);
        self.clients += come;
        vec![now; come as usize]
    }

    fn paced(&mut self, level: f64, now: Time) -> Vec<Time> {
        self.owed += level;
        let count = self.owed.floor();
        self.owed -= count;
        (0..count as u32).map(|i| now + SECOND.mul_f64((f64::from(i) + 0.5) / count)).collect()
    }

    fn poisson(&mut self, level: f64, now: Time) -> Vec<Time> {
        let mut instants = Vec::new();
        // Exponential gaps are memoryless, so each second starts anew. At level 0 the first gap is
        // infinite.
        let mut at = exponential(&mut self.random) / level;
        while at < 1.0 {
            instants.push(now + Duration::from_secs_f64(at));
            at += exponential(&mut self.random) / level;
        }
        instants
    }

    fn request(&mut self, arrived: Time, repeats: bool) -> Request {
        self.next_id += 1;
        Request {
            id: self.next_id,
            arrived,
            work: self.service_time.draw(&mut self.random),
            mean_work: self.service_time.mean(),
            deadline: arrived + self.client_timeout,
            repeats,
            activator: None,
            started: arrived,
            lender: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Profile;

    fn arrivals(load: Load) -> Arrivals {
        Arrivals::new(load, ServiceTime::Constant(SECOND), SECOND * 60, 7)
    }

    fn at(second: u64) -> Time {
        Duration::from_secs(second)
    }

    #[test]
    fn clients_start_at_once_and_surplus_clients_leave_after_a_request() {
        let mut arrivals = arrivals(Load::clients(Profile::constant(3.0).step(at(5), 1.0)));
        let first = arrivals.second(at(0));
        assert_eq!(first.len(), 3);
        assert!(arrivals.second(at(1)).is_empty(), "no second start of the same clients");
        assert!(arrivals.next_of(&first[0], RequestResult::Served, at(1)).is_some());
        arrivals.second(at(5));
        assert!(arrivals.next_of(&first[1], RequestResult::Served, at(5)).is_none());
        assert!(arrivals.next_of(&first[2], RequestResult::Served, at(5)).is_none());
        assert!(arrivals.next_of(&first[0], RequestResult::Served, at(5)).is_some());
    }

    #[test]
    fn client_pauses_after_a_refused_request() {
        let mut arrivals = arrivals(Load::clients(Profile::constant(1.0)));
        let request = arrivals.second(at(0))[0];
        assert_eq!(
            arrivals.next_of(&request, RequestResult::Refused, at(0)).map(|r| r.arrived),
            Some(BACK_OFF)
        );
    }

    #[test]
    fn open_loop_loads_have_the_mean_of_their_level() {
        for load in [Load::paced(Profile::constant(2.5)), Load::poisson(Profile::constant(2.5))] {
            let mut arrivals = arrivals(load.clone());
            let total: usize = (0..10_000).map(|second| arrivals.second(at(second)).len()).sum();
            assert!((24_500..=25_500).contains(&total), "{total} of {load:?}");
        }
        assert!(arrivals(Load::poisson(Profile::constant(0.0))).second(at(0)).is_empty());
    }

    #[test]
    fn bursts_arrive_once_and_at_their_instant() {
        let burst_at = Duration::from_millis(2300);
        let mut arrivals = arrivals(Load::none().burst(burst_at, 50));
        let requests: Vec<_> = (0..5).flat_map(|second| arrivals.second(at(second))).collect();
        assert_eq!(requests.len(), 50);
        assert!(requests.iter().all(|request| request.arrived == burst_at && !request.repeats));
    }
}
