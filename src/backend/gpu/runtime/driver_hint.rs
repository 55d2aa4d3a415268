//! Says why AMD's driver may find no device although the machine has one: the driver is not there, or the user may not use
//! it. [`super::nvidia_hint`] does the same for NVIDIA's.
//!
//! HIP reaches a device through the files `/dev/kfd` and `/dev/dri/renderD…` of Linux's driver amdgpu. In Windows'
//! subsystem for Linux (WSL) it reaches the driver of Windows through `/dev/dxg`, with a library of its own.

use super::error::GpuError;
use super::linux::{Access, access, has_card, is_container};
use super::maker::Maker;
use super::nvidia_hint;
use std::fs;
use std::path::Path;

/// What the system says about its driver.
struct Driver {
    kfd: Access,
    /// The file of a device that may be used, if there is one; otherwise one that may not.
    render: Access,
    has_gpu: bool,
    /// Whether `/dev/dxg` exists, through which WSL reaches a card.
    has_dxg: bool,
    is_container: bool,
}

/// Adds a hint to an error of a start without a device, if the system shows a reason.
pub(crate) fn explained(maker: Maker, error: GpuError) -> GpuError {
    let root = Path::new("/");
    let hint = match maker {
        Maker::Amd => Driver::below(root).hint(),
        Maker::Nvidia => nvidia_hint::Driver::below(root).hint(&error),
    };
    hint.map_or_else(|| error.clone(), |hint| GpuError::Unsupported(format!("{error}; {hint}")))
}

impl Driver {
    /// The state of the driver whose files are below `root`.
    fn below(root: &Path) -> Driver {
        if !cfg!(target_os = "linux") {
            let (kfd, render) = (Access::Missing, Access::Missing);
            return Driver { kfd, render, has_gpu: false, has_dxg: false, is_container: false };
        }
        let renders = fs::read_dir(root.join("dev/dri")).into_iter().flatten().flatten();
        let renders = renders.filter(|entry| entry.file_name().to_string_lossy().starts_with("renderD"));
        let renders: Vec<Access> = renders.map(|entry| access(&entry.path())).collect();
        let best = [Access::Usable, Access::Denied].into_iter().find(|access| renders.contains(access));
        Driver {
            kfd: access(&root.join("dev/kfd")),
            render: best.unwrap_or(Access::Missing),
            has_gpu: has_card(root, Maker::Amd.pci_vendor()),
            has_dxg: root.join("dev/dxg").exists(),
            is_container: is_container(root),
        }
    }

    fn hint(&self) -> Option<String> {
        let denied = |file: &str| {
            let remedy = match self.is_container {
                true => {
                    "start the container with --group-add keep-groups (rootless podman) or --group-add video \
                     --group-add render (Docker), and where SELinux is on also with --security-opt label=disable"
                }
                false => "add the user to the groups render and video, and log in again",
            };
            Some(format!("this user may not open {file}: {remedy}"))
        };
        match self {
            Driver { kfd: Access::Denied, .. } => denied("/dev/kfd"),
            Driver { kfd: Access::Usable, render: Access::Denied, .. } => denied("/dev/dri/renderD*"),
            Driver { kfd: Access::Missing, has_dxg: true, .. } => Some(
                "under WSL, ROCm needs librocdxg, and before 7.13 also the variable HSA_ENABLE_DXG_DETECTION=1; Rukh for \
                 Windows needs neither"
                    .to_owned(),
            ),
            Driver { kfd: Access::Missing, has_gpu: true, .. } => Some(
                "this machine has an AMD GPU but no /dev/kfd: load the driver amdgpu, or give a container the devices \
                 /dev/kfd and /dev/dri (--device=/dev/kfd --device=/dev/dri)"
                    .to_owned(),
            ),
            _ => None,
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::super::linux::tests::system;
    use super::*;

    const RADEON: [(&str, &str); 2] = [
        ("sys/bus/pci/devices/0000:03:00.0/vendor", "0x1002\n"),
        ("sys/bus/pci/devices/0000:03:00.0/class", "0x030000\n"),
    ];

    #[test]
    fn a_card_without_a_driver_is_noticed() {
        let hint = Driver::below(system(&RADEON).path()).hint().unwrap();
        assert!(hint.contains("an AMD GPU but no /dev/kfd"), "{hint}");
        let with_driver = [&RADEON[..], &[("dev/kfd", ""), ("dev/dri/renderD128", "")]].concat();
        assert_eq!(Driver::below(system(&with_driver).path()).hint(), None);
    }

    #[test]
    fn a_machine_without_an_amd_gpu_gets_no_hint() {
        assert_eq!(Driver::below(system(&[]).path()).hint(), None);
        let others = [
            // An NVIDIA card, and the sound device of an AMD card.
            ("sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n"),
            ("sys/bus/pci/devices/0000:01:00.0/class", "0x030000\n"),
            ("sys/bus/pci/devices/0000:03:00.1/vendor", "0x1002\n"),
            ("sys/bus/pci/devices/0000:03:00.1/class", "0x040300\n"),
        ];
        assert_eq!(Driver::below(system(&others).path()).hint(), None);
    }

    #[test]
    fn a_user_outside_the_groups_is_told_which_to_join() {
        let driver = |kfd, render, is_container| {
            Driver { kfd, render, has_gpu: true, has_dxg: false, is_container }.hint().unwrap_or_default()
        };
        let denied = |kfd, render| driver(kfd, render, false);
        let hint = denied(Access::Denied, Access::Denied);
        assert!(hint.contains("/dev/kfd") && hint.contains("groups render and video"), "{hint}");
        let hint = denied(Access::Usable, Access::Denied);
        assert!(hint.contains("/dev/dri/renderD*") && hint.contains("groups render and video"), "{hint}");
        let hint = driver(Access::Denied, Access::Denied, true);
        assert!(hint.contains("keep-groups") && hint.contains("label=disable"), "{hint}");
    }

    #[test]
    fn a_container_and_windows_subsystem_are_recognised() {
        let below = |files: &[(&str, &str)]| Driver::below(system(files).path());
        let hint = below(&[("dev/dxg", "")]).hint().unwrap();
        assert!(hint.contains("librocdxg") && hint.contains("HSA_ENABLE_DXG_DETECTION=1"), "{hint}");
        let with_driver = [("dev/dxg", ""), ("dev/kfd", ""), ("dev/dri/renderD128", "")];
        assert_eq!(below(&with_driver).hint(), None);
        assert!(
            below(&[("run/.containerenv", "")]).is_container && below(&[(".dockerenv", "")]).is_container
        );
        assert!(!below(&RADEON).is_container);
    }
}
