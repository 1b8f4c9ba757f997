//! A command to attack, from the query of `/attack`.

use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use crate::attack::{Attack, UnknownAttack};

/// Most connections of one attack.
const MAX_CONNECTIONS: usize = 20_000;
/// Longest attack.
const MAX_SECONDS: f64 = 3600.0;

/// What to attack, how, and for how long.
#[derive(Clone, Debug, PartialEq)]
pub struct AttackCommand {
    /// What each client does.
    pub attack: Attack,
    /// Address of the attacked port. Forged statistics go to other ports of the same host.
    pub target: SocketAddr,
    /// Whether clients begin with a TLS handshake.
    pub tls: bool,
    /// Clients, each with one connection.
    pub connections: usize,
    /// For how long.
    pub duration: Duration,
}

/// The query is not a valid command.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum CommandError {
    #[error(transparent)]
    Attack(#[from] UnknownAttack),
    #[error("{0} is missing")]
    Missing(&'static str),
    #[error("invalid {0}")]
    Invalid(&'static str),
    #[error("unknown parameter {0:?}")]
    Unknown(String),
}

// === impl AttackCommand ===

impl AttackCommand {
    /// Parses a query string.
    ///
    /// # Errors
    /// When a parameter is missing, unknown or out of bounds.
    pub fn from_query(query: &str) -> Result<Self, CommandError> {
        let (mut attack, mut target) = (None, None);
        let (mut tls, mut connections, mut seconds) = (false, 1, 10.0);
        for (key, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            match key {
                "attack" => attack = Some(value.parse()?),
                "target" => target = Some(parsed("target", value)?),
                "tls" => tls = parsed("tls", value)?,
                "connections" => connections = parsed("connections", value)?,
                "seconds" => seconds = parsed("seconds", value)?,
                _ => return Err(CommandError::Unknown(key.to_owned())),
            }
        }
        if !(1..=MAX_CONNECTIONS).contains(&connections) {
            return Err(CommandError::Invalid("connections"));
        }
        if !(0.0..=MAX_SECONDS).contains(&seconds) {
            return Err(CommandError::Invalid("seconds"));
        }
        Ok(Self {
            attack: attack.ok_or(CommandError::Missing("attack"))?,
            target: target.ok_or(CommandError::Missing("target"))?,
            tls,
            connections,
            duration: Duration::from_secs_f64(seconds),
        })
    }

    /// The query string that [`from_query`](Self::from_query) parses.
    pub fn query(&self) -> String {
        let Self { attack, target, tls, connections, duration } = self;
        let seconds = duration.as_secs_f64();
        format!("attack={attack}&target={target}&tls={tls}&connections={connections}&seconds={seconds}")
    }
}

fn parsed<T: FromStr>(name: &'static str, value: &str) -> Result<T, CommandError> {
    value.parse().map_err(|_| CommandError::Invalid(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_parses_to_its_command() {
        let command = AttackCommand {
            attack: Attack::RapidReset,
            target: "[fd00::1]:6443".parse().unwrap(),
            tls: true,
            connections: 32,
            duration: Duration::from_millis(2500),
        };
        assert_eq!(AttackCommand::from_query(&command.query()).unwrap(), command);
    }

    #[test]
    fn rejects_invalid_query() {
        let valid = "attack=idle&target=10.0.0.1:80";
        assert!(AttackCommand::from_query(valid).is_ok());
        for bad in [
            "attack=idle".to_owned(),
            "target=10.0.0.1:80".to_owned(),
            "attack=x&target=10.0.0.1:80".to_owned(),
            "attack=idle&target=a:80".to_owned(),
            format!("{valid}&connections=0"),
            format!("{valid}&connections=20001"),
            format!("{valid}&seconds=-1"),
            format!("{valid}&seconds=NaN"),
            format!("{valid}&x=1"),
        ] {
            assert!(AttackCommand::from_query(&bad).is_err(), "{bad}");
        }
    }
}
