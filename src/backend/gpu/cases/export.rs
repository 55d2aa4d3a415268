//! The cases as plain data, for whoever launches kernels without this package.

use super::arena::{Arena, Array, Expected};
use super::case::{Case, Launch};
use super::{ELEMENTS, cases};
use crate::runtime::facts::Facts;
use crate::runtime::ffi::hip::Address;
use crate::runtime::fp8::Fp8Format;
use std::collections::BTreeMap;

/// The address at which the arrays of a launch begin while its arguments are searched for addresses. No number or pair
/// of numbers in a structure of arguments looks like an address from here on.
const BASE: usize = 0x00de_adbe << 32;

/// The bytes of an address.
const ADDRESS: usize = size_of::<u64>();

/// A kernel with a shape.
pub struct KernelCase(Case);

/// A launch of a kernel, and what it must compute.
pub struct KernelLaunch {
    /// The number of blocks in x and y.
    pub grid: (u32, u32),
    /// The number of threads of a block.
    pub threads: u32,
    /// The structure of arguments, in which all addresses are wrong.
    pub arguments: Vec<u8>,
    /// The addresses among the arguments.
    pub pointers: Vec<Pointer>,
    /// The arrays of the launch.
    pub arrays: Vec<CaseArray>,
    arena: Arena,
    expected: Vec<Expected>,
}

/// An address among a launch's arguments.
#[derive(Clone, Copy, Debug)]
pub struct Pointer {
    /// Its place in the structure of arguments, in bytes.
    pub offset: usize,
    /// The index of the array that it points into.
    pub array: usize,
    /// The place in the array that it points to, in bytes.
    pub array_offset: usize,
}

/// An array of a launch.
#[derive(Clone, Debug)]
pub struct CaseArray {
    /// What it holds before the launch. Its address is a multiple of 256.
    pub bytes: Vec<u8>,
    /// The type of its elements: f32, f16, bf16, i8, f8 and f8z (both variants of e4m3), or u8 for anything else.
    pub element: &'static str,
    /// What it holds after the launch; `None` if it must not change.
    pub expected: Option<Expectation>,
    /// Its place in the arena.
    start: usize,
}

/// What an array must hold after a launch.
#[derive(Clone, Debug)]
pub struct Expectation {
    /// The elements. The kernel must not write those that are not a number.
    pub values: Vec<f64>,
    /// The largest difference of an element from its value, relative to the value.
    pub allowed: f64,
    /// The difference of elements whose value is smaller than this is relative to this instead.
    pub least: f64,
}

/// The cases of all kernels in all types, those for each variant of e4m3 included.
pub fn kernel_cases() -> Vec<KernelCase> {
    ELEMENTS.into_iter().flat_map(|element| cases(element, false)).map(KernelCase).collect()
}

/// The cases that cost at most `largest`, and of each kernel at least the one that costs least.
pub fn affordable_cases(largest: usize) -> Vec<KernelCase> {
    let mut cases = kernel_cases();
    let mut least: BTreeMap<(String, Option<&str>), usize> = BTreeMap::new();
    for case in &cases {
        let cost = least.entry((case.kernel().to_owned(), case.fp8())).or_insert(usize::MAX);
        *cost = case.cost().min(*cost);
    }
    cases.retain(|case| {
        case.cost() <= largest || least.get(&(case.kernel().to_owned(), case.fp8())) == Some(&case.cost())
    });
    cases
}

impl KernelCase {
    /// The kernel's name.
    pub fn kernel(&self) -> &str {
        &self.0.kernel
    }

    /// The kernel's name without type and size.
    pub fn family(&self) -> &'static str {
        self.0.family
    }

    /// The shape, in words. A kernel's cases have different shapes.
    pub fn shape(&self) -> &str {
        &self.0.shape
    }

    /// The multiply-adds, and for each result as much as for 64 of them.
    pub fn cost(&self) -> usize {
        self.0.cost
    }

    /// Whether the kernel exists only where there are matrix instructions.
    pub fn needs_matrix_instructions(&self) -> bool {
        self.0.needs_matrix_instructions
    }

    /// Whether some architectures have other kernels instead.
    pub fn is_optional(&self) -> bool {
        self.0.is_optional
    }

    /// The variant of e4m3 for which the results hold, `ocp` or `fnuz`; `None` if they hold everywhere.
    pub fn fp8(&self) -> Option<&'static str> {
        self.0.fp8.map(|format| match format {
            Fp8Format::Ocp => "ocp",
            Fp8Format::Fnuz => "fnuz",
        })
    }

    /// Whether the results hold for an architecture.
    pub fn holds_for(&self, architecture: &str) -> bool {
        self.0.fp8.is_none_or(|format| Facts::of(architecture).fp8 == Some(format))
    }

    /// Makes the arrays and computes what the launch must compute.
    pub fn launch(&self) -> KernelLaunch {
        let mut arena = Arena::new(Address::NULL.offset(BASE));
        let Launch { grid, arguments, expected } = (self.0.make)(&mut arena);
        let places = arena.arrays().to_vec();
        let array = |place: &Array| {
            let expected = expected.iter().find(|expected| expected.place.start == place.start);
            let element = expected.map(|expected| expected.element).or(place.element);
            CaseArray {
                bytes: arena.bytes()[place.start..place.start + place.bytes].to_vec(),
                element: element.map_or("u8", |element| element.name()),
                expected: expected.map(|Expected { values, allowed, least, .. }| Expectation {
                    values: values.clone(),
                    allowed: *allowed,
                    least: *least,
                }),
                start: place.start,
            }
        };
        let arrays: Vec<CaseArray> = places.iter().map(array).collect();
        let arguments = arguments.bytes();
        let word = |(index, word): (usize, &[u8; ADDRESS])| {
            let start = (u64::from_le_bytes(*word) as usize).checked_sub(BASE)?;
            // An empty array has the place of no byte, but an address.
            let array = places.iter().rposition(|place| place.start <= start)?;
            let array_offset = start - places[array].start;
            let is_inside = array_offset < places[array].bytes.max(1);
            is_inside.then_some(Pointer { offset: index * ADDRESS, array, array_offset })
        };
        let pointers = arguments.as_chunks().0.iter().enumerate().filter_map(word).collect();
        KernelLaunch {
            grid: grid.blocks,
            threads: grid.threads,
            arguments,
            pointers,
            arrays,
            arena,
            expected,
        }
    }
}

impl KernelLaunch {
    /// Compares the arrays after the launch with what they must be. Returns the largest error as a share of what is
    /// allowed.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn judge(&self, after: &[Vec<u8>]) -> Result<f64, String> {
        let mut bytes = self.arena.bytes().to_vec();
        for (array, after) in self.arrays.iter().zip(after) {
            bytes[array.start..array.start + after.len()].copy_from_slice(after);
        }
        let judgement = self.arena.judge(&bytes, &self.expected);
        let faults: Vec<String> = judgement.wrong.into_iter().chain(judgement.damage).collect();
        if faults.is_empty() { Ok(judgement.error / judgement.allowed) } else { Err(faults.join("; ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The arrays of a case that computes little.
    fn launch(kernel: &str) -> KernelLaunch {
        let cases = kernel_cases();
        let of_kernel = cases.iter().filter(|case| case.kernel() == kernel);
        of_kernel.min_by_key(|case| case.cost()).expect("the kernel has a case").launch()
    }

    #[test]
    fn addresses_among_the_arguments_are_found() {
        let launch = launch("attention_policy_f16");
        let offsets: Vec<usize> = launch.pointers.iter().map(|pointer| pointer.offset).collect();
        assert_eq!(offsets, [0, 8, 16, 24, 32, 40, 48]);
        // The keys lie beside the queries.
        let [queries, keys] = [launch.pointers[0], launch.pointers[1]];
        assert_eq!((queries.array, keys.array, queries.array_offset), (0, 0, 0));
        assert!(keys.array_offset > 0 && keys.array_offset < launch.arrays[0].bytes.len());
        assert!(launch.arrays[launch.pointers[6].array].expected.is_some());
    }

    #[test]
    fn what_was_not_computed_is_wrong() {
        let launch = launch("softmax_f16");
        let before: Vec<Vec<u8>> = launch.arrays.iter().map(|array| array.bytes.clone()).collect();
        assert!(launch.judge(&before).is_err_and(|fault| fault.contains("instead of")));
    }
}
