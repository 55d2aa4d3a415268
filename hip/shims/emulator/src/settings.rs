//! The emulated machine, as the environment describes it.

use std::sync::OnceLock;
use std::time::Duration;

/// The settings. Each comes from an environment variable, and all are read only once.
pub(crate) struct Settings {
    /// `RUKH_EMULATOR_ARCH`: the architecture, of gfx9, gfx103x, gfx11 or gfx120x, of cards for which `RUKH_EMULATOR_DEVICES`
    /// gives none; gfx1100 by default.
    pub(crate) architecture: String,
    /// `RUKH_EMULATOR_DEVICES`: the cards, or their number; 1 by default. 0 means a machine with the libraries and no
    /// card. In `gfx1036:units=2:integrated,gfx1100:name=AMD Radeon RX 7900 XTX:mib=512` each card has its architecture
    /// and, if they differ from the default, its multiprocessors, its name, its memory and whether it is integrated.
    ///
    /// `RUKH_EMULATOR_MEMORY_MIB`: the memory of a card; 16384 by default.
    pub(crate) cards: Vec<Card>,
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
    /// `RUKH_EMULATOR_HEURISTIC`: GEMMs for which hipBLASLt's heuristic ends the process (`crash:64x256x32`) or never
    /// returns (`hang:64x256x32`), as m, n and k; `*` stands for any number.
    pub(crate) heuristic: String,
    /// `RUKH_EMULATOR_SLOW_ROCBLAS`: so many milliseconds are added to a GEMM for which rocBLAS chooses the solution
    /// itself; none by default.
    pub(crate) slow_rocblas: Option<Duration>,
    /// `RUKH_EMULATOR_SLOW_AFTER_KERNEL`: so many milliseconds are added to a GEMM by a solution of rocBLAS that the
    /// caller chose, where a kernel ran before it, as in a forward pass; none by default.
    pub(crate) slow_after_kernel: Option<Duration>,
    /// `RUKH_EMULATOR_GEMM_TIME`: so many microseconds are added to a GEMM of a library, by what it does to A:
    /// with `T=200,N=100` GEMMs with A transposed take longer than those with A as it is. None by default.
    pub(crate) gemm_time: [Option<Duration>; 2],
    /// `RUKH_EMULATOR_WRONG`: who reports success and computes wrong figures: `rocblas`, one of its solutions such as
    /// `rocblas 11`, `hipblaslt`, one of the two for GEMMs with A as it is (`rocblas N`, `hipblaslt N`), `graph`, a
    /// kernel such as `softmax_f16`, or all `kernels`; such kernels then do nothing. `hipblaslt together` is wrong only
    /// while GEMMs run on several streams.
    pub(crate) wrong: String,
    /// `RUKH_EMULATOR_STALE_GRAPHS`: whether a graph does not see the copies to the device that precede its launch on
    /// the same stream, as ROCm 7.2 lets large graphs do; off by default.
    pub(crate) stale_graphs: bool,
    /// `RUKH_EMULATOR_BAD_CAPTURE`: the call at which every capture fails: `begin`, `work`, `end` or `instantiate`;
    /// none by default.
    pub(crate) bad_capture: Option<BadCapture>,
    /// `RUKH_EMULATOR_LATE_MEMSET`: a fill on the null stream lasts so many milliseconds, and hipMemset does not wait for
    /// it. By default hipMemset waits.
    pub(crate) late_memset: Option<Duration>,
    /// `RUKH_EMULATOR_CLOCK`: what takes time on the clock that events read. With `instructions` and `lines`, times do not
    /// depend on the machine.
    pub(crate) clock: Clock,
    /// `RUKH_EMULATOR_HANG`: the number of the operation at which the card hangs, with all streams; none by default.
    /// `500:3000` means that operation 500 and all others wait until 3000 ms have passed.
    pub(crate) hang: Option<Hang>,
    /// `RUKH_EMULATOR_LOG`: whether every call is printed on stderr with its status.
    pub(crate) log: bool,
}

/// One emulated card.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Card {
    pub(crate) architecture: String,
    pub(crate) name: String,
    pub(crate) multiprocessors: i32,
    pub(crate) is_integrated: bool,
    pub(crate) memory_bytes: u64,
}

impl Card {
    /// A card with as many multiprocessors as HIP counts on the largest card of the architecture that is named here: from
    /// gfx10 on, pairs of compute units.
    fn new(architecture: &str, memory_bytes: u64) -> Self {
        let is_integrated = architecture == "gfx1151";
        Self {
            architecture: architecture.to_owned(),
            name: format!("Rukh emulator for {architecture}"),
            multiprocessors: match architecture {
                "gfx906" => 60,  // Radeon VII
                "gfx908" => 120, // Instinct MI100
                "gfx90a" => 104, // Instinct MI210
                "gfx942" => 304, // Instinct MI300X
                "gfx1030" => 40, // Radeon RX 6900 XT
                "gfx1101" => 30, // Radeon RX 7800 XT
                "gfx1102" => 16, // Radeon RX 7600
                "gfx1103" => 6,  // Radeon 780M
                "gfx1150" => 8,  // Radeon 890M
                "gfx1151" => 20, // Radeon 8060S
                "gfx1200" => 16, // Radeon RX 9060 XT
                "gfx1201" => 32, // Radeon RX 9070 XT
                _ => 48,         // Radeon RX 7900 XTX
            },
            is_integrated,
            memory_bytes,
        }
    }

    /// The card that an entry of `RUKH_EMULATOR_DEVICES` describes.
    fn described(entry: &str, memory_bytes: u64) -> Self {
        let mut fields = entry.split(':');
        let mut card = Self::new(fields.next().unwrap_or_default(), memory_bytes);
        for field in fields {
            match field.split_once('=') {
                Some(("units", units)) => {
                    card.multiprocessors = units.parse().unwrap_or(card.multiprocessors)
                }
                Some(("name", name)) => name.clone_into(&mut card.name),
                Some(("mib", mib)) => card.memory_bytes = mib.parse().unwrap_or(0) << 20,
                None if field == "integrated" => card.is_integrated = true,
                _ => eprintln!("rocm-emulator: RUKH_EMULATOR_DEVICES has an unknown field: {field}"),
            }
        }
        card
    }
}

impl Settings {
    /// The card with this number. For a number that no card has, it is the default card.
    pub(crate) fn card(&self, device: i32) -> Card {
        let card = usize::try_from(device).ok().and_then(|device| self.cards.get(device));
        card.cloned().unwrap_or_else(|| Card::new(&self.architecture, 0))
    }
}

/// The clock that events read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Clock {
    /// The machine's.
    Real,
    /// Every instruction of a wave lasts a nanosecond, and all else no time.
    Instructions,
    /// Every line of 128 bytes that a load of a wave touches lasts 100 nanoseconds, and all else no time.
    Lines,
}

/// A call at which captures fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BadCapture {
    /// `hipStreamBeginCapture`.
    Begin,
    /// The first operation in the capture, which becomes invalid by that.
    Work,
    /// `hipStreamEndCapture`, which ends the capture nevertheless.
    End,
    /// `hipGraphInstantiate`.
    Instantiate,
}

/// A hang of the card.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hang {
    /// The number of the first operation that does not end, from 1.
    pub(crate) operation: u64,
    /// The time until the card works on; `None` if it never does.
    pub(crate) duration: Option<Duration>,
}

impl Hang {
    fn read(text: &str) -> Option<Hang> {
        let (operation, duration) = match text.split_once(':') {
            Some((operation, milliseconds)) => (operation, Some(milliseconds.parse().ok()?)),
            None => (text, None),
        };
        Some(Hang { operation: operation.parse().ok()?, duration: duration.map(Duration::from_millis) })
    }
}

pub(crate) fn settings() -> &'static Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    SETTINGS.get_or_init(|| {
        let text = |name: &str| std::env::var(name).ok();
        let number =
            |name: &str, default: u64| text(name).and_then(|text| text.parse().ok()).unwrap_or(default);
        let milliseconds = |name: &str| text(name)?.parse().ok().map(Duration::from_millis);
        let architecture = text("RUKH_EMULATOR_ARCH").unwrap_or_else(|| "gfx1100".to_owned());
        let memory_bytes = number("RUKH_EMULATOR_MEMORY_MIB", 16_384) << 20;
        let devices = text("RUKH_EMULATOR_DEVICES").unwrap_or_else(|| "1".to_owned());
        let cards = match devices.parse() {
            Ok(count) => vec![Card::new(&architecture, memory_bytes); count],
            Err(_) => devices.split(',').map(|entry| Card::described(entry, memory_bytes)).collect(),
        };
        Settings {
            architecture,
            cards,
            rocblas: text("RUKH_EMULATOR_ROCBLAS"),
            hipblaslt_version: number("RUKH_EMULATOR_HIPBLASLT_VERSION", 100_100) as i32,
            clang_major: text("RUKH_EMULATOR_CLANG_MAJOR").and_then(|text| text.parse().ok()),
            heuristic: text("RUKH_EMULATOR_HEURISTIC").unwrap_or_default(),
            slow_rocblas: milliseconds("RUKH_EMULATOR_SLOW_ROCBLAS"),
            slow_after_kernel: milliseconds("RUKH_EMULATOR_SLOW_AFTER_KERNEL"),
            gemm_time: {
                let all = text("RUKH_EMULATOR_GEMM_TIME").unwrap_or_default();
                let of = |name| all.split(',').find_map(|entry| entry.strip_prefix(name)?.parse().ok());
                ["N=", "T="].map(|name| of(name).map(Duration::from_micros))
            },
            wrong: text("RUKH_EMULATOR_WRONG").unwrap_or_default(),
            stale_graphs: text("RUKH_EMULATOR_STALE_GRAPHS").is_some_and(|text| text != "0"),
            bad_capture: text("RUKH_EMULATOR_BAD_CAPTURE").and_then(|text| match text.as_str() {
                "begin" => Some(BadCapture::Begin),
                "work" => Some(BadCapture::Work),
                "end" => Some(BadCapture::End),
                "instantiate" => Some(BadCapture::Instantiate),
                _ => None,
            }),
            late_memset: milliseconds("RUKH_EMULATOR_LATE_MEMSET"),
            clock: match text("RUKH_EMULATOR_CLOCK").as_deref() {
                Some("instructions") => Clock::Instructions,
                Some("lines") => Clock::Lines,
                _ => Clock::Real,
            },
            hang: text("RUKH_EMULATOR_HANG").as_deref().and_then(Hang::read),
            log: text("RUKH_EMULATOR_LOG").is_some_and(|text| text != "0"),
        }
    })
}

impl Settings {
    /// What is added to the time of a library's GEMM.
    pub(crate) fn time_of_gemm(&self, transposes_a: bool) -> Option<Duration> {
        self.gemm_time[usize::from(transposes_a)]
    }

    /// Whether `library` computes wrong figures for a GEMM.
    pub(crate) fn is_wrong_library(&self, library: &str, transposes_a: bool) -> bool {
        self.is_wrong(library) || !transposes_a && self.is_wrong(&format!("{library} N"))
    }

    /// Whether `what` computes wrong figures.
    pub(crate) fn is_wrong(&self, what: &str) -> bool {
        self.wrong.split(',').any(|one| one == what)
    }

    /// What hipBLASLt's heuristic does for a GEMM with these m, n and k: `crash`, `hang`, or nothing special.
    pub(crate) fn heuristic_of(&self, sizes: [usize; 3]) -> Option<&str> {
        self.heuristic.split(',').filter_map(|entry| entry.split_once(':')).find_map(|(what, pattern)| {
            let parts: Vec<&str> = pattern.split('x').collect();
            let fits = |(part, size): (&&str, usize)| *part == "*" || part.parse() == Ok(size);
            (parts.len() == sizes.len() && parts.iter().zip(sizes).all(fits)).then_some(what)
        })
    }
}
