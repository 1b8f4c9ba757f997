//! Attacks that a pod without credentials can make against any port that it reaches.
//!
//! The sample app runs them in a pod, by command of the hostile test in `tests/system`. An attack
//! uses many connections at a time, each by one client. A client whose connection ends opens
//! another, so that a server that closes connections of an attacker is attacked all the time.
//!
//! ```text
//!   AttackCommand ─► run ─► clients ─► attacks::{silent, http1, http2, datagrams} ─► target
//!                     └──────────────────── Tally ◄──────────┘
//! ```

#![deny(missing_docs)]

mod attack;
mod attacks;
mod clients;
mod command;
mod connector;
mod tally;

pub use attack::{Attack, UnknownAttack};
pub use clients::run;
pub use command::{AttackCommand, CommandError};
pub use tally::AttackReport;
