//! The app that the demo and the tests scale, and the client that sends its requests: one small
//! static binary.

mod client;
mod grpc;
mod load_command;
mod model;
mod request_cost;
mod send;
mod serve;

use clap::{Parser, Subcommand};

/// A small HTTP app and its client
#[derive(Parser, Debug)]
#[command(version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Respond to every request with 200, after `?work=MILLISECONDS`, with `?bytes=NUMBER` of body,
    /// to calls of gRPC with their message, and to `/v1/chat/completions?tokens=NUMBER` with tokens
    /// as server-sent events; send back what an upgraded connection sends
    Serve(serve::ServeArgs),
    /// Receive commands to send load: GET
    /// /send?url=..&rate=..|concurrency=..&seconds=..&work=..&newConnections=..&grpc=.. or to
    /// attack: GET /attack?attack=..&target=IP:PORT&tls=..&connections=..&seconds=..
    Client(client::ClientArgs),
    /// Send a load now and print one line of JSON for each request
    Send(load_command::LoadCommand),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    match Args::parse().command {
        Command::Serve(args) => serve::run(args).await,
        Command::Client(args) => client::run(args).await,
        Command::Send(command) => send::print(command).await,
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
    fn load_has_either_rate_or_concurrency() {
        Args::command().debug_assert();
        assert!(is_accepted("sample-app send --url http://a/ --rate 5 --seconds 2 --work 7"));
        assert!(is_accepted(
            "sample-app send --url http://a/ --concurrency 5 --duration 2 --new-connections"
        ));
        assert!(!is_accepted("sample-app send --url http://a/ --rate 5 --concurrency 5"));
        assert!(!is_accepted("sample-app send --url http://a/"));
    }
}
