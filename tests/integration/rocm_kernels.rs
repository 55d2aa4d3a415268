//! BLAS libraries abort the process if they have no kernels for the card or no memory. The engine must not make such a
//! call: it uses the other library, or reports what is missing.

use std::fs;
use std::path::Path;

use crate::driver::rukh;
use crate::rocm::{ABORTED, libraries};
use crate::rocm_errors::{search, stdout};

/// With this setting the emulator's rocBLAS has kernels only for gfx900, and aborts the process on any other card.
const ROCBLAS_FOR_GFX900_ONLY: (&str, &str) = ("RUKH_EMULATOR_ROCBLAS", "gfx900");

const OPTIONS: &str = "gemm=library,max_batch=2,streams=1,graph=true,fuse=true,fork=0,few_rows=0,wait=block";

/// A folder with the emulator, and the path of a folder with kernels of rocBLAS for other cards.
fn without_kernels() -> (tempfile::TempDir, String) {
    let folder = libraries();
    let kernels = folder.path().join("others");
    fs::create_dir(&kernels).expect("a folder can be made");
    fs::write(kernels.join("TensileLibrary_lazy_gfx900.dat"), "").expect("the folder can be written to");
    fs::write(kernels.join("Kernels.so-000-gfx90a-xnack-.hsaco"), "").expect("the folder can be written to");
    let kernels = kernels.display().to_string();
    (folder, kernels)
}

/// Runs one search in which rocBLAS must not be used. Returns the output, and whether rocBLAS was used.
fn search_without_rocblas(folder: &Path, arguments: &[&str], settings: &[(&str, &str)]) -> (String, bool) {
    let cache = folder.join("cache").display().to_string();
    let settings = [
        &[ROCBLAS_FOR_GFX900_ONLY, ("RUKH_EMULATOR_LOG", "1"), ("XDG_CACHE_HOME", cache.as_str())],
        settings,
    ]
    .concat();
    let output = search(folder, arguments, &settings);
    let said = stdout(&output);
    let called = String::from_utf8_lossy(&output.stderr).contains("rocm-emulator: rocblas_create_handle");
    (said, called)
}

#[test]
fn hipblaslt_computes_all_gemms_if_rocblas_has_no_kernels() {
    let (folder, kernels) = without_kernels();
    let refusal = format!(
        "info string rocBLAS has no kernels for gfx1100: neither TensileLibrary_lazy_gfx1100.dat nor \
         TensileLibrary_gfx1100.dat, nor TensileLibrary.dat with kernels, is in {kernels} (there: gfx900 gfx90a)"
    );
    // The tuner tries all libraries, and convolutions need batched GEMMs.
    for network in ["micro-attn", "micro-se-conv"] {
        let network = format!("--weights={}/tests/data/{network}.pb.gz", env!("CARGO_MANIFEST_DIR"));
        for backend in ["rocm", "rocm-fp16", "rocm-bf16"] {
            let arguments = [network.as_str(), &format!("--backend={backend}"), "-o", OPTIONS];
            let (said, called) =
                search_without_rocblas(folder.path(), &arguments, &[("ROCBLAS_TENSILE_LIBPATH", &kernels)]);
            assert!(said.contains(&refusal), "{backend}: {said}");
            assert!(said.contains("info string tuning: ") && !said.contains("error"), "{backend}: {said}");
            assert!(!called, "{backend}: rocBLAS was used");
        }
    }
    // Without `ROCBLAS_TENSILE_LIBPATH`, the folder beside the library counts.
    fs::remove_file(folder.path().join("rocblas/library/TensileLibrary_lazy_gfx1100.dat"))
        .expect("the emulator has this file");
    let (said, called) = search_without_rocblas(folder.path(), &["--backend=rocm-fp16", "-o", OPTIONS], &[]);
    let place = folder.path().join("rocblas/library");
    let there = "gfx1030 gfx1101 gfx1102 gfx1151 gfx1200 gfx1201";
    assert!(said.contains(&format!("is in {} (there: {there})", place.display())), "{said}");
    assert!(!called && !said.contains("error"), "{said}");
}

#[test]
fn without_kernels_in_either_library_the_libraries_are_not_used() {
    let (folder, kernels) = without_kernels();
    let settings = [("ROCBLAS_TENSILE_LIBPATH", &*kernels), ("HIPBLASLT_TENSILE_LIBPATH", &*kernels)];
    // Our own kernels play, and the libraries that cannot be used are named.
    let options = OPTIONS.replace("gemm=library", "warm_up=false");
    let arguments = ["--backend=rocm-fp16", "-o", &options];
    let (said, called) = search_without_rocblas(folder.path(), &arguments, &settings);
    assert!(said.contains("info string rocBLAS has no kernels for gfx1100"), "{said}");
    assert!(said.contains("info string hipBLASLt has no kernels for gfx1100"), "{said}");
    assert!(!said.contains("error") && !said.contains("cpu") && !called, "{said}");
    // Without them the processor plays.
    let (said, called) = search_without_rocblas(folder.path(), &["-o", OPTIONS], &settings);
    let notice = said.lines().find(|line| line.contains("rocm-auto")).unwrap_or_else(|| panic!("{said}"));
    assert!(notice.contains("rocBLAS has no kernels for gfx1100"), "{notice}");
    assert!(notice.contains(&format!("hipBLASLt has no kernels for gfx1100 in {kernels}")), "{notice}");
    assert!(notice.ends_with("using cpu-auto instead") && !called, "{notice}");
    // A backend asked for by name reports an error.
    for library in ["rocblas", "hipblaslt"] {
        let arguments = ["--backend=rocm-fp16", "-o", &OPTIONS.replace("library", library)];
        let (said, called) = search_without_rocblas(folder.path(), &arguments, &settings);
        assert!(said.contains("info string error: backend rocm-fp16: ") && !called, "{said}");
        assert!(said.contains("has no kernels for gfx1100"), "{said}");
    }
}

#[test]
fn a_gemm_that_no_library_can_compute_is_an_error_with_both_reasons() {
    let (folder, kernels) = without_kernels();
    let fail: Vec<String> = (1..=200).map(|call| format!("hipblasLtMatmulAlgoGetHeuristic:{call}")).collect();
    let settings = [("ROCBLAS_TENSILE_LIBPATH", &*kernels), ("RUKH_EMULATOR_FAIL", &fail.join(","))];
    let (said, called) =
        search_without_rocblas(folder.path(), &["--backend=rocm-fp16", "-o", OPTIONS], &settings);
    let error = said.lines().find(|line| line.contains("error")).unwrap_or_else(|| panic!("{said}"));
    assert!(error.contains("hipblasLtMatmulAlgoGetHeuristic"), "{error}");
    assert!(error.contains("; rocBLAS has no kernels for gfx1100") && !called, "{error}");
}

/// Proves that the tests above can fail: if rocBLAS is used without kernels, the process is aborted. Without a warm-up,
/// no helper process finds that out first.
#[test]
fn the_emulators_rocblas_aborts_the_process_as_the_real_one_does() {
    let folder = libraries();
    let network = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/micro-attn.pb.gz");
    let output = rukh(&["backendbench", "--backend=rocm-fp16", "-w", network, "--batches=2"])
        .args(["-o", &format!("{OPTIONS},warm_up=false"), "--max-batch-size=1"])
        .env("RUKH_ROCM_LIBRARY_PATH", folder.path())
        .envs([ROCBLAS_FOR_GFX900_ONLY])
        .output()
        .expect("the binary starts");
    assert!(output.status.to_string().contains(ABORTED), "{output:?}");
}

/// `hipblasLtCreate` aborts the process if it finds no memory.
#[test]
fn a_card_with_little_memory_works_or_is_an_error() {
    let folder = libraries();
    let mut enough = 0;
    for mebibytes in [16, 40, 63, 64, 90, 100, 120, 160, 200, 400] {
        let memory = mebibytes.to_string();
        let settings = [("RUKH_EMULATOR_MEMORY_MIB", memory.as_str())];
        let options = "max_batch=1,streams=2,warm_up=false,wait=block,fork=1";
        let said = stdout(&search(folder.path(), &["--backend=rocm-fp16", "-o", options], &settings));
        let is_reported = said.contains("info string error: backend rocm-fp16: hipMalloc of ");
        assert_eq!(is_reported, said.contains("error"), "{mebibytes} MiB: {said}");
        enough += usize::from(!is_reported);
    }
    assert!((1..10).contains(&enough), "{enough}");
}
