//! The memory that the limits of Linux' control groups leave the process. systemd's `MemoryMax=`, Slurm and Docker set
//! such limits. The kernel ends a process whose group is at its limit.
//!
//! A limit holds for a group and all groups below it, so every group counts from the process's own one up to the root
//! of the hierarchy. What the groups beside it use counts as well. Pages of files do not, because the kernel gives them
//! up before it ends a process. In version 2 the limits are `memory.max` and `memory.high`, at which the kernel slows a
//! process down until it hardly runs. A machine may have the hierarchies of both versions, of which one has the memory.
//!
//! Source: `Documentation/admin-guide/cgroup-v1/memory.rst`, `cgroup-v2.rst` and `filesystems/proc.rst` of Linux.

use std::fs;
use std::path::{Path, PathBuf};

/// The names of files and of lines in which a version has its figures.
struct Version {
    /// The type of its file system in the list of mounts.
    file_system: &'static str,
    limits: &'static [&'static str],
    usage: &'static str,
    /// The lines of `memory.stat` with the pages of files.
    file_pages: [&'static str; 2],
}

const VERSIONS: [Version; 2] = [
    Version {
        file_system: "cgroup2",
        limits: &["memory.max", "memory.high"],
        usage: "memory.current",
        file_pages: ["inactive_file", "active_file"],
    },
    Version {
        file_system: "cgroup",
        limits: &["memory.limit_in_bytes"],
        usage: "memory.usage_in_bytes",
        file_pages: ["total_inactive_file", "total_active_file"],
    },
];

/// The bytes that the process can still get before one of its groups is at its limit; `None` without a limit. The system's
/// files are below `root`.
pub(super) fn left_bytes(root: &Path) -> Option<u64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let mounts = fs::read_to_string(root.join("proc/self/mountinfo")).ok()?;
    let left = VERSIONS.iter().filter_map(|version| version.left_bytes(root, &groups, &mounts));
    left.min()
}

impl Version {
    fn left_bytes(&self, root: &Path, groups: &str, mounts: &str) -> Option<u64> {
        let group = groups.lines().find_map(|line| self.group(line))?;
        let mount = mounts.lines().find_map(|line| self.mount(line))?;
        let top = root.join(mount.point.strip_prefix("/").ok()?);
        // Where the process sees only a part of the hierarchy, its own group is often the root of that part.
        let inside = Path::new(group).strip_prefix(&mount.root).unwrap_or(Path::new(""));
        let own = top.join(inside);
        let own = if own.is_dir() { own } else { top.clone() };
        own.ancestors()
            .take_while(|folder| folder.starts_with(&top))
            .filter_map(|folder| self.left_in(folder))
            .min()
    }

    /// What the limit of one group leaves; `None` without a limit.
    fn left_in(&self, folder: &Path) -> Option<u64> {
        let text = |name: &str| fs::read_to_string(folder.join(name)).ok();
        // The word `max`, which means that there is no limit, is no number.
        let number = |name: &&str| text(name)?.trim().parse::<u64>().ok();
        let limit = self.limits.iter().filter_map(number).min()?;
        let statistics = text("memory.stat").unwrap_or_default();
        let pages = statistics.lines().filter_map(|line| {
            let (name, bytes) = line.split_once(' ')?;
            self.file_pages.contains(&name).then(|| bytes.trim().parse::<u64>().ok())?
        });
        let used = number(&self.usage)?.saturating_sub(pages.sum());
        Some(limit.saturating_sub(used))
    }

    /// The path of the process's group, if this line of `/proc/self/cgroup`, `NUMBER:CONTROLLERS:PATH`, is that of the
    /// hierarchy with the memory. The line of version 2 names no controllers.
    fn group<'a>(&self, line: &'a str) -> Option<&'a str> {
        let (number, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let is_ours = match self.file_system {
            "cgroup2" => number == "0" && controllers.is_empty(),
            _ => controllers.split(',').any(|controller| controller == "memory"),
        };
        is_ours.then_some(path)
    }

    /// The mount of a line of `/proc/self/mountinfo`, if it is that of the hierarchy with the memory.
    fn mount(&self, line: &str) -> Option<Mount> {
        let (place, system) = line.split_once(" - ")?;
        let mut system = system.split(' ');
        let (file_system, options) = (system.next()?, system.nth(1)?);
        let is_ours = file_system == self.file_system
            && (file_system == "cgroup2" || options.split(',').any(|option| option == "memory"));
        let mut place = place.split(' ').skip(3).map(without_escapes);
        is_ours.then_some(Mount { root: place.next()?, point: place.next()? })
    }
}

struct Mount {
    /// The group that the mount shows.
    root: PathBuf,
    /// Where the mount is.
    point: PathBuf,
}

/// A path of `/proc/self/mountinfo`, where spaces and the like are written as `\040`.
fn without_escapes(text: &str) -> PathBuf {
    let mut parts = text.split('\\');
    let mut path = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => path.extend([char::from(byte)].into_iter().chain(part[3..].chars())),
            None => path.extend(['\\'].into_iter().chain(part.chars())),
        }
    }
    path.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    const V2: &str = "41 31 0:38 / /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
    const V1: &str = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
                      34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
                      35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";

    /// A system with these files, whose process has these lines in `cgroup` and in `mountinfo`.
    fn system(groups: &str, mounts: &str, files: &[(&str, &str)]) -> TempDir {
        let root = tempfile::tempdir().unwrap();
        let own = [("proc/self/cgroup", groups), ("proc/self/mountinfo", mounts)];
        for (name, content) in own.iter().chain(files) {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        root
    }

    #[test]
    fn the_limit_of_the_own_group_counts_in_version_2() {
        let root = system(
            "0::/system.slice/rukh.service\n",
            V2,
            &[
                ("sys/fs/cgroup/system.slice/rukh.service/memory.max", "314572800\n"),
                ("sys/fs/cgroup/system.slice/rukh.service/memory.high", "max\n"),
                ("sys/fs/cgroup/system.slice/rukh.service/memory.current", "114572800\n"),
                (
                    "sys/fs/cgroup/system.slice/rukh.service/memory.stat",
                    "anon 40000000\nfile 60000000\ninactive_file 10000000\nactive_file 4572800\nshmem 5\n",
                ),
                ("sys/fs/cgroup/system.slice/memory.max", "max\n"),
                ("sys/fs/cgroup/system.slice/memory.current", "900000000\n"),
            ],
        );
        assert_eq!(left_bytes(root.path()), Some(314_572_800 - 100_000_000));
    }

    #[test]
    fn the_lowest_limit_of_all_groups_above_counts_with_what_others_use() {
        // The own group has no controller for memory, and that above it has more left than the one above that.
        let root = system(
            "0::/a/b/c\n",
            V2,
            &[
                ("sys/fs/cgroup/a/b/c/cgroup.type", "domain\n"),
                ("sys/fs/cgroup/a/b/memory.max", "500\n"),
                ("sys/fs/cgroup/a/b/memory.current", "200\n"),
                ("sys/fs/cgroup/a/memory.max", "1000\n"),
                ("sys/fs/cgroup/a/memory.high", "900\n"),
                ("sys/fs/cgroup/a/memory.current", "800\n"),
                ("sys/fs/cgroup/cgroup.controllers", "memory\n"),
            ],
        );
        assert_eq!(left_bytes(root.path()), Some(100));
    }

    #[test]
    fn a_group_of_version_1_is_found_by_its_controller() {
        let groups = "9:name=systemd:/\n4:cpu,memory:/slurm/job_7/step_0\n3:cpuset:/other\n0::/\n";
        let step = "sys/fs/cgroup/memory/slurm/job_7/step_0";
        let job = "sys/fs/cgroup/memory/slurm/job_7";
        let files = [
            (format!("{step}/memory.limit_in_bytes"), "9223372036854771712\n"),
            (format!("{step}/memory.usage_in_bytes"), "70\n"),
            (format!("{job}/memory.limit_in_bytes"), "1000\n"),
            (format!("{job}/memory.usage_in_bytes"), "600\n"),
            (format!("{job}/memory.stat"), "inactive_file 1\ntotal_inactive_file 90\ntotal_active_file 10\n"),
        ];
        let files: Vec<_> = files.iter().map(|(name, content)| (name.as_str(), *content)).collect();
        // The hierarchy of version 2 is there too, but it does not have the memory.
        let mounts = format!("{V1}41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
        assert_eq!(left_bytes(system(groups, &mounts, &files).path()), Some(500));
    }

    /// A container often sees its own group as the root, although the path of the group is that on the host.
    #[test]
    fn the_group_of_a_container_is_the_root_of_its_mount() {
        let limits = [("sys/fs/cgroup/memory.max", "1000\n"), ("sys/fs/cgroup/memory.current", "400\n")];
        assert_eq!(left_bytes(system("0::/\n", V2, &limits).path()), Some(600));
        let by_host = V2.replace("0:38 / /sys", "0:38 /docker/77 /sys");
        assert_eq!(left_bytes(system("0::/docker/77\n", &by_host, &limits).path()), Some(600));
        assert_eq!(left_bytes(system("0::/docker/78\n", &by_host, &limits).path()), Some(600));
        assert_eq!(left_bytes(system("0::/../..\n", V2, &limits).path()), Some(600));
    }

    #[test]
    fn without_a_limit_there_is_none() {
        let limits = [("sys/fs/cgroup/a/memory.max", "max\n"), ("sys/fs/cgroup/a/memory.current", "400\n")];
        assert_eq!(left_bytes(system("0::/a\n", V2, &limits).path()), None);
        assert_eq!(left_bytes(system("", "", &[]).path()), None);
        assert_eq!(left_bytes(system("0::/a\n", "damaged - cgroup2\n", &limits).path()), None);
        assert_eq!(left_bytes(Path::new("/nowhere")), None);
    }

    #[test]
    fn a_mount_with_a_space_in_its_name_is_found() {
        let mounts = V2.replace("/sys/fs/cgroup", "/my\\040groups");
        let limits = [("my groups/memory.max", "1000\n"), ("my groups/memory.current", "400\n")];
        assert_eq!(left_bytes(system("0::/\n", &mounts, &limits).path()), Some(600));
    }
}
