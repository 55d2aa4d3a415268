//! The machine as it can be seen without a card's libraries: operating system, processor, memory, cards on the bus, and the
//! drivers' files.

use crate::cli::machine::processor_and_threads;
use rukh_base::available_memory::limited_bytes;
use rukh_base::cache_folder;
use std::fs;
use std::path::Path;
use sysinfo::{MemoryRefreshKind, RefreshKind, System};

/// Variables that change what the cards' libraries do.
const VARIABLES: [&str; 22] = [
    "ROCM_PATH",
    "HIP_PATH",
    "RUKH_ROCM_LIBRARY_PATH",
    "RUKH_CUDA_LIBRARY_PATH",
    "CUDA_PATH",
    "LD_LIBRARY_PATH",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "CUDA_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
    "GPU_MAX_HW_QUEUES",
    "HSA_OVERRIDE_GFX_VERSION",
    "HSA_ENABLE_SDMA",
    "HSA_XNACK",
    "AMD_SERIALIZE_KERNEL",
    "AMD_DIRECT_DISPATCH",
    "DEBUG_CLR_GRAPH_PACKET_CAPTURE",
    "ROCBLAS_TENSILE_LIBPATH",
    "HIPBLASLT_TENSILE_LIBPATH",
    "ROCBLAS_USE_HIPBLASLT",
];

/// The facts, each with its name.
pub(super) fn facts() -> Vec<(String, String)> {
    let mut facts = Vec::new();
    let mut add = |name: &str, value: String| facts.push((name.to_owned(), value));
    add("operating system", System::long_os_version().unwrap_or_else(|_| std::env::consts::OS.to_owned()));
    add("kernel", System::kernel_version().unwrap_or_default());
    add("processor", processor_and_threads());
    let what = RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram());
    if let Ok(system) = System::new_with_specifics(what) {
        let mib = |bytes: u64| bytes >> 20;
        let (total, available) = (mib(system.total_memory()), mib(system.available_memory()));
        let limit = limited_bytes().map_or_else(String::new, |left| {
            format!(", {} MiB left by the limits of this process and its control groups", mib(left))
        });
        add("memory", format!("{total} MiB, {available} MiB available{limit}"));
    }
    add("cache folder", cache_folder::description());
    facts.extend(linux_facts(Path::new("/")));
    facts.extend(VARIABLES.iter().filter_map(|&name| {
        let value = std::env::var(name).ok().filter(|value| !value.is_empty())?;
        Some((name.to_owned(), value))
    }));
    facts
}

/// The facts that Linux has in files below `root`.
fn linux_facts(root: &Path) -> Vec<(String, String)> {
    if !cfg!(target_os = "linux") {
        return Vec::new();
    }
    let text = |file: &str| fs::read_to_string(root.join(file)).ok().map(|text| text.trim().to_owned());
    let mut facts = Vec::new();
    let mut add = |name: &str, value: String| facts.push((name.to_owned(), value));
    let kind = match () {
        () if root.join(".dockerenv").exists() || root.join("run/.containerenv").exists() => "a container",
        () if text("proc/sys/kernel/osrelease")
            .is_some_and(|name| name.to_lowercase().contains("microsoft")) =>
        {
            "WSL"
        }
        () => "",
    };
    if !kind.is_empty() {
        add("runs in", kind.to_owned());
    }
    add(
        "driver amdgpu",
        match (root.join("sys/module/amdgpu").exists(), text("sys/module/amdgpu/version")) {
            (true, Some(version)) => format!("loaded, version {version}"),
            (true, None) => "loaded, the kernel's own".to_owned(),
            (false, _) => "not loaded".to_owned(),
        },
    );
    let cards = cards(root);
    add("AMD's cards", if cards.is_empty() { "none on the PCI bus".to_owned() } else { cards.join("\n") });
    let mut devices = vec![root.join("dev/kfd")];
    let mut renders: Vec<_> = fs::read_dir(root.join("dev/dri"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("renderD")))
        .collect();
    renders.sort();
    devices.extend(renders);
    for device in devices {
        let name = device.strip_prefix(root).unwrap_or(&device).display().to_string();
        add(&format!("/{name}"), access(&device, root));
    }
    facts
}

/// AMD's display controllers and accelerators on the PCI bus, in words.
fn cards(root: &Path) -> Vec<String> {
    let mut folders: Vec<_> = fs::read_dir(root.join("sys/bus/pci/devices"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    folders.sort();
    let card = |folder: &Path| {
        let text = |file: &str| {
            fs::read_to_string(folder.join(file)).map(|text| text.trim().to_owned()).unwrap_or_default()
        };
        let class = text("class");
        if text("vendor") != "0x1002" || !(class.starts_with("0x03") || class.starts_with("0x12")) {
            return None;
        }
        let mut words = vec![format!("device {} revision {}", text("device"), text("revision"))];
        let driver = fs::read_link(folder.join("driver")).ok();
        let driver =
            driver.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        words.push(driver.map_or("no driver".to_owned(), |name| format!("driver {name}")));
        if let Ok(bytes) = text("mem_info_vram_total").parse::<u64>() {
            words.push(format!("{} MiB", bytes >> 20));
        }
        let (speed, width) = (text("current_link_speed"), text("current_link_width"));
        if !speed.is_empty() {
            words.push(format!("{speed} x {width}"));
        }
        Some(words.join(", "))
    };
    folders.iter().filter_map(|folder| card(folder)).collect()
}

/// Whether this user may use a driver's file, and who else may.
#[cfg(unix)]
fn access(file: &Path, root: &Path) -> String {
    use std::io::ErrorKind;
    use std::os::unix::fs::MetadataExt;
    let metadata = match fs::metadata(file) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => return "missing".to_owned(),
        Err(error) => return error.to_string(),
    };
    let opened = fs::OpenOptions::new().read(true).write(true).open(file);
    let may = match opened {
        Ok(_) => "this user may open it".to_owned(),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => "this user may not open it".to_owned(),
        Err(error) => format!("it cannot be opened: {error}"),
    };
    let groups = fs::read_to_string(root.join("etc/group")).unwrap_or_default();
    let group = groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(metadata.gid())).then_some(name)
    });
    let group = group.map_or_else(|| metadata.gid().to_string(), str::to_owned);
    format!("{may} (mode {:o}, group {group})", metadata.mode() & 0o777)
}

#[cfg(not(unix))]
fn access(_: &Path, _: &Path) -> String {
    String::new()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn cards_and_rights_are_read_from_the_systems_files() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let card = "sys/bus/pci/devices/0000:03:00.0";
        for (file, content) in [
            (&*format!("{card}/vendor"), "0x1002\n"),
            (&format!("{card}/class"), "0x030000\n"),
            (&format!("{card}/device"), "0x744c\n"),
            (&format!("{card}/revision"), "0xc8\n"),
            (&format!("{card}/mem_info_vram_total"), "25753026560\n"),
            (&format!("{card}/unique_id"), "1c93b4a0bd21f0e6\n"),
            ("sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n"),
            ("sys/bus/pci/devices/0000:01:00.0/class", "0x030000\n"),
            ("sys/module/amdgpu/version", "6.12.12\n"),
            ("dev/kfd", ""),
            ("dev/dri/renderD128", ""),
            ("dev/dri/card0", ""),
        ] {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().expect("it is in a folder")).expect("a folder can be made");
            fs::write(path, content).expect("a file can be written");
        }
        let facts = linux_facts(root.path());
        let fact = |name: &str| {
            facts.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str()).unwrap_or_default()
        };
        assert_eq!(fact("AMD's cards"), "device 0x744c revision 0xc8, no driver, 24560 MiB");
        assert_eq!(fact("driver amdgpu"), "loaded, version 6.12.12");
        assert!(fact("/dev/kfd").starts_with("this user may open it (mode 6"), "{facts:?}");
        assert!(fact("/dev/dri/renderD128").starts_with("this user may open it"), "{facts:?}");
        assert!(!facts.iter().any(|(name, value)| name.contains("card0") || value.contains("1c93b4a0")));
        let nothing = linux_facts(Path::new("/nonexistent"));
        assert!(nothing.contains(&("/dev/kfd".to_owned(), "missing".to_owned())), "{nothing:?}");
    }
}
