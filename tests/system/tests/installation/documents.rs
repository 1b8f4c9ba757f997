//! The documents on a real cluster: the API server accepts their YAML, and their commands succeed.
//!
//! Blocks are marked in their info strings: `yaml file=NAME` is written to a file for the commands
//! of its page, `sh run` is run, `yaml fragment` is not a Kubernetes object, and `yaml foreign` has
//! kinds of other projects.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use docs::block::Block;
use docs::page::{Page, pages, root};
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::{self, Scope};
use serde::Deserialize;
use serde_json::{Value, json};
use system_tests::cluster::installation::begin_shared;
use system_tests::cluster::namespace::TestNamespace;
use system_tests::cluster::network_policies;
use system_tests::document_shell::DocumentShell;

/// Pages with commands that build on each other; each has a test and a namespace of its own.
const README: &str = "README.md";
const GETTING_STARTED: &str = "docs/getting-started.md";

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn api_server_accepts_yaml_of_documents() -> Result<()> {
    let namespace = begin_shared("documents").await?;
    let mut faults = Vec::new();
    for page in pages(&root())? {
        for block in page.blocks().iter().filter(|block| {
            block.language == "yaml" && !["fragment", "foreign"].iter().any(|word| block.has(word))
        }) {
            if let Err(error) = dry_run(&namespace, block).await {
                faults.push(format!("{}:{}: {error:#}", page.path.display(), block.line));
            }
        }
    }
    ensure!(faults.is_empty(), "{}", faults.join("\n"));
    namespace.end().await
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn commands_of_readme_succeed() -> Result<()> {
    run_pages("readme", |page| page.path == Path::new(README)).await
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn commands_of_getting_started_succeed() -> Result<()> {
    run_pages("getting-started", |page| page.path == Path::new(GETTING_STARTED)).await
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn commands_of_other_documents_succeed() -> Result<()> {
    let other = |page: &Page| page.path != Path::new(README) && page.path != Path::new(GETTING_STARTED);
    run_pages("other-documents", other).await
}

/// Server-side apply of every object of a block, as a dry run.
async fn dry_run(namespace: &TestNamespace, block: &Block) -> Result<()> {
    for document in serde_yaml_ng::Deserializer::from_str(&block.text) {
        let object: DynamicObject = serde_json::from_value(Value::deserialize(document)?)?;
        let types = object.types.as_ref().context("no apiVersion or no kind")?;
        let kind = GroupVersionKind::try_from(types)?;
        let (resource, capabilities) = discovery::pinned_kind(&namespace.client, &kind).await?;
        let api: Api<DynamicObject> = match capabilities.scope {
            Scope::Cluster => Api::all_with(namespace.client.clone(), &resource),
            Scope::Namespaced => Api::namespaced_with(namespace.client.clone(), &namespace.name, &resource),
        };
        let name = object.metadata.name.clone().context("no name")?;
        let parameters = PatchParams::apply("documents").force().dry_run();
        api.patch(&name, &parameters, &Patch::Apply(&object)).await.with_context(|| name.clone())?;
    }
    Ok(())
}

async fn run_pages(name: &str, selects: impl Fn(&Page) -> bool) -> Result<()> {
    let namespace = begin_shared(name).await?;
    let selected: Vec<Page> = pages(&root())?.into_iter().filter(selects).collect();
    ensure!(
        selected.iter().flat_map(Page::blocks).any(|block| block.has("run")),
        "no command is marked to run"
    );
    // As the page on pods without a sidecar describes. The examples have one app.
    network_policies::admit_activators(&namespace, "web", json!(8080)).await?;
    let directory = std::env::temp_dir().join(&namespace.name);
    let shell = DocumentShell::new(&directory, &namespace.name)?;
    let result =
        tokio::task::spawn_blocking(move || selected.iter().try_for_each(|page| shell.run(page))).await?;
    fs::remove_dir_all(&directory)?;
    result?;
    namespace.end().await
}
