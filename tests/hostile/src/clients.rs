//! The clients of an attack.

use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::attack::Attack;
use crate::attacks::{datagrams, http1, http2, silent};
use crate::command::AttackCommand;
use crate::connector::{Connection, Connector};
use crate::tally::{AttackReport, Tally};

/// Between the end of a connection and the client's next one, so that a server that refuses costs
/// the attacker little.
const RECONNECT_PAUSE: Duration = Duration::from_millis(50);

/// Attacks until the duration is over. Dropping the future ends the attack.
///
/// # Errors
/// When the TLS client or a datagram socket cannot be made.
pub async fn run(command: AttackCommand) -> anyhow::Result<AttackReport> {
    raise_file_limit();
    let tally = Arc::new(Tally::default());
    let end = Instant::now() + command.duration;
    let mut clients = JoinSet::new();
    match command.attack {
        Attack::Datagrams => {
            clients.spawn(datagrams::flood(command.target, tally.clone()));
        }
        Attack::ForgedStatistics => {
            clients.spawn(datagrams::forge(command.target.ip(), tally.clone()));
        }
        attack => {
            let connector = Connector::new(command.target, command.tls, attack.is_http2())?;
            for number in 0..command.connections {
                clients.spawn(client(attack, number, connector.clone(), tally.clone()));
            }
        }
    }
    // Clients go on for ever, unless a socket cannot be made.
    if let Ok(Some(ended)) = tokio::time::timeout_at(end, clients.join_next()).await {
        ended??;
    }
    Ok(tally.report())
}

async fn client(
    attack: Attack,
    number: usize,
    connector: Connector,
    tally: Arc<Tally>,
) -> anyhow::Result<()> {
    loop {
        match connector.connect().await {
            Ok(connection) => {
                let held = tally.hold();
                perform(attack, number, connection, &tally).await;
                drop(held);
                tally.add_ended();
            }
            Err(_) => tally.add_refused(),
        }
        tokio::time::sleep(RECONNECT_PAUSE).await;
    }
}

/// Returns when the server ended the connection.
async fn perform(attack: Attack, number: usize, connection: Box<dyn Connection>, tally: &Tally) {
    match attack {
        Attack::Idle => silent::idle(connection, tally).await,
        Attack::HalfOpenHandshake => silent::half_open_handshake(connection, tally).await,
        Attack::HalfOpenHead => silent::half_open_head(connection, tally).await,
        Attack::DrippingHead => silent::dripping_head(connection, tally).await,
        Attack::HeaderFlood => http1::header_flood(connection, tally).await,
        Attack::Tokens => http1::tokens(connection, tally, number).await,
        Attack::SpoofedHeaders => http1::spoofed_headers(connection, tally).await,
        Attack::Reviews => http1::reviews(connection, tally).await,
        Attack::SilentHttp2
        | Attack::ContinuationFlood
        | Attack::RapidReset
        | Attack::UnfinishedStreams
        | Attack::PingFlood => http2::perform(attack, connection, tally).await,
        // They have no connections.
        Attack::Datagrams | Attack::ForgedStatistics => {}
    }
}

/// A container's soft limit may be 1,024 files. Where the limit cannot be raised, connections
/// beyond it are counted as refused.
fn raise_file_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
