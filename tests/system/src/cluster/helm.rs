//! The chart, installed by Helm's own program on the cluster of KUBECONFIG.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

use crate::cluster::installation::NAMESPACE;

/// Name of the release.
const RELEASE: &str = "rouse";

/// The registry that containerd gives the images that were loaded from files.
const REGISTRY: &str = "image.registry=docker.io";

/// The program, and a chart.
#[derive(Clone, Debug)]
pub struct Helm {
    program: OsString,
    chart: PathBuf,
}

// === impl Helm ===

impl Helm {
    /// The program that the variable HELM names, with the chart of this repository.
    ///
    /// # Errors
    /// When it is not set.
    pub fn from_environment() -> Result<Self> {
        Self::from_variable("HELM")
    }

    /// The program that this variable names, with the chart of this repository.
    ///
    /// # Errors
    /// When it is not set.
    pub fn from_variable(variable: &str) -> Result<Self> {
        let program =
            std::env::var_os(variable).with_context(|| format!("{variable} names no program of Helm"))?;
        Ok(Self { program, chart: docs::page::root().join("chart") })
    }

    /// The same program with another chart.
    #[must_use]
    pub fn with_chart(&self, chart: PathBuf) -> Self {
        Self { program: self.program.clone(), chart }
    }

    /// Installs the chart with these further arguments. Returns what Helm prints: the notes.
    ///
    /// # Errors
    /// When Helm fails, with what it printed.
    pub async fn install(&self, arguments: &[&str]) -> Result<String> {
        self.run("install", &[&["--create-namespace"], arguments].concat()).await
    }

    /// Upgrades the release, with the values that it has and these further arguments.
    ///
    /// # Errors
    /// When Helm fails.
    pub async fn upgrade(&self, arguments: &[&str]) -> Result<String> {
        self.run("upgrade", &[&["--reset-then-reuse-values"], arguments].concat()).await
    }

    /// Returns to a revision of the release; the first is 1.
    ///
    /// # Errors
    /// When Helm fails.
    pub async fn rollback(&self, revision: u32) -> Result<String> {
        self.run("rollback", &[&revision.to_string()]).await
    }

    /// Uninstalls the release.
    ///
    /// # Errors
    /// When Helm fails.
    pub async fn uninstall(&self) -> Result<String> {
        self.run("uninstall", &[]).await
    }

    /// The objects of the chart, rendered without a cluster.
    ///
    /// # Errors
    /// When Helm fails.
    pub async fn template(&self, arguments: &[&str]) -> Result<String> {
        self.run("template", arguments).await
    }

    async fn run(&self, command: &str, arguments: &[&str]) -> Result<String> {
        let mut helm = Command::new(&self.program);
        helm.args([command, RELEASE, "--namespace", NAMESPACE]).args(arguments);
        if !matches!(command, "uninstall" | "rollback") {
            helm.args(["--set", REGISTRY]).arg(&self.chart);
        }
        let output = helm.output().await.context("run helm")?;
        let printed =
            [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        ensure!(output.status.success(), "helm {command}: {}", printed.concat());
        Ok(printed.concat())
    }
}
