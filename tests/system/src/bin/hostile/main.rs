//! `make test-hostile`: a pod without credentials attacks every port of every part, while a victim
//! has a steady load and workloads at zero are woken.
//!
//! Each line of the result is one attack on all its ports at once, for a minute; with `--short` by
//! fewer connections, for some seconds. A line meets its bounds when no request of the victim
//! failed, wakes were at most twice as slow as before (eight times with `--short`), no container of
//! Rouse restarted, and each stayed within its memory limit. Invalid tokens come from eight pods,
//! and the activators are replaced meanwhile: the reports of the new ones are accepted within 15 s.
//! The exit code is not zero when a bound is missed.
//!
//! `make test-system` runs the short form on the cluster of its tests. It attacks the webhook for
//! the sidecar only where the webhook is served already, because it takes minutes to replace
//! metrics-adapters. NetworkPolicies are opened for as long as it takes, so that the programs' own
//! bounds are tested.

mod args;
mod attacker;
mod containers;
mod outcome;
mod rollout;
mod sleepers;
mod table;
mod targets;
mod victim;
mod webhook;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use hostile::{Attack, AttackCommand};
use kube::Client;
use system_tests::cluster::namespace::TestNamespace;
use system_tests::cluster::{installation, network_policies};
use system_tests::traffic::load;
use tokio::time::Instant;

use crate::args::{Args, Strength};
use crate::attacker::Attacker;
use crate::containers::Containers;
use crate::outcome::Outcome;
use crate::sleepers::Sleepers;
use crate::table::{Row, TABLE};
use crate::victim::Victim;
use crate::webhook::ServedWebhook;

/// Time for all components to become available.
const UP: Duration = Duration::from_secs(120);
/// Time for an attack to open its connections.
const BUILD_UP: Duration = Duration::from_secs(1);

/// The attacked installation and what is observed.
struct Scene {
    namespace: TestNamespace,
    attacker: Attacker,
    victim: Victim,
    sleepers: Sleepers,
    /// Milliseconds of a wake without an attack.
    wake_before: f64,
    strength: Strength,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Args::parse()).await {
        Ok(outcomes) => {
            print!("\n{}", outcome::table(&outcomes));
            let missed = outcomes.iter().filter(|outcome| !outcome.missed().is_empty()).count();
            println!("{missed} of {} attacks had an effect", outcomes.len());
            if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            println!("\n{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Attacks an installation that no NetworkPolicy protects.
async fn run(args: &Args) -> Result<Vec<Outcome>> {
    let client = component_base::kubernetes::client("hostile", env!("CARGO_PKG_VERSION")).await?;
    network_policies::open_installation(&client).await?;
    let webhook = ServedWebhook::start(&client, !args.short).await?;
    let selects =
        |row: &&Row| args.selects(row.attack) && (row.attack != Attack::Reviews || webhook.is_some());
    let rows: Vec<&Row> = TABLE.iter().filter(selects).collect();
    let outcomes = attack_all(args, &rows, client.clone()).await;
    if let Some(webhook) = webhook {
        webhook.end().await?;
    }
    network_policies::close_installation(&client).await?;
    outcomes
}

async fn attack_all(args: &Args, rows: &[&Row], client: Client) -> Result<Vec<Outcome>> {
    let mut scene = Scene::prepare(client, args.strength()).await?;
    let mut outcomes = Vec::new();
    for row in rows {
        let outcome = scene.attack(row).await.with_context(|| row.to_string())?;
        println!("{outcome}");
        outcomes.push(outcome);
    }
    scene.attacker.remove().await?;
    scene.namespace.delete().await?;
    Ok(outcomes)
}

// === impl Scene ===

impl Scene {
    async fn prepare(client: Client, strength: Strength) -> Result<Self> {
        installation::until_ready(&client, UP).await?;
        installation::set_grace_period(&client, "1s").await?;
        let namespace = TestNamespace::create(client.clone(), "rouse-hostile-victim").await?;
        let attacker = Attacker::start(client).await?;
        let mut victim = Victim::start(&namespace).await?;
        let mut sleepers = Sleepers::create(&namespace).await?;
        let wake_before = sleepers.wake_all(&namespace).await?;
        let noticed = victim.noticed().await?;
        println!("before the attacks: a wake takes {wake_before:.0} ms, {noticed:?}");
        Ok(Self { namespace, attacker, victim, sleepers, wake_before, strength })
    }

    async fn attack(&mut self, row: &Row) -> Result<Outcome> {
        self.sleepers.until_next_at_zero(&self.namespace).await?;
        let before = Containers::read(&self.namespace).await?;
        let has_tokens = row.attack == Attack::Tokens;
        let running = self.attacker.attack(&self.commands(row).await?, has_tokens);
        let client = self.namespace.client.clone();
        let replaced = (has_tokens && self.strength.replaces_activators).then_some("activator");
        let replacement = async {
            let Some(part) = replaced else { return Ok(()) };
            tokio::time::sleep(BUILD_UP).await;
            rollout::replace(&client, part).await
        };
        let end = Instant::now() + self.strength.duration;
        let (wake, reports) = tokio::join!(self.wakes_until(end), replacement);
        let reports = reports.inspect_err(|error| println!("  rollout: {error:#}"));
        let report = running.finish().await?;
        let noticed = self.victim.noticed().await?;
        let after = Containers::read(&self.namespace).await?;
        Ok(Outcome {
            name: row.to_string(),
            report,
            noticed,
            wake: wake.map(|ms| ms / self.wake_before),
            slower_wake: self.strength.slower_wake,
            late_reports: reports.is_err(),
            memory: after.fullest().cloned(),
            restarts: after.without(replaced).restarts_since(&before.without(replaced)),
        })
    }

    /// One command for each address of each port.
    async fn commands(&self, row: &Row) -> Result<Vec<AttackCommand>> {
        let attack = row.attack;
        let mut commands = Vec::new();
        for port in row.ports {
            for target in targets::addresses(*port, &self.namespace, victim::NAME).await? {
                commands.push(AttackCommand {
                    attack,
                    target,
                    tls: port.needs_tls(attack),
                    connections: self.strength.connections(attack),
                    duration: self.strength.duration,
                });
            }
        }
        Ok(commands)
    }

    /// Wakes workloads while the attack lasts, at least one. Returns the median in milliseconds, or
    /// nothing if a wake failed.
    async fn wakes_until(&mut self, end: Instant) -> Option<f64> {
        tokio::time::sleep(BUILD_UP).await;
        let mut taken = Vec::new();
        loop {
            match self.sleepers.wake_next(&self.namespace).await {
                Ok(ms) => taken.push(ms),
                Err(error) => {
                    println!("  wake: {error:#}");
                    return None;
                }
            }
            let next_wake = Instant::now() + self.strength.wake_interval;
            tokio::time::sleep_until(next_wake.min(end)).await;
            let next = tokio::time::timeout_at(end, self.sleepers.until_next_at_zero(&self.namespace));
            match next.await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    println!("  scale to zero: {error:#}");
                    return None;
                }
                Err(_) => return Some(load::quantile(&taken, 0.5)),
            }
        }
    }
}
