//! Several activators that share the pods of one workload, each in a runtime of its own, so that
//! one can be lost as a whole.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use activator::slots::slot_exchange::SlotExchangeConfig;
use autoscaler::settings::SidecarMode;
use component_base::auth::{ProjectedToken, TokenGuard};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;

use super::pod::FakePod;
use super::{Harness, LIMITS, eventually, free_port, without_sidecar};

pub struct Group {
    pub members: Vec<Member>,
    pub pods: Vec<FakePod>,
    container_concurrency: u32,
    pod_port: u16,
    sidecar: SidecarMode,
    /// The addresses behind the Service of the activators.
    addresses: watch::Sender<BTreeSet<SocketAddr>>,
}

/// An activator. It is lost when this is dropped.
pub struct Member {
    pub harness: Harness,
    pub address: SocketAddr,
    runtime: Option<Runtime>,
}

impl Group {
    /// Activators that are connected to each other, and pods that they have not seen yet.
    pub async fn start(activators: usize, pods: u8, container_concurrency: u32) -> Self {
        Self::with(SidecarMode::Required, activators, pods, container_concurrency).await
    }

    /// The same, with pods without a queue-proxy.
    pub async fn without_sidecars(activators: usize, pods: u8, container_concurrency: u32) -> Self {
        Self::with(SidecarMode::None, activators, pods, container_concurrency).await
    }

    async fn with(sidecar: SidecarMode, activators: usize, pods: u8, container_concurrency: u32) -> Self {
        let pod_port = free_port();
        let mut group = Self {
            members: Vec::new(),
            pods: Vec::new(),
            container_concurrency,
            pod_port,
            sidecar,
            addresses: watch::Sender::default(),
        };
        for pod in 1..=pods {
            group.pods.push(match sidecar {
                SidecarMode::Required => FakePod::ready(&pod_ip(pod), pod_port).await,
                SidecarMode::None => FakePod::plain_ready(&pod_ip(pod), pod_port).await,
            });
        }
        for _ in 0..activators {
            group.join().await;
        }
        group.connected().await;
        group
    }

    /// One more activator, which is ready at once.
    pub async fn join(&mut self) {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (activators, pod_port) = (self.addresses.subscribe(), self.pod_port);
        let (number, container_concurrency) = (self.members.len() + 1, self.container_concurrency);
        let sidecar = self.sidecar;
        let started = runtime.spawn(async move {
            let listener = TcpListener::bind(format!("127.0.9.{number}:0")).await.unwrap();
            let address = listener.local_addr().unwrap();
            let (guard, token) = (TokenGuard::allow_all(), ProjectedToken::default());
            let config = SlotExchangeConfig { own: address.ip(), listener, guard, token, activators };
            let harness = Harness::at(Some(config), pod_port, LIMITS, |workload| {
                workload.container_concurrency = container_concurrency;
                if !sidecar.is_required() {
                    without_sidecar(workload);
                }
            });
            (address, harness.await)
        });
        let (address, harness) = started.await.unwrap();
        self.members.push(Member { harness, address, runtime: Some(runtime) });
        self.addresses.send_modify(|addresses| {
            addresses.insert(address);
        });
    }

    /// Completes when all activators are connected to each other and have applied all changes.
    pub async fn connected(&self) {
        for member in &self.members {
            let others = (self.members.len() - 1) as f64;
            eventually("activators are connected", || async {
                member.harness.metric("rouse_activator_peer_connections") == others
            })
            .await;
        }
        for member in &self.members {
            member.harness.settled().await;
        }
    }

    /// Sends all pods to all activators.
    pub async fn see_pods(&self) {
        for member in &self.members {
            for pod in 1..=self.pods.len() {
                let ip = pod_ip(pod as u8);
                match self.sidecar {
                    SidecarMode::Required => member.harness.pod_seen(&ip, true).await,
                    SidecarMode::None => member.harness.plain_pod_seen(&ip, true, Value::Null).await,
                }
            }
            member.harness.settled().await;
        }
    }

    /// Takes an activator out of the Service.
    pub fn leave(&self, member: &Member) {
        self.addresses.send_modify(|addresses| {
            addresses.remove(&member.address);
        });
    }

    pub fn close_gates(&self) {
        self.pods.iter().for_each(FakePod::close_gate);
    }

    pub fn release(&self, each: usize) {
        self.pods.iter().for_each(|pod| pod.release(each));
    }

    /// Completes when every pod has so many requests.
    pub async fn until_each_runs(&self, count: usize) {
        let running = || self.pods.iter().map(FakePod::running).collect::<Vec<_>>();
        eventually("all pods run", || async { running().iter().all(|running| *running == count) }).await;
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

pub fn pod_ip(number: u8) -> String {
    format!("127.0.3.{number}")
}
