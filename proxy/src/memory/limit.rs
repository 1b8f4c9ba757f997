//! The size of the budget: a part of the container's memory limit.
//!
//! The limit is the one of the process' cgroup: `memory.max` of version 2, `memory.limit_in_bytes`
//! of version 1. In a container the cgroup is mounted as the root of the hierarchy, but version 1
//! may name it by its path on the host; so both places are read.

use std::fs;
use std::path::{Path, PathBuf};

/// Assumed for a container without a limit: as in deploy/activator.yaml, which is eight times a
/// sidecar's.
const DEFAULT_LIMIT: u64 = 1 << 30;
/// Without a limit, version 1 has the largest number of pages in bytes.
const UNLIMITED: u64 = 1 << 62;

/// The budget without a setting: three fifths of the limit. The rest is for buffers of running
/// requests and the allocator; in an activator also for 10,000 listeners (76 MiB, `make
/// bench-held`) and the objects of as many workloads.
pub fn default_budget() -> u64 {
    let limit = memory_limit(|path| fs::read_to_string(path).ok());
    tracing::info!(limit, "memory limit read");
    limit.unwrap_or(DEFAULT_LIMIT) / 5 * 3
}

/// The smallest limit that is found; `read` returns the content of a file.
fn memory_limit(read: impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let membership = read(Path::new("/proc/self/cgroup"))?;
    let files = membership.lines().flat_map(limit_files);
    files.filter_map(|file| parse_limit(&read(&file)?)).min()
}

/// The files with the limit of a cgroup, a line of `/proc/self/cgroup`: `id:controllers:path`.
fn limit_files(line: &str) -> Vec<PathBuf> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { return Vec::new() };
    let (root, file) = match controllers {
        "" => ("/sys/fs/cgroup", "memory.max"),
        _ if controllers.split(',').any(|controller| controller == "memory") => {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
        }
        _ => return Vec::new(),
    };
    let root = Path::new(root);
    vec![root.join(file), root.join(path.trim_start_matches('/')).join(file)]
}

/// The bytes of a limit; `None` for `max` and for the largest numbers, which mean no limit.
fn parse_limit(content: &str) -> Option<u64> {
    content.trim().parse().ok().filter(|limit| *limit < UNLIMITED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(files: &[(&str, &str)]) -> Option<u64> {
        memory_limit(|path| {
            let file = files.iter().find(|(name, _)| Path::new(name) == path)?;
            Some(file.1.to_owned())
        })
    }

    const OWN: &str = "/proc/self/cgroup";
    const V1: &str = "9:cpu,cpuacct:/pod/a\n8:hugetlb,memory:/pod/a\n";

    #[test]
    fn reads_limit_of_version_2() {
        let own = (OWN, "0::/\n");
        assert_eq!(limit(&[own, ("/sys/fs/cgroup/memory.max", "1073741824\n")]), Some(1 << 30));
        assert_eq!(limit(&[own, ("/sys/fs/cgroup/memory.max", "max\n")]), None);
        assert_eq!(limit(&[own]), None);
    }

    #[test]
    fn reads_limit_of_version_1_by_mount_or_path() {
        let root = "/sys/fs/cgroup/memory/memory.limit_in_bytes";
        let path = "/sys/fs/cgroup/memory/pod/a/memory.limit_in_bytes";
        assert_eq!(limit(&[(OWN, V1), (root, "536870912")]), Some(512 << 20));
        assert_eq!(limit(&[(OWN, V1), (root, "9223372036854771712"), (path, "4096")]), Some(4096));
        assert_eq!(limit(&[(OWN, V1), (root, "9223372036854771712")]), None);
    }

    #[test]
    fn process_without_cgroups_has_no_limit() {
        assert_eq!(limit(&[]), None);
        assert_eq!(limit(&[(OWN, "not a line\n")]), None);
    }
}
