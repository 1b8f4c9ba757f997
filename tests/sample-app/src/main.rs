//! The app that the demo and the tests scale, and the client that sends its requests: one small static binary for both.

mod client;
mod order;
mod send;
mod serve;

use clap::{Parser, Subcommand};

/// A tiny app to be scaled, and its client.
#[derive(Parser, Debug)]
#[command(version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Answer every request 200, after as long as it asks for (`?work=MILLISECONDS`).
    Serve(serve::Args),
    /// Take orders to send requests: GET /send?url=..&rate=..|concurrency=..&seconds=..&work=..&newConnections=..
    Client(client::Args),
    /// Send requests now and print one JSON line for each.
    Send(order::Order),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    match Args::parse().command {
        Command::Serve(args) => serve::run(args).await,
        Command::Client(args) => client::run(args).await,
        Command::Send(order) => send::print(order).await,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn is_accepted(line: &str) -> bool {
        Args::try_parse_from(line.split(' ')).is_ok()
    }

    #[test]
    fn an_order_has_one_pace() {
        Args::command().debug_assert();
        assert!(is_accepted("sample-app send --url http://a/ --rate 5 --seconds 2 --work 7"));
        assert!(is_accepted(
            "sample-app send --url http://a/ --concurrency 5 --duration 2 --new-connections"
        ));
        assert!(!is_accepted("sample-app send --url http://a/ --rate 5 --concurrency 5"));
        assert!(!is_accepted("sample-app send --url http://a/"));
    }
}
