//! `ui`: a live page of all workloads, served on loopback with the user's rights.
//!
//! ```text
//!  browser ─► server ─► access (Host, token) ─► routes ─┬─► assets: the page itself
//!                                                       ├─► fleet: all workloads
//!                                                       └─► workload_view: one workload
//!  fleet         ◄── watch of PodAutoscalers; one request for all loads
//!  workload_view ◄── PodAutoscaler, history, `why`, events
//! ```
//!
//! The page polls; nothing is requested from the cluster but the watch while no page is open. It
//! only reads: no route writes to the cluster. Other users of the machine can connect to the port,
//! and web sites can make the browser do so; [`access`] refuses both.

mod access;
mod assets;
mod fleet;
mod loads;
mod routes;
mod server;
mod wakes;
mod workload_view;

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;

use kube::Api;
use kube::api::ListParams;
use serde::Serialize;
use tokio::net::TcpListener;

use crate::args::{OutputFormat, UiArgs};
use crate::check::cluster_version::ClusterVersion;
use crate::connection::Session;
use crate::error::CommandError;
use crate::output::write_json_line;
use access::Access;
use autoscaler::api::PodAutoscaler;
use fleet::Fleet;
use routes::Routes;

#[derive(Serialize)]
struct ServedPage<'a> {
    url: &'a str,
}

/// The page, with a port of its own.
#[derive(Debug)]
pub struct Page {
    listeners: Vec<TcpListener>,
    routes: Arc<Routes>,
    url: String,
}

/// Runs the command until Ctrl-C.
///
/// # Errors
/// When the workloads cannot be listed, or no port is free.
pub async fn run(
    args: UiArgs,
    session: &Session,
    format: OutputFormat,
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    let page = Page::bind(args, session).await?;
    match format {
        OutputFormat::Json => write_json_line(&ServedPage { url: &page.url }, out)?,
        OutputFormat::Text => {
            writeln!(
                out,
                "{}\nThe address is secret: with it, everybody on this machine sees what you may see.",
                page.url
            )?;
            writeln!(out, "Ctrl-C ends the page.")?;
        }
    }
    out.flush()?;
    tokio::select! {
        () = page.serve() => {}
        Ok(()) = tokio::signal::ctrl_c() => {}
    }
    Ok(())
}

// === impl Page ===

impl Page {
    /// Listens on loopback.
    ///
    /// # Errors
    /// As [`run`].
    pub async fn bind(args: UiArgs, session: &Session) -> Result<Self, CommandError> {
        let version = version(session).await?;
        may_list(session).await?;
        let (listeners, port) = server::bind(args.port).await?;
        let access = Access::random();
        let url = format!("http://127.0.0.1:{port}/{}/", access.token());
        let routes = Arc::new(Routes { access, fleet: Fleet::new(session.clone(), version) });
        Ok(Self { listeners, routes, url })
    }

    /// The address with its secret.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The addresses that it listens on.
    ///
    /// # Errors
    /// When the system does not report one.
    pub fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        self.listeners.iter().map(TcpListener::local_addr).collect()
    }

    /// Follows the workloads and serves the page, until dropped.
    pub async fn serve(self) {
        let watch = self.routes.fleet.clone().watch();
        tokio::join!(watch, server::serve(self.listeners, self.routes));
    }
}

/// Fails now rather than in the browser, with the exit code of a failed request.
async fn may_list(session: &Session) -> Result<(), CommandError> {
    let api: Api<PodAutoscaler> = session.selected();
    match api.list_metadata(&ListParams::default().limit(1)).await {
        Ok(_) => Ok(()),
        Err(error) if session.only_namespace.is_none() => Err(CommandError::request(
            "list PodAutoscalers of all namespaces (--namespace selects one)",
            error,
        )),
        Err(error) => Err(CommandError::request("list PodAutoscalers", error)),
    }
}

async fn version(session: &Session) -> Result<ClusterVersion, CommandError> {
    let info = session.client.apiserver_version().await;
    let info = info.map_err(|error| CommandError::request("version of the API server", error))?;
    // Newer than all rules if it is not a number: the version only hides advice.
    let newest = ClusterVersion { major: u32::MAX, minor: 0 };
    Ok(ClusterVersion::parse(&info.major, &info.minor).unwrap_or(newest))
}
