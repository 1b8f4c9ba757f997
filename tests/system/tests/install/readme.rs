//! The README, followed literally on a cluster without Rouse: from the installation to a held
//! request, and back. Beside the owner of external.metrics.k8s.io, with the HPA of its page.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use docs::page::{Page, pages, root};
use system_tests::cluster::helm::Helm;
use system_tests::cluster::installation::{CUSTOM_API_SERVICE, until_served};
use system_tests::cluster::kubectl;
use system_tests::cluster::namespace::TestNamespace;
use system_tests::document_shell::DocumentShell;
use tokio::time::Instant;

use crate::installed::{INSTALLED, begin, until_nothing_is_left};
use crate::other_adapter::{EXTERNAL, OtherAdapter};

const README: &str = "README.md";
/// The page that the README names for clusters with another owner of the metrics API.
const KEDA: &str = "docs/howto/coming-from/keda.md";
/// What the README's own reader may need, the installation included.
const STEPS: usize = 8;
const DURATION: Duration = Duration::from_secs(600);
/// The last step: the request that is held.
const REQUEST: &str = "send --url http://web/";
/// The step that makes the Service, before the next one changes it.
const SERVICE_MADE: &str = "kubectl expose";
/// All of a Service that its owner wrote. The API server writes the rest with each change.
const SERVICE: &str = "jsonpath={.metadata.labels}{.metadata.annotations}{.spec}";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster without Rouse: run make test-install"]
async fn readme_leads_from_release_to_held_request_and_back() -> Result<()> {
    let (client, guard) = begin().await?;
    let start = Instant::now();
    let helm = Helm::from_environment()?;
    helm.install(&[]).await?;
    println!("{:.0} s  helm install", start.elapsed().as_secs_f64());
    let namespace = TestNamespace::create(client, "rouse-test-readme").await?.with_guard(guard);
    let before = follow(&[README], &namespace, start).await?;
    ensure!(start.elapsed() <= DURATION, "the README took {:?}", start.elapsed());
    take_back(&helm, &namespace, &before).await?;
    until_nothing_is_left().await?;
    namespace.delete().await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster without Rouse: run make test-install"]
async fn readme_leads_to_held_request_and_back_beside_owner_of_external_metrics() -> Result<()> {
    let (client, guard) = begin().await?;
    let other = OtherAdapter::create(&client, &EXTERNAL).await?;
    let start = Instant::now();
    let helm = Helm::from_environment()?;
    helm.install(&[]).await?;
    until_served(&client, CUSTOM_API_SERVICE, INSTALLED).await?;
    let namespace = TestNamespace::create(client, "rouse-test-readme").await?.with_guard(guard);
    let before = follow(&[README, KEDA], &namespace, start).await?;
    ensure!(start.elapsed() <= DURATION, "the README took {:?}", start.elapsed());
    take_back(&helm, &namespace, &before).await?;
    other.ensure_unchanged().await?;
    other.delete().await?;
    until_nothing_is_left().await?;
    namespace.delete().await
}

/// Uninstalls Rouse. The Service is then as it was made.
async fn take_back(helm: &Helm, namespace: &TestNamespace, before: &str) -> Result<()> {
    helm.uninstall().await?;
    let after = service(&namespace.name).await?;
    ensure!(after == before, "the Service was {before}, and is {after}");
    Ok(())
}

/// Follows the README up to the request, with the files of all these pages: a later one replaces
/// those of the same name. Returns the Service as it was made.
async fn follow(paths: &[&str], namespace: &TestNamespace, start: Instant) -> Result<String> {
    let pages = pages(&root())?;
    let page = |path: &str| pages.iter().find(|page| page.path.to_str() == Some(path));
    let steps = steps(page(README).context(README)?)?;
    ensure!(steps.len() < STEPS, "with the installation there are {} steps", steps.len() + 1);
    let directory = std::env::temp_dir().join(&namespace.name);
    let shell = DocumentShell::new(&directory, &namespace.name)?;
    for path in paths {
        let page = page(path).with_context(|| (*path).to_owned())?;
        page.blocks().iter().try_for_each(|block| shell.write(block))?;
    }
    let mut made = None;
    for step in steps {
        tokio::task::block_in_place(|| shell.execute(&step)).with_context(|| step.clone())?;
        println!("{:.0} s  {step}", start.elapsed().as_secs_f64());
        if step.starts_with(SERVICE_MADE) {
            made = Some(service(&namespace.name).await?);
        }
    }
    std::fs::remove_dir_all(&directory)?;
    made.context("the README makes no Service")
}

/// The commands up to the request, one each.
fn steps(page: &Page) -> Result<Vec<String>> {
    let run: String =
        page.blocks().into_iter().filter(|block| block.has("run")).map(|block| block.text).collect();
    let commands = run.replace("\\\n", " ");
    let mut steps: Vec<String> = commands.lines().map(str::to_owned).collect();
    let last = steps.iter().position(|step| step.contains(REQUEST)).context("the README sends no request")?;
    steps.truncate(last + 1);
    Ok(steps)
}

async fn service(namespace: &str) -> Result<String> {
    kubectl::run(&["--namespace", namespace, "get", "service", "web", "--output", SERVICE]).await
}
