//! What the emulator pretends to be, from the environment.

use std::sync::OnceLock;

/// The settings. Each has an environment variable, which is read once.
pub(crate) struct Settings {
    /// `RUKH_EMULATOR_ARCH`: gfx1100 unless set.
    pub(crate) architecture: String,
    /// `RUKH_EMULATOR_DEVICES`: 1 unless set; 0 is a machine with the libraries and no card.
    pub(crate) devices: i32,
    /// `RUKH_EMULATOR_MEMORY_MIB`: memory of a device; 16384 unless set.
    pub(crate) memory_bytes: u64,
    /// `RUKH_EMULATOR_ROCBLAS`: what rocBLAS has kernels for, `gfx1100,gfx1151`; everything unless set. On other
    /// cards it ends the process, as the real one does.
    pub(crate) rocblas: Option<String>,
    /// `RUKH_EMULATOR_LOG`: prints every call.
    pub(crate) log: bool,
}

pub(crate) fn settings() -> &'static Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    SETTINGS.get_or_init(|| {
        let text = |name: &str| std::env::var(name).ok();
        let number =
            |name: &str, default: u64| text(name).and_then(|text| text.parse().ok()).unwrap_or(default);
        Settings {
            architecture: text("RUKH_EMULATOR_ARCH").unwrap_or_else(|| "gfx1100".to_owned()),
            devices: number("RUKH_EMULATOR_DEVICES", 1) as i32,
            memory_bytes: number("RUKH_EMULATOR_MEMORY_MIB", 16_384) << 20,
            rocblas: text("RUKH_EMULATOR_ROCBLAS"),
            log: text("RUKH_EMULATOR_LOG").is_some_and(|text| text != "0"),
        }
    })
}
