//! Command line.

use std::path::PathBuf;
use std::time::Duration;

use autoscaler::settings::parse_duration;
use clap::{Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

/// Hidden first argument with which the script of kubectl runs this binary.
const COMPLETE: &str = "__complete";
/// What `--help` prints behind the options.
const EXIT_CODES: &str = "\
Exit codes:
  0  the command succeeded; check found nothing wrong
  1  check found something wrong, sleep was refused, or a trace is invalid
  2  the command line is invalid
  3  the cluster could not be reached, or a request to it failed";

/// Shows and checks the workloads that Rouse scales, with your kubeconfig and your rights.
#[derive(Clone, Debug, Parser)]
#[command(name = "kubectl-rouse", bin_name = "kubectl rouse", version, after_help = EXIT_CODES)]
pub struct Cli {
    /// The subcommand.
    #[command(subcommand)]
    pub command: Command,
    /// The cluster.
    #[command(flatten)]
    pub connection: ConnectionArgs,
    /// Format of the output.
    #[arg(long, short, global = true, value_enum, default_value_t = OutputFormat::Text)]
    pub output: OutputFormat,
}

/// Options that select the cluster.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct ConnectionArgs {
    /// Kubeconfig file; by default the files in KUBECONFIG, else ~/.kube/config.
    #[arg(long, global = true, value_name = "FILE", help_heading = "Cluster")]
    pub kubeconfig: Option<PathBuf>,
    /// Context in the kubeconfig; by default its current context.
    #[arg(long, global = true, help_heading = "Cluster")]
    pub context: Option<String>,
    /// Namespace; by default the context's. status, top and check cover all namespaces without it.
    #[arg(long, short, global = true, help_heading = "Cluster")]
    pub namespace: Option<String>,
    /// Namespace of Rouse itself.
    #[arg(
        long,
        global = true,
        value_name = "NAMESPACE",
        default_value = autoscaler::contract::SYSTEM_NAMESPACE,
        help_heading = "Cluster"
    )]
    pub system_namespace: String,
}

/// Format of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// For reading.
    #[default]
    Text,
    /// JSON.
    Json,
}

/// Subcommands.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// List all workloads with state, size, load and target.
    Status(StatusArgs),
    /// Explain the size of a workload by its last decisions.
    Why(WorkloadArgs),
    /// List workloads by load, the highest first.
    Top,
    /// Serve a live page of all workloads on this machine, for your browser.
    Ui(UiArgs),
    /// Check the installation and the workloads, and print each problem with its fix.
    Check(CheckArgs),
    /// Print the changes after which a Deployment or StatefulSet is scaled by Rouse, as YAML.
    Init(InitArgs),
    /// Scale a workload from zero to its first size.
    Wake(WorkloadArgs),
    /// Scale an idle workload to zero now, if no request can be lost.
    Sleep(WorkloadArgs),
    /// Keep a workload at its size, also at zero: no request, schedule or HPA changes it.
    Pause(PauseArgs),
    /// End the pause of a workload.
    Resume(WorkloadArgs),
    /// Record the load of a live workload, in the format that simulate replays.
    Record(RecordArgs),
    /// Compare what Rouse would have decided on a load with the present pods; changes nothing.
    Shadow(ShadowArgs),
    /// Replay a recorded workload without a cluster and print the decisions.
    Simulate(SimulateArgs),
    /// Print a script that completes commands and flags in a shell.
    Completion(CompletionArgs),
    /// Print candidates for the last word, for kubectl's completion.
    #[command(name = COMPLETE, hide = true)]
    Complete(CompleteArgs),
}

/// Options of `status`.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct StatusArgs {
    /// Print the list again every two seconds.
    #[arg(long, short)]
    pub watch: bool,
}

/// Options of `ui`.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct UiArgs {
    /// Port on 127.0.0.1 and ::1; by default any free one.
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    pub port: u16,
}

/// A workload.
#[derive(clap::Args, Clone, Debug)]
pub struct WorkloadArgs {
    /// Name of the workload's HPA or PodAutoscaler: NAME or NAMESPACE/NAME.
    pub name: String,
}

/// Options of `pause`.
#[derive(clap::Args, Clone, Debug)]
pub struct PauseArgs {
    /// Name of the workload's HPA or PodAutoscaler: NAME or NAMESPACE/NAME.
    pub name: String,
    /// How long, such as 30m or 2h; by default until `resume`.
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    pub duration: Option<Duration>,
    /// The size to keep, also 0; by default the present one.
    #[arg(long, value_name = "PODS", value_parser = clap::value_parser!(i32).range(0..))]
    pub at: Option<i32>,
}

/// Options of `check`.
#[derive(clap::Args, Clone, Debug)]
pub struct CheckArgs {
    /// Check only this workload, and the installation: NAME or NAMESPACE/NAME.
    pub name: Option<String>,
    /// Check whether Rouse can be installed; no part of it needs to exist yet.
    #[arg(long, conflicts_with = "name")]
    pub preflight: bool,
}

/// Options of `init`.
#[derive(clap::Args, Clone, Debug)]
pub struct InitArgs {
    /// The object to scale: deployment/NAME or statefulset/NAME.
    pub target: String,
    /// The Service with its requests; by default the only one that selects its pods.
    #[arg(long)]
    pub service: Option<String>,
    /// Requests at a time that one pod should carry, if you know it; by default Rouse finds it.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub concurrency: Option<u32>,
    /// Label the pods for the sidecar; by default they stay as they are, with or without it.
    #[arg(long)]
    pub with_sidecar: bool,
    /// The slowest start of a pod, with a node that is made first, such as 15m; at most 1h.
    /// Requests are held as long, and a start is given up after it.
    #[arg(long, value_name = "DURATION", value_parser = parse_slow_start)]
    pub slow_start: Option<Duration>,
    /// Make the changes in place of printing them: a dry run of all first, with what it changes.
    #[arg(long)]
    pub apply: bool,
    /// The changes to print or apply.
    #[arg(long, value_enum, default_value_t = InitStep::All)]
    pub step: InitStep,
}

/// Changes that `init` prints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum InitStep {
    /// All.
    #[default]
    All,
    /// The sidecar of the pods, to apply first.
    Pods,
    /// Service and HPA, to apply after the rollout.
    Traffic,
}

fn parse_slow_start(text: &str) -> Result<Duration, String> {
    let start = parse_duration(text).map_err(|error| error.to_string())?;
    let bounds = Duration::from_secs(1)..=Duration::from_secs(3600);
    let is_valid = bounds.contains(&start) && start.subsec_nanos() == 0;
    is_valid.then_some(start).ok_or_else(|| "not whole seconds from 1s to 1h".to_owned())
}

// === impl InitStep ===

impl InitStep {
    /// Whether a change of the pods, or another one, is printed.
    pub fn includes(self, pods: bool) -> bool {
        match self {
            Self::All => true,
            Self::Pods => pods,
            Self::Traffic => !pods,
        }
    }
}

/// Options of `record`.
#[derive(clap::Args, Clone, Debug)]
pub struct RecordArgs {
    /// Name of the workload's HPA or PodAutoscaler: NAME or NAMESPACE/NAME.
    pub name: String,
    /// How long, such as 10m or 1h.
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration, default_value = "10m")]
    pub duration: Duration,
}

/// Options of `shadow`.
#[derive(clap::Args, Clone, Debug)]
pub struct ShadowArgs {
    /// The object that the present HPA scales: deployment/NAME or statefulset/NAME.
    #[arg(required_unless_present = "trace", conflicts_with = "trace")]
    pub target: Option<String>,
    /// How long, such as 10m or 1h.
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration, default_value = "1h")]
    pub duration: Duration,
    /// A load that `record` wrote, in place of the live one; needs no cluster.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Least pods; by default minReplicas of the HPA, else 1.
    #[arg(long, value_name = "PODS")]
    pub min: Option<u32>,
    /// Most pods; by default maxReplicas of the HPA.
    #[arg(long, value_name = "PODS")]
    pub max: Option<u32>,
    /// Let the workload go to zero, as its annotation scale-to-zero does.
    #[arg(long)]
    pub scale_to_zero: bool,
    /// Time from the creation of a pod until it is ready.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "5s")]
    pub pod_start: Duration,
}

/// Options of `simulate`.
#[derive(clap::Args, Clone, Debug)]
pub struct SimulateArgs {
    /// Trace file with one JSON object per line, or - for standard input.
    pub file: PathBuf,
    /// Print a table with the reason for each decision, instead of one JSON object per decision.
    #[arg(long, conflicts_with = "plot")]
    pub human: bool,
    /// Plot load, pods and panic over time, with the width in COLUMNS (default 100).
    #[arg(long)]
    pub plot: bool,
}

/// Options of `completion`.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct CompletionArgs {
    /// The shell; kubectl prints the program that completes `kubectl rouse` in every shell.
    #[arg(value_enum)]
    pub target: CompletionTarget,
}

/// Options of the hidden command of kubectl's completion.
#[derive(clap::Args, Clone, Debug)]
pub struct CompleteArgs {
    /// The words behind `kubectl rouse`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<String>,
}

/// What completes commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CompletionTarget {
    /// For the file kubectl_complete-rouse in PATH, which kubectl's own completion runs.
    Kubectl,
    /// Bash, for `kubectl-rouse`.
    Bash,
    /// Elvish, for `kubectl-rouse`.
    Elvish,
    /// Fish, for `kubectl-rouse`.
    Fish,
    /// PowerShell, for `kubectl-rouse`.
    Powershell,
    /// Zsh, for `kubectl-rouse`.
    Zsh,
}

// === impl CompletionTarget ===

impl CompletionTarget {
    /// The shell; `None` for kubectl.
    pub fn shell(self) -> Option<Shell> {
        match self {
            Self::Kubectl => None,
            Self::Bash => Some(Shell::Bash),
            Self::Elvish => Some(Shell::Elvish),
            Self::Fish => Some(Shell::Fish),
            Self::Powershell => Some(Shell::PowerShell),
            Self::Zsh => Some(Shell::Zsh),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(args: &[&str]) -> Result<Cli, clap::Error> {
        Cli::try_parse_from([&["kubectl-rouse"], args].concat())
    }

    #[test]
    fn accepts_global_options_behind_the_subcommand() {
        Cli::command().debug_assert();
        let cli = parse(&["status", "-n", "shop", "-o", "json"]).unwrap();
        assert_eq!(cli.connection.namespace.as_deref(), Some("shop"));
        assert_eq!(
            (cli.output, cli.connection.system_namespace.as_str()),
            (OutputFormat::Json, "rouse-system")
        );
    }

    #[test]
    fn simulate_requires_one_file_and_at_most_one_format() {
        let Command::Simulate(args) = parse(&["simulate", "-", "--plot"]).unwrap().command else { panic!() };
        assert_eq!((args.file.as_os_str().to_str(), args.plot, args.human), (Some("-"), true, false));
        for wrong in [&["simulate"] as &[_], &["simulate", "a", "b"], &["simulate", "a", "--human", "--plot"]]
        {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
