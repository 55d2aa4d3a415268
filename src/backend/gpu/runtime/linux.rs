//! What Linux says about graphics cards, and about the files of their drivers.

use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::path::Path;

/// Whether this process may use a file of a driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Access {
    Usable,
    Denied,
    Missing,
}

/// Whether there is a graphics card of this vendor on a Linux whose files are below `root`. The vendor is a number as the
/// system writes it: `0x1002`.
pub(crate) fn has_card(root: &Path, vendor: &str) -> bool {
    let devices = fs::read_dir(root.join("sys/bus/pci/devices")).into_iter().flatten().flatten();
    devices.into_iter().any(|device| is_card(&device.path(), vendor))
}

/// Whether a Linux whose files are below `root` runs in a container of Docker's or podman's.
pub(super) fn is_container(root: &Path) -> bool {
    [".dockerenv", "run/.containerenv"].iter().any(|file| root.join(file).exists())
}

fn is_card(device: &Path, vendor: &str) -> bool {
    let read = |name: &str| fs::read_to_string(device.join(name)).unwrap_or_default();
    // Class 3 are display controllers. An accelerator without a display is one of them or a processing accelerator.
    let class = read("class");
    read("vendor").trim() == vendor && (class.starts_with("0x03") || class.starts_with("0x12"))
}

/// Whether this process may use a file.
pub(super) fn access(file: &Path) -> Access {
    match OpenOptions::new().read(true).write(true).open(file) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Access::Denied,
        Err(error) if error.kind() == ErrorKind::NotFound => Access::Missing,
        // Whatever else is wrong, the driver's own message is the better one.
        _ => Access::Usable,
    }
}

#[cfg(all(test, target_os = "linux"))]
pub(super) mod tests {
    use super::*;

    /// A folder with these files and their contents.
    pub(in super::super) fn system(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (file, content) in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        root
    }
}
