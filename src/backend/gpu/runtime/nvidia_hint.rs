//! Says why NVIDIA's driver may find no device although the machine has one.
//!
//! The library `libcuda.so.1` reaches a card through the kernel module nvidia and its files `/dev/nvidia…`. Both belong to
//! one release of the driver.

use super::error::GpuError;
use super::linux::{Access, access, has_card, is_container};
use super::maker::Maker;
use std::path::Path;

/// What the system says about its driver.
pub(super) struct Driver {
    /// Whether the kernel module is loaded.
    has_module: bool,
    /// Whether the free module nouveau is loaded, which does not compute.
    has_nouveau: bool,
    control: Access,
    has_card: bool,
    is_wsl: bool,
    is_container: bool,
}

impl Driver {
    /// The state of the driver whose files are below `root`.
    pub(super) fn below(root: &Path) -> Driver {
        let release = std::fs::read_to_string(root.join("proc/sys/kernel/osrelease")).unwrap_or_default();
        Driver {
            has_module: root.join("proc/driver/nvidia/version").exists(),
            has_nouveau: root.join("sys/module/nouveau").exists(),
            control: access(&root.join("dev/nvidiactl")),
            has_card: has_card(root, Maker::Nvidia.pci_vendor()),
            is_wsl: release.to_lowercase().contains("microsoft"),
            is_container: is_container(root),
        }
    }

    /// What to do about an error of a start without a device.
    pub(super) fn hint(&self, error: &GpuError) -> Option<String> {
        let text = error.to_string();
        let has_library = !matches!(error, GpuError::Library(_));
        if cfg!(windows) {
            let hint = "install NVIDIA's display driver, which brings nvcuda.dll";
            return (!has_library).then(|| hint.to_owned());
        }
        let hint = if text.contains("SYSTEM_DRIVER_MISMATCH") {
            "the driver's library and its kernel module are of different releases: restart the machine after an update"
        } else if self.control == Access::Denied {
            "this user may not open /dev/nvidiactl"
        } else if self.is_wsl && !has_library {
            "under WSL, NVIDIA's driver for Windows brings /usr/lib/wsl/lib/libcuda.so.1: update it, and install no driver \
             for Linux"
        } else if self.is_container && self.has_module && (!has_library || self.control == Access::Missing) {
            "give the container the card: with NVIDIA's container toolkit installed, the option `--gpus all`"
        } else if self.has_module && !has_library {
            "the kernel module is loaded, but its library libcuda.so.1 is missing: install it from the same release (Debian: \
             libcuda1, Ubuntu: libnvidia-compute-NNN, Fedora: xorg-x11-drv-nvidia-cuda-libs, Arch: nvidia-utils)"
        } else if self.has_card && self.has_nouveau {
            "the card runs with the driver nouveau, which cannot compute: install NVIDIA's driver"
        } else if self.has_card && !self.has_module {
            "this machine has an NVIDIA card, but not NVIDIA's driver: install it"
        } else {
            return None;
        };
        Some(hint.to_owned())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::super::linux::tests::system;
    use super::*;

    const CARD: [(&str, &str); 2] = [
        ("sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n"),
        ("sys/bus/pci/devices/0000:01:00.0/class", "0x030000\n"),
    ];

    /// The hint on a machine with these files.
    fn hint(files: &[(&str, &str)], error: &GpuError) -> Option<String> {
        Driver::below(system(files).path()).hint(error)
    }

    #[test]
    fn each_reason_has_its_hint() {
        let missing = GpuError::Library("cuda is not in the system's folders".to_owned());
        let failed = GpuError::Call {
            call: "hipGetDeviceCount".to_owned(),
            reason: "CUDA_ERROR_NO_DEVICE (100)".to_owned(),
        };
        let module = ("proc/driver/nvidia/version", "NVRM version: 550");
        assert_eq!(hint(&[], &missing), None);
        let with =
            |files: &[(&str, &str)], error: &GpuError| hint(&[&CARD[..], files].concat(), error).unwrap();
        assert!(with(&[], &missing).contains("not NVIDIA's driver"));
        assert!(with(&[("sys/module/nouveau/x", "")], &missing).contains("nouveau"));
        assert!(with(&[module], &missing).contains("libcuda1"));
        assert!(with(&[module, (".dockerenv", "")], &failed).contains("--gpus all"));
        assert!(
            hint(&[("proc/sys/kernel/osrelease", "5.15-microsoft-WSL2")], &missing).unwrap().contains("WSL")
        );
        let mismatch = GpuError::Call {
            call: String::new(),
            reason: "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)".to_owned(),
        };
        assert!(with(&[module, ("dev/nvidiactl", "")], &mismatch).contains("different releases"));
        assert_eq!(hint(&[&CARD[..], &[module, ("dev/nvidiactl", "")]].concat(), &failed), None);
    }
}
