//! What to send: from the command line, or from the query of `/send`.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http::{HeaderName, HeaderValue};

/// Longest order.
const LONGEST: f64 = 7200.0;
/// Most requests in flight of one order.
pub(crate) const MOST_IN_FLIGHT: usize = 20_000;

/// Requests to be sent. Either a rate (whatever the answers do) or a number of callers (each sends its next request when the
/// one before was answered).
#[derive(clap::Args, Clone, Debug)]
#[command(group = clap::ArgGroup::new("pace").required(true).args(["rate", "concurrency"]))]
pub(crate) struct Order {
    /// Where to: http://host:port/path
    #[arg(long)]
    pub(crate) url: http::Uri,
    /// Requests a second.
    #[arg(long)]
    pub(crate) rate: Option<f64>,
    /// Requests at a time.
    #[arg(long)]
    pub(crate) concurrency: Option<usize>,
    /// For how long to send.
    #[arg(long, visible_alias = "duration", default_value_t = 10.0)]
    pub(crate) seconds: f64,
    /// Milliseconds that the app is asked to take for each request.
    #[arg(long, default_value_t = 0)]
    pub(crate) work: u64,
    /// A connection of its own for every request.
    #[arg(long)]
    pub(crate) new_connections: bool,
    /// A header of each request, as name:value.
    #[arg(long, value_parser = header)]
    pub(crate) header: Option<(HeaderName, HeaderValue)>,
    /// Seconds after which a request counts as failed.
    #[arg(long, default_value_t = 60.0)]
    pub(crate) timeout: f64,
}

/// How fast.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Pace {
    /// One request each so often.
    Every(Duration),
    /// So many at a time.
    Callers(usize),
}

fn header(text: &str) -> Result<(HeaderName, HeaderValue)> {
    let (name, value) = text.split_once(':').context("a header is written name:value")?;
    Ok((name.parse()?, value.parse()?))
}

// === impl Order ===

impl Order {
    /// The order in a query string.
    pub(crate) fn from_query(query: &str) -> Result<Self> {
        let mut order = Self {
            url: http::Uri::default(),
            rate: None,
            concurrency: None,
            seconds: 10.0,
            work: 0,
            new_connections: false,
            header: None,
            timeout: 60.0,
        };
        for (key, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            let bad = || format!("{key}={value}");
            match key {
                "url" => order.url = value.parse().with_context(bad)?,
                "rate" => order.rate = Some(value.parse().with_context(bad)?),
                "concurrency" => order.concurrency = Some(value.parse().with_context(bad)?),
                "seconds" => order.seconds = value.parse().with_context(bad)?,
                "work" => order.work = value.parse().with_context(bad)?,
                "newConnections" => order.new_connections = value.parse().with_context(bad)?,
                "header" => order.header = Some(header(value).with_context(bad)?),
                "timeout" => order.timeout = value.parse().with_context(bad)?,
                _ => anyhow::bail!("{key} is not known"),
            }
        }
        Ok(order)
    }

    /// How fast, checked.
    pub(crate) fn pace(&self) -> Result<Pace> {
        ensure!((0.0..=LONGEST).contains(&self.seconds), "seconds must be 0 to {LONGEST}");
        ensure!((0.001..=LONGEST).contains(&self.timeout), "timeout must be 0.001 to {LONGEST}");
        ensure!(self.url.host().is_some(), "url must be http://host[:port]/path");
        match (self.rate, self.concurrency) {
            (Some(rate), None) => {
                ensure!((0.01..=10_000.0).contains(&rate), "rate must be 0.01 to 10000");
                Ok(Pace::Every(Duration::from_secs_f64(1.0 / rate)))
            }
            (None, Some(callers)) => {
                ensure!((1..=MOST_IN_FLIGHT).contains(&callers), "concurrency must be 1 to {MOST_IN_FLIGHT}");
                Ok(Pace::Callers(callers))
            }
            _ => anyhow::bail!("one of rate and concurrency is needed"),
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
    fn a_query_is_an_order() {
        let order = Order::from_query("url=http://10.0.0.1:80/&rate=20&seconds=2&work=5&newConnections=true")
            .unwrap();
        assert_eq!(order.pace().unwrap(), Pace::Every(Duration::from_millis(50)));
        assert_eq!((order.duration(), order.work, order.new_connections), (Duration::from_secs(2), 5, true));
    }

    #[test]
    fn a_bad_query_is_refused() {
        for bad in [
            "rate=x",
            "url=http://a/&rate=1&concurrency=1",
            "url=http://a/",
            "rate=1",
            "url=http://a/&rate=0",
            "x=1",
        ] {
            let refused = Order::from_query(bad).and_then(|order| order.pace()).is_err();
            assert!(refused, "{bad}");
        }
    }
}
