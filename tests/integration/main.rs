//! All integration tests, in one binary so that they are linked only once.
//!
//! The tests of the ROCm backend run on Linux and Windows only, because the emulator takes the place of their shared
//! libraries.

mod analyze;
mod analyze_inputs;
mod analyze_protocol;
mod answers;
mod any_input;
mod backends;
mod check_tool;
mod chess_programs;
mod cli;
mod console;
mod cpu;
mod cpu_auto;
mod docs;
mod driver;
mod endgames;
mod exact_limits;
mod files;
mod first_choice;
mod full_batches;
mod game_files;
mod games;
mod goldens;
mod graph;
mod in_flight;
#[cfg(unix)]
mod interrupts;
mod layers;
mod lc0_names;
mod leela2onnx;
mod library;
mod memory;
mod named_network;
mod network_bytes;
mod network_refusals;
mod networks;
#[cfg(any(target_os = "linux", windows))]
mod nvidia;
mod onnx2leela;
mod onnx_cases;
mod onnx_read;
mod options;
mod perft;
mod pictures;
mod planes;
mod policy;
mod policy_optimism;
mod positions;
mod process_end;
mod profile;
mod recovery;
#[cfg(any(target_os = "linux", windows))]
mod rocm;
#[cfg(target_os = "linux")]
mod rocm_calls;
#[cfg(any(target_os = "linux", windows))]
mod rocm_devices;
#[cfg(any(target_os = "linux", windows))]
mod rocm_doctor;
#[cfg(any(target_os = "linux", windows))]
mod rocm_doctor_stages;
#[cfg(any(target_os = "linux", windows))]
mod rocm_errors;
#[cfg(any(target_os = "linux", windows))]
mod rocm_faults;
#[cfg(any(target_os = "linux", windows))]
mod rocm_kernels;
#[cfg(any(target_os = "linux", windows))]
mod rocm_startup;
#[cfg(any(target_os = "linux", windows))]
mod rocm_tune;
#[cfg(windows)]
mod rocm_windows;
mod search;
mod search_features;
mod search_stress;
mod searched_moves;
mod selfplay;
mod session_stress;
mod shell_files;
mod strength;
mod substitutes;
mod tablebases;
mod time;
mod tournaments;
mod trained_network;
mod training_data;
mod uci_features;
mod uci_lines;
mod uci_text;
mod uncertainty;
