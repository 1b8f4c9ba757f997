//! Begins and ends faults.

use std::time::Duration;

use tokio::time::Instant;

use super::Simulation;
use crate::cluster::LEASE;
use crate::faults::{self, Fault, ZERO_SCALERS};
use crate::network::ProcessNetwork;
use crate::parts::zero_scaler::ZeroScaler;

/// How long a pod is in the slices as it was before its process ended or started.
const LISTED: Duration = Duration::from_secs(2);

// === impl Simulation ===

impl Simulation {
    /// Kills the process of an activator, unless another one does not serve either.
    fn kill_activator(&mut self, number: usize) {
        if self.activators.iter().any(|activator| !activator.is_alive || !activator.is_listed_ready) {
            return;
        }
        let activator = &mut self.activators[number];
        activator.is_alive = false;
        self.cluster.network.lock().activators.remove(&activator.ip);
        self.requests.activator_killed(number);
        let activator = &self.activators[number];
        for (zero_scaler, cut) in self.zero_scalers.iter_mut().zip(activator.cut) {
            zero_scaler.iter_mut().filter(|_| !cut).for_each(|it| it.disconnected(number, activator));
        }
        if !activator.cut[ZERO_SCALERS] {
            self.adapter.iter_mut().for_each(|adapter| adapter.disconnected(number));
        }
        self.relist_at = Some(Instant::now() + LISTED);
    }

    fn restart_activator(&mut self, number: usize) {
        let activator = &mut self.activators[number];
        if activator.is_alive {
            return;
        }
        activator.restart();
        self.cluster.network.lock().activators.insert(activator.ip);
        self.cluster.publish_activators(&self.activators);
        self.relist_at = Some(Instant::now() + LISTED);
    }

    /// Writes late to the slices which activators run.
    pub(super) fn relist_activators(&mut self) {
        if self.relist_at.is_some_and(|at| at <= Instant::now()) {
            self.relist_at = None;
            self.activators.iter_mut().for_each(|activator| activator.is_listed_ready = activator.is_alive);
            self.cluster.publish_activators(&self.activators);
        }
    }

    pub(super) fn begin_fault(&mut self, fault: &Fault) {
        let leaders: Vec<bool> = self.zero_scalers.iter().flatten().map(ZeroScaler::leads).collect();
        self.journal.note(format!("{fault:?} begins; leaders: {leaders:?}"));
        match *fault {
            Fault::ClockStep { process, by } => self.clocks[process].step(by),
            Fault::WatchesEnd { expire } => {
                self.cluster.api.break_watches(expire);
                (0..=ZERO_SCALERS).filter_map(|it| self.network(it)).for_each(|network| network.refuse(None));
            }
            Fault::CutReports { activator, receivers } => self.activators[activator].cut = receivers,
            Fault::CutDecisions { zero_scaler } => self.cut_decisions[zero_scaler] = true,
            Fault::ActivatorKilled { activator } => self.kill_activator(activator),
            Fault::ZeroScalerKilled { zero_scaler } => self.zero_scalers[zero_scaler] = None,
            Fault::AdapterKilled => self.adapter = None,
            Fault::LeaseDeleted => self.cluster.api.remove(LEASE),
            Fault::SlowProxy { node } => self.cluster.proxy_delays[node] = faults::proxy_delay(&mut self.rng),
            Fault::NoScrapes => self.readable = false,
            Fault::WatchDelay { process, .. }
            | Fault::Refuse { process, .. }
            | Fault::LostResponses { process, .. }
            | Fault::SlowWrites { process } => {
                self.network(process).into_iter().for_each(|network| set_network(network, fault, true));
            }
        }
    }

    pub(super) fn end_fault(&mut self, fault: &Fault) {
        self.journal.note(format!("{fault:?} ends"));
        match *fault {
            Fault::ClockStep { process, by } => self.clocks[process].step(-by),
            Fault::CutReports { activator, .. } => self.activators[activator].cut = Default::default(),
            Fault::CutDecisions { zero_scaler } => self.cut_decisions[zero_scaler] = false,
            Fault::ActivatorKilled { activator } => self.restart_activator(activator),
            Fault::ZeroScalerKilled { zero_scaler } if self.zero_scalers[zero_scaler].is_none() => {
                self.start_zero_scaler(zero_scaler);
            }
            Fault::AdapterKilled if self.adapter.is_none() => self.start_adapter(),
            Fault::SlowProxy { node } => self.cluster.proxy_delays[node] = Duration::ZERO,
            Fault::NoScrapes => self.readable = true,
            Fault::WatchDelay { process, .. }
            | Fault::Refuse { process, .. }
            | Fault::LostResponses { process, .. }
            | Fault::SlowWrites { process } => {
                self.network(process).into_iter().for_each(|network| set_network(network, fault, false));
            }
            _ => {}
        }
    }
}

/// Begins or ends a fault of one process's network.
fn set_network(network: &ProcessNetwork, fault: &Fault, begins: bool) {
    match *fault {
        Fault::WatchDelay { resource, .. } => {
            let longest = if begins { faults::LONGEST_WATCH_DELAY } else { Duration::ZERO };
            network.silence_watches(resource, Instant::now() + longest);
        }
        Fault::Refuse { status, part, .. } => network.refuse(begins.then_some((status, part))),
        Fault::LostResponses { part, .. } => network.lose_responses(if begins { part } else { 0.0 }),
        Fault::SlowWrites { .. } => network.slow_writes(begins),
        _ => {}
    }
}
