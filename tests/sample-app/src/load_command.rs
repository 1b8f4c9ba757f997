//! A load to send, from the command line or from the query of `/send`.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http::{HeaderName, HeaderValue};

/// Maximum duration of a load.
const MAX_SECONDS: f64 = 7200.0;
/// Maximum number of requests in flight.
pub(crate) const MAX_IN_FLIGHT: usize = 20_000;

/// A load: either a rate, independent of the responses, or a number of clients that each send their
/// next request after a response.
#[derive(clap::Args, Clone, Debug)]
#[command(group = clap::ArgGroup::new("shape").required(true).args(["rate", "concurrency"]))]
pub(crate) struct LoadCommand {
    /// URL of all requests: http://host:port/path
    #[arg(long)]
    pub(crate) url: http::Uri,
    /// Requests a second
    #[arg(long)]
    pub(crate) rate: Option<f64>,
    /// Concurrent requests
    #[arg(long)]
    pub(crate) concurrency: Option<usize>,
    /// Duration in seconds
    #[arg(long, visible_alias = "duration", default_value_t = 10.0)]
    pub(crate) seconds: f64,
    /// Milliseconds that the app takes for each request
    #[arg(long, default_value_t = 0)]
    pub(crate) work: u64,
    /// Open a connection for every request
    #[arg(long)]
    pub(crate) new_connections: bool,
    /// Send calls of gRPC, over HTTP/2
    #[arg(long)]
    pub(crate) grpc: bool,
    /// A header of each request, as name:value
    #[arg(long, value_parser = header)]
    pub(crate) header: Option<(HeaderName, HeaderValue)>,
    /// Seconds after which a request counts as failed
    #[arg(long, default_value_t = 60.0)]
    pub(crate) timeout: f64,
}

/// How requests are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum LoadShape {
    /// One request in each interval.
    Every(Duration),
    /// This many concurrent clients.
    Clients(usize),
}

fn header(text: &str) -> Result<(HeaderName, HeaderValue)> {
    let (name, value) = text.split_once(':').context("a header is written name:value")?;
    Ok((name.parse()?, value.parse()?))
}

// === impl LoadCommand ===

impl LoadCommand {
    /// Parses a query string.
    pub(crate) fn from_query(query: &str) -> Result<Self> {
        let mut command = Self {
            url: http::Uri::default(),
            rate: None,
            concurrency: None,
            seconds: 10.0,
            work: 0,
            new_connections: false,
            grpc: false,
            header: None,
            timeout: 60.0,
        };
        for (key, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            let bad = || format!("{key}={value}");
            match key {
                "url" => command.url = value.parse().with_context(bad)?,
                "rate" => command.rate = Some(value.parse().with_context(bad)?),
                "concurrency" => command.concurrency = Some(value.parse().with_context(bad)?),
                "seconds" => command.seconds = value.parse().with_context(bad)?,
                "work" => command.work = value.parse().with_context(bad)?,
                "newConnections" => command.new_connections = value.parse().with_context(bad)?,
                "grpc" => command.grpc = value.parse().with_context(bad)?,
                "header" => command.header = Some(header(value).with_context(bad)?),
                "timeout" => command.timeout = value.parse().with_context(bad)?,
                _ => anyhow::bail!("unknown parameter {key}"),
            }
        }
        Ok(command)
    }

    /// The validated shape.
    pub(crate) fn shape(&self) -> Result<LoadShape> {
        ensure!((0.0..=MAX_SECONDS).contains(&self.seconds), "seconds must be 0 to {MAX_SECONDS}");
        ensure!((0.001..=MAX_SECONDS).contains(&self.timeout), "timeout must be 0.001 to {MAX_SECONDS}");
        ensure!(self.url.host().is_some(), "url must be http://host[:port]/path");
        match (self.rate, self.concurrency) {
            (Some(rate), None) => {
                ensure!((0.01..=10_000.0).contains(&rate), "rate must be 0.01 to 10000");
                Ok(LoadShape::Every(Duration::from_secs_f64(1.0 / rate)))
            }
            (None, Some(clients)) => {
                ensure!((1..=MAX_IN_FLIGHT).contains(&clients), "concurrency must be 1 to {MAX_IN_FLIGHT}");
                Ok(LoadShape::Clients(clients))
            }
            _ => anyhow::bail!("exactly one of rate and concurrency is required"),
        }
    }

    /// For how long to send.
    pub(crate) fn duration(&self) -> Duration {
        Duration::try_from_secs_f64(self.seconds).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_query() {
        let command =
            LoadCommand::from_query("url=http://10.0.0.1:80/&rate=20&seconds=2&work=5&newConnections=true")
                .unwrap();
        assert_eq!(command.shape().unwrap(), LoadShape::Every(Duration::from_millis(50)));
        assert_eq!(
            (command.duration(), command.work, command.new_connections),
            (Duration::from_secs(2), 5, true)
        );
    }

    #[test]
    fn rejects_invalid_query() {
        for bad in [
            "rate=x",
            "url=http://a/&rate=1&concurrency=1",
            "url=http://a/",
            "rate=1",
            "url=http://a/&rate=0",
            "x=1",
        ] {
            let rejected = LoadCommand::from_query(bad).and_then(|command| command.shape()).is_err();
            assert!(rejected, "{bad}");
        }
    }
}
