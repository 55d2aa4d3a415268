//! Runs the engine's kernels, from the code objects in hip/kernels/objects, on the cases that `rukh_gpu::cases` has for
//! all of them.

use std::collections::BTreeSet;
use std::ffi::{CString, c_void};
use std::io::Read;
use std::sync::OnceLock;

use hip_runtime_sys as hip;
use rukh_gpu::cases::{KernelCase, affordable_cases};

use crate::{Libraries, architecture, has_matrix_instructions, libraries};

/// Cases that cost more are left out, unless they are the cheapest of their kernel.
const LARGEST_COST: usize = 6_000_000;

/// The module of the stored code object, or of the one in the folder `RUKH_EMULATOR_OBJECTS`.
pub(crate) fn module(lib: &Libraries) -> hip::hipModule_t {
    static MODULE: OnceLock<usize> = OnceLock::new();
    lib.module(&MODULE, code)
}

fn code() -> Vec<u8> {
    let stored = concat!(env!("CARGO_MANIFEST_DIR"), "/../../kernels/objects").to_owned();
    let objects = std::env::var("RUKH_EMULATOR_OBJECTS").unwrap_or(stored);
    let file = std::fs::File::open(format!("{objects}/{}.co.gz", architecture())).unwrap();
    let mut code = Vec::new();
    flate2::read::GzDecoder::new(file).read_to_end(&mut code).unwrap();
    code
}

/// Runs a kernel with the bytes of its structure of arguments.
pub(crate) fn run(lib: &Libraries, name: &str, grid: (u32, u32), threads: u32, arguments: &mut [u8]) {
    let name = CString::new(name).unwrap();
    // A stream has a thread of its own, so that all launches share one.
    static STREAM: OnceLock<usize> = OnceLock::new();
    let stream = *STREAM.get_or_init(|| lib.stream().expose_provenance());
    let stream = std::ptr::with_exposed_provenance_mut(stream);
    let mut function = std::ptr::null_mut();
    let mut bytes = arguments.len();
    let mut extra: [*mut c_void; 5] = [
        hip::HIP_LAUNCH_PARAM_BUFFER_POINTER,
        arguments.as_mut_ptr().cast(),
        hip::HIP_LAUNCH_PARAM_BUFFER_SIZE,
        (&raw mut bytes).cast(),
        hip::HIP_LAUNCH_PARAM_END,
    ];
    // SAFETY: the structure is the one that kernels.h declares for the kernel's arguments.
    unsafe {
        lib.check((lib.hip.hipModuleGetFunction)(&mut function, module(lib), name.as_ptr()));
        lib.check((lib.hip.hipModuleLaunchKernel)(
            function,
            grid.0,
            grid.1,
            1,
            threads,
            1,
            1,
            0,
            stream,
            std::ptr::null_mut(),
            extra.as_mut_ptr(),
        ));
    }
    lib.check(lib.wait(stream));
}

/// The names of the kernels in the code object.
pub(crate) fn kernel_names() -> BTreeSet<String> {
    let code = code();
    let file = object::File::parse(&*code).unwrap();
    let symbols = object::Object::dynamic_symbols(&file);
    let name = |symbol| Some(object::ObjectSymbol::name(&symbol).ok()?.strip_suffix(".kd")?.to_owned());
    symbols.filter_map(name).collect()
}

/// Launches a case with each array in memory of its own, so that an access beyond its ends is a fault. Returns the
/// largest error as a share of what is allowed, or what is wrong.
fn outcome(lib: &Libraries, case: &KernelCase) -> Result<f64, String> {
    let launch = case.launch();
    let memory: Vec<*mut u8> = launch.arrays.iter().map(|array| lib.upload(&array.bytes)).collect();
    let mut arguments = launch.arguments.clone();
    for to in &launch.pointers {
        let address = memory[to.array].wrapping_add(to.array_offset).expose_provenance() as u64;
        arguments[to.offset..to.offset + 8].copy_from_slice(&address.to_le_bytes());
    }
    run(lib, case.kernel(), launch.grid, launch.threads, &mut arguments);
    let sizes = launch.arrays.iter().map(|array| array.bytes.len());
    let after: Vec<Vec<u8>> =
        memory.iter().zip(sizes).map(|(&memory, size)| lib.download(memory.cast_const(), size)).collect();
    memory.into_iter().for_each(|memory| lib.free(memory));
    launch.judge(&after)
}

#[test]
fn every_kernel_computes_what_its_cases_say() {
    let (lib, _turn) = libraries();
    let names = kernel_names();
    let (mut examined, mut wrong) = (BTreeSet::new(), Vec::new());
    let (mut count, mut largest) = (0, 0.0_f64);
    for case in affordable_cases(LARGEST_COST) {
        let name = case.kernel();
        if !names.contains(name) {
            let may_be_absent =
                case.is_optional() || case.needs_matrix_instructions() && !has_matrix_instructions();
            assert!(may_be_absent, "the code object lacks {name}");
        } else if case.holds_for(&architecture()) {
            examined.insert(name.to_owned());
            count += 1;
            let before = lib.instructions();
            match outcome(lib, &case) {
                Ok(error) => {
                    let instructions = lib.instructions() - before;
                    println!("{name}, {}: {instructions} wave instructions, {error:.2}", case.shape());
                    largest = largest.max(error);
                }
                Err(fault) => wrong.push(format!("{name}, {}: {fault}", case.shape())),
            }
        }
    }
    println!("{count} cases, with errors of at most {largest:.2} of what is allowed");
    assert!(wrong.is_empty(), "{}: {} are wrong\n{}", architecture(), wrong.len(), wrong.join("\n"));
    let left_out: Vec<&String> = names.difference(&examined).collect();
    assert!(left_out.is_empty(), "{} has no cases for {left_out:?}", architecture());
    assert!(examined.len() > 40, "{examined:?}");
}
