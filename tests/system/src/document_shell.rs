//! The commands of documents, run as a reader runs them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use docs::block::Block;
use docs::page::Page;

use crate::cluster::kubectl;

/// Seconds that the commands of one block may take.
const BLOCK_TIMEOUT: &str = "400";

/// Runs commands in a directory, with a kubeconfig for one namespace.
#[derive(Debug)]
pub struct DocumentShell {
    directory: PathBuf,
    path: String,
}

// === impl DocumentShell ===

impl DocumentShell {
    /// A shell for a namespace. Its directory is created, and stays.
    ///
    /// # Errors
    /// Without a kubeconfig, or a kubectl.
    pub fn new(directory: &Path, namespace: &str) -> Result<Self> {
        fs::create_dir_all(directory)?;
        let shell = Self { directory: directory.to_owned(), path: kubectl::path()? };
        let original = std::env::var("KUBECONFIG").context("KUBECONFIG")?;
        fs::copy(&original, shell.kubeconfig()).context(original)?;
        shell.execute(&format!("kubectl config set-context --current --namespace={namespace}"))?;
        Ok(shell)
    }

    /// Writes the files of a page, and runs its blocks that are marked to run.
    ///
    /// # Errors
    /// With the place of the first block that fails.
    pub fn run(&self, page: &Page) -> Result<()> {
        for block in page.blocks() {
            self.write(&block)?;
            if block.has("run") {
                let place = format!("{}:{}", page.path.display(), block.line);
                println!("{place}\n{}", block.text);
                self.execute(&block.text).context(place)?;
            }
        }
        Ok(())
    }

    /// Writes the file of a block that has one.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, block: &Block) -> Result<()> {
        let Some(file) = block.file() else { return Ok(()) };
        Ok(fs::write(self.directory.join(file), &block.text)?)
    }

    /// Runs commands in the namespace.
    ///
    /// # Errors
    /// When one fails or takes too long, with what it printed.
    pub fn execute(&self, commands: &str) -> Result<()> {
        let output = Command::new("timeout")
            .args([BLOCK_TIMEOUT, "bash", "-euo", "pipefail", "-c", commands])
            .current_dir(&self.directory)
            .env("PATH", &self.path)
            .env("KUBECONFIG", self.kubeconfig())
            .output()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        println!("{stdout}");
        if !output.status.success() {
            bail!("{}: {stderr}", output.status);
        }
        Ok(())
    }

    fn kubeconfig(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }
}
