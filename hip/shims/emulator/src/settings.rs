//! The emulated machine, as the environment describes it.

use std::sync::OnceLock;

/// The settings. Each comes from an environment variable, and all are read only once.
pub(crate) struct Settings {
    /// `RUKH_EMULATOR_ARCH`: the card's architecture, of gfx103x, gfx11 or gfx120x; gfx1100 by default.
    pub(crate) architecture: String,
    /// `RUKH_EMULATOR_DEVICES`: the number of cards; 1 by default. 0 means a machine with the libraries and no card.
    pub(crate) devices: i32,
    /// `RUKH_EMULATOR_MEMORY_MIB`: the memory of a card; 16384 by default.
    pub(crate) memory_bytes: u64,
    /// `RUKH_EMULATOR_ROCBLAS`: the architectures that rocBLAS has kernels for, such as `gfx1100,gfx1151`; all by
    /// default. On other cards the emulated rocBLAS ends the process, as the real rocBLAS does.
    pub(crate) rocblas: Option<String>,
    /// `RUKH_EMULATOR_HIPBLASLT_VERSION`: hipBLASLt's version as `hipblasLtGetVersion` encodes it; 100100 (1.1.0) by
    /// default. Below 100000 the emulated hipBLASLt ignores the swish epilogue together with its bias and reports
    /// success, and below 600 it knows none of the numbers of data types, as the real versions do.
    pub(crate) hipblaslt_version: i32,
    /// `RUKH_EMULATOR_CLANG_MAJOR`: the version of clang that the compiler behind hiprtc says it is; its own by
    /// default. Below 19 it refuses fences with an address space, as those versions do.
    pub(crate) clang_major: Option<u32>,
    /// `RUKH_EMULATOR_LOG`: whether every call is printed on stderr with its status.
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
            hipblaslt_version: number("RUKH_EMULATOR_HIPBLASLT_VERSION", 100_100) as i32,
            clang_major: text("RUKH_EMULATOR_CLANG_MAJOR").and_then(|text| text.parse().ok()),
            log: text("RUKH_EMULATOR_LOG").is_some_and(|text| text != "0"),
        }
    })
}
