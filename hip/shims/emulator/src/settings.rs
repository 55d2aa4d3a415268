//! The emulated machine, as the environment describes it.

use std::sync::OnceLock;

/// The settings. Each comes from an environment variable, and all are read only once.
pub(crate) struct Settings {
    /// `RUKH_EMULATOR_ARCH`: the card's architecture; gfx1100 by default.
    pub(crate) architecture: String,
    /// `RUKH_EMULATOR_DEVICES`: the number of cards; 1 by default. 0 means a machine with the libraries and no card.
    pub(crate) devices: i32,
    /// `RUKH_EMULATOR_MEMORY_MIB`: the memory of a card; 16384 by default.
    pub(crate) memory_bytes: u64,
    /// `RUKH_EMULATOR_ROCBLAS`: the architectures that rocBLAS has kernels for, such as `gfx1100,gfx1151`; all by
    /// default. On other cards the emulated rocBLAS ends the process, as the real rocBLAS does.
    pub(crate) rocblas: Option<String>,
    /// `RUKH_EMULATOR_HEURISTIC`: products for which hipBLASLt's heuristic ends the process (`crash:64x256x32`) or never
    /// returns (`hang:64x256x32`), as m, n and k; `*` stands for any number.
    pub(crate) heuristic: String,
    /// `RUKH_EMULATOR_WRONG`: who reports success and computes wrong figures: `rocblas`, `hipblaslt`, `graph`.
    pub(crate) wrong: String,
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
            heuristic: text("RUKH_EMULATOR_HEURISTIC").unwrap_or_default(),
            wrong: text("RUKH_EMULATOR_WRONG").unwrap_or_default(),
            log: text("RUKH_EMULATOR_LOG").is_some_and(|text| text != "0"),
        }
    })
}

impl Settings {
    /// Whether `what` computes wrong figures.
    pub(crate) fn is_wrong(&self, what: &str) -> bool {
        self.wrong.split(',').any(|one| one == what)
    }

    /// What hipBLASLt's heuristic does for a product with these m, n and k: `crash`, `hang`, or nothing special.
    pub(crate) fn heuristic_of(&self, sizes: [usize; 3]) -> Option<&str> {
        self.heuristic.split(',').filter_map(|entry| entry.split_once(':')).find_map(|(what, pattern)| {
            let parts: Vec<&str> = pattern.split('x').collect();
            let fits = |(part, size): (&&str, usize)| *part == "*" || part.parse() == Ok(size);
            (parts.len() == sizes.len() && parts.iter().zip(sizes).all(fits)).then_some(what)
        })
    }
}
