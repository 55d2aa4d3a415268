//! The graphics cards on Linux's list of PCI devices.

use std::fs;
use std::path::Path;

/// Whether there is a graphics card of this vendor on a Linux whose files are below `root`. The vendor is a number as the
/// system writes it: `0x1002`.
pub(crate) fn has_card(root: &Path, vendor: &str) -> bool {
    let devices = fs::read_dir(root.join("sys/bus/pci/devices")).into_iter().flatten().flatten();
    devices.into_iter().any(|device| is_card(&device.path(), vendor))
}

fn is_card(device: &Path, vendor: &str) -> bool {
    let read = |name: &str| fs::read_to_string(device.join(name)).unwrap_or_default();
    // Class 3 are display controllers. An accelerator without a display is one of them or a processing accelerator.
    let class = read("class");
    read("vendor").trim() == vendor && (class.starts_with("0x03") || class.starts_with("0x12"))
}
