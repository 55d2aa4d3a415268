//! GEMMs for rocBLAS and hipBLASLt. GEMMs of 8-bit integers are summed in int32, and all others in fp32.
//!
//! Matrices are column-major, as in both libraries: element (row, column) is at `row + column * leading`.

use std::ffi::c_void;

use crate::isa::float::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
use crate::isa::fp8::{FNUZ, OCP};
use crate::memory::Regions;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Type {
    F32,
    F16,
    Bf16,
    I8,
    I32,
    /// e4m3, in OCP's variant or in gfx942's.
    F8,
    F8Fnuz,
}

impl Type {
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::F32 | Self::I32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::I8 | Self::F8 | Self::F8Fnuz => 1,
        }
    }
}

/// Reads alpha or beta, whose type is the compute type.
///
/// # Safety
/// The pointer points to a number of the type.
pub(crate) unsafe fn scalar(pointer: *const c_void, kind: Type) -> f32 {
    // SAFETY: as the caller promises.
    unsafe {
        match kind {
            Type::F16 => f16_to_f32(pointer.cast::<u16>().read_unaligned().into()),
            Type::I32 => pointer.cast::<i32>().read_unaligned() as f32,
            _ => pointer.cast::<f32>().read_unaligned(),
        }
    }
}

/// A strided batch of matrices in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matrix {
    pub(crate) address: u64,
    pub(crate) kind: Type,
    /// The matrix's size in memory, before any transposition. The elements of a column are contiguous.
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    /// The leading dimension: the number of elements from one column to the next.
    pub(crate) leading: usize,
    /// The number of elements from one matrix to the next.
    pub(crate) stride: i64,
}

impl Matrix {
    /// The address of the first byte of a batch, and the number of bytes from there to the end of its last byte.
    fn extent(&self, batches: usize) -> (u64, usize) {
        let last = (self.columns.max(1) - 1) * self.leading + self.rows;
        let far = self.stride * (batches as i64 - 1);
        let (low, high) = (far.min(0), far.max(0));
        let bytes = self.kind.bytes();
        let start = self.address.wrapping_add_signed(low * bytes as i64);
        (start, (high - low) as usize * bytes + last * bytes)
    }

    /// Checks that a batch lies in live memory of the device.
    pub(crate) fn check(&self, name: &str, batches: usize, regions: &Regions) -> Result<(), String> {
        if self.rows == 0 || self.columns == 0 {
            return Ok(());
        }
        let (start, bytes) = self.extent(batches);
        match regions.find(start, bytes) {
            Some(_) => Ok(()),
            None => {
                Err(format!("matrix {name} of {bytes} bytes: {}", regions.describe(start + bytes as u64)))
            }
        }
    }

    fn base(&self, batch: usize) -> *mut u8 {
        let offset = self.stride * batch as i64 * self.kind.bytes() as i64;
        std::ptr::with_exposed_provenance_mut(self.address.wrapping_add_signed(offset) as usize)
    }

    /// One matrix of a batch as fp32, without gaps between columns.
    fn load(&self, batch: usize) -> Vec<f32> {
        let mut out = Vec::with_capacity(self.rows * self.columns);
        for column in 0..self.columns {
            // SAFETY: `check` has found the batch in live memory.
            let start = unsafe { self.base(batch).add(column * self.leading * self.kind.bytes()) };
            load_column(start, self.kind, self.rows, &mut out);
        }
        out
    }

    /// Writes one column of one matrix of a batch.
    fn store_column(&self, batch: usize, column: usize, values: &[f32]) {
        // SAFETY: `check` has found the batch in live memory.
        let start = unsafe { self.base(batch).add(column * self.leading * self.kind.bytes()) };
        store(start, self.kind, values);
    }
}

/// Reads consecutive elements of a type and converts them to fp32.
pub(crate) fn load_column(start: *const u8, kind: Type, count: usize, out: &mut Vec<f32>) {
    // SAFETY: the caller has checked the memory, and the reads need no alignment.
    unsafe {
        match kind {
            Type::F32 => out.extend((0..count).map(|row| start.cast::<f32>().add(row).read_unaligned())),
            Type::F16 => {
                out.extend(
                    (0..count).map(|row| f16_to_f32(start.cast::<u16>().add(row).read_unaligned().into())),
                );
            }
            Type::Bf16 => {
                out.extend(
                    (0..count).map(|row| bf16_to_f32(start.cast::<u16>().add(row).read_unaligned().into())),
                );
            }
            Type::I8 => out.extend((0..count).map(|row| f32::from(start.cast::<i8>().add(row).read()))),
            Type::F8 => out.extend((0..count).map(|row| OCP.value(start.add(row).read()))),
            Type::F8Fnuz => out.extend((0..count).map(|row| FNUZ.value(start.add(row).read()))),
            Type::I32 => {
                out.extend((0..count).map(|row| start.cast::<i32>().add(row).read_unaligned() as f32))
            }
        }
    }
}

/// Converts numbers to a type and writes them as consecutive elements. It rounds to the nearest value of the type,
/// except for int32, where it cuts off the fraction.
fn store(start: *mut u8, kind: Type, values: &[f32]) {
    for (row, &value) in values.iter().enumerate() {
        // SAFETY: the caller has checked the memory, and the writes need no alignment.
        unsafe {
            match kind {
                Type::F32 => start.cast::<f32>().add(row).write_unaligned(value),
                Type::F16 => start.cast::<u16>().add(row).write_unaligned(f32_to_f16(value) as u16),
                Type::Bf16 => start.cast::<u16>().add(row).write_unaligned(f32_to_bf16(value) as u16),
                Type::I8 => {
                    start.cast::<i8>().add(row).write(value.round_ties_even().clamp(-128.0, 127.0) as i8)
                }
                Type::F8 => start.add(row).write(OCP.round(value) as u8),
                Type::F8Fnuz => start.add(row).write(FNUZ.round(value) as u8),
                Type::I32 => start.cast::<i32>().add(row).write_unaligned(value as i32),
            }
        }
    }
}

/// The epilogue's activation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Activation {
    None,
    Relu,
    Gelu,
    Swish,
}

impl Activation {
    pub(crate) fn apply(self, x: f32) -> f32 {
        match self {
            Self::None => x,
            Self::Relu => x.max(0.0),
            // This is the approximation with tanh that hipBLASLt documents.
            Self::Gelu => 0.5 * x * (1.0 + (0.797_884_6 * (x + 0.044_715 * x * x * x)).tanh()),
            Self::Swish => x / (1.0 + (-x).exp()),
        }
    }
}

/// D = activation(alpha op(A) op(B) + beta C + bias), for each GEMM of a batch.
#[derive(Clone, Debug)]
pub(crate) struct Gemm {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) batches: usize,
    pub(crate) transpose_a: bool,
    pub(crate) transpose_b: bool,
    pub(crate) alpha: f32,
    pub(crate) beta: f32,
    pub(crate) a: Matrix,
    pub(crate) b: Matrix,
    pub(crate) c: Matrix,
    pub(crate) d: Matrix,
    /// The bias, which has one element per row of D.
    pub(crate) bias: Option<Matrix>,
    /// What the rows and the columns of the sums are multiplied by.
    pub(crate) scales: Option<[Matrix; 2]>,
    pub(crate) activation: Activation,
    pub(crate) device: i32,
}

impl Gemm {
    /// Computes the GEMM. An error names the operand that lies outside of live memory.
    pub(crate) fn run(&self) -> Result<(), String> {
        if self.m == 0 || self.n == 0 || self.batches == 0 {
            return Ok(());
        }
        let regions = Regions::of(self.device, (0, 0));
        if self.k > 0 && self.alpha != 0.0 {
            self.a.check("A", self.batches, &regions)?;
            self.b.check("B", self.batches, &regions)?;
        }
        if self.beta != 0.0 {
            self.c.check("C", self.batches, &regions)?;
        }
        self.d.check("D", self.batches, &regions)?;
        if let Some(bias) = &self.bias {
            bias.check("bias", 1, &regions)?;
        }
        for scales in self.scales.iter().flatten() {
            scales.check("scales", 1, &regions)?;
        }
        (0..self.batches).for_each(|batch| self.one(batch));
        Ok(())
    }

    fn one(&self, batch: usize) {
        let (m, n, k) = (self.m, self.n, self.k);
        let mut sums = vec![0.0f32; m * n];
        if k > 0 && self.alpha != 0.0 {
            if self.a.kind == Type::I8 {
                self.bytes(batch, &mut sums);
            } else {
                self.floats(batch, &mut sums);
            }
        }
        let bias = self.bias.map(|bias| bias.load(0));
        if let Some([of_rows, of_columns]) = self.scales.map(|scales| scales.map(|scales| scales.load(0))) {
            for (column, sums) in sums.chunks_exact_mut(m).enumerate() {
                sums.iter_mut().zip(&of_rows).for_each(|(sum, scale)| *sum *= scale * of_columns[column]);
            }
        }
        let mut old = Vec::with_capacity(m);
        for (column, sums) in sums.chunks_exact_mut(m).enumerate() {
            old.clear();
            if self.beta != 0.0 {
                // SAFETY: `run` has found C in live memory.
                let start = unsafe { self.c.base(batch).add(column * self.c.leading * self.c.kind.bytes()) };
                load_column(start, self.c.kind, m, &mut old);
            }
            for (row, sum) in sums.iter_mut().enumerate() {
                let mut value = *sum * self.alpha;
                if self.beta != 0.0 {
                    value += self.beta * old[row];
                }
                if let Some(bias) = &bias {
                    value += bias[row];
                }
                *sum = self.activation.apply(value);
            }
            self.d.store_column(batch, column, sums);
        }
    }

    /// The strides of op(A)'s rows and columns in the packed A, and those of op(B)'s in the packed B.
    fn strides(&self) -> ((usize, usize), (usize, usize)) {
        let of =
            |matrix: &Matrix, transpose: bool| if transpose { (matrix.rows, 1) } else { (1, matrix.rows) };
        (of(&self.a, self.transpose_a), of(&self.b, self.transpose_b))
    }

    fn floats(&self, batch: usize, sums: &mut [f32]) {
        use rayon::prelude::*;
        let (m, n, k) = (self.m, self.n, self.k);
        let (a, b) = (self.a.load(batch), self.b.load(batch));
        let ((a_row, a_column), (b_row, b_column)) = self.strides();
        // Large GEMMs are split into panels of columns, one per thread.
        let panel =
            if m * n * k < 1 << 20 { n } else { n.div_ceil(2 * rayon::current_num_threads()).max(16).min(n) };
        sums.par_chunks_mut(panel * m).enumerate().for_each(|(number, sums)| {
            let columns = sums.len() / m;
            // SAFETY: the strides are those of the packed matrices, and the panel has `columns` columns of B and D.
            unsafe {
                matrixmultiply::sgemm(
                    m,
                    k,
                    columns,
                    1.0,
                    a.as_ptr(),
                    a_row as isize,
                    a_column as isize,
                    b.as_ptr().add(number * panel * b_column),
                    b_row as isize,
                    b_column as isize,
                    0.0,
                    sums.as_mut_ptr(),
                    1,
                    m as isize,
                );
            }
        });
    }

    /// A GEMM of 8-bit integers with int32 sums.
    fn bytes(&self, batch: usize, sums: &mut [f32]) {
        let (a, b) = (self.a.load(batch), self.b.load(batch));
        let ((a_row, a_column), (b_row, b_column)) = self.strides();
        for column in 0..self.n {
            for row in 0..self.m {
                let product =
                    |k: usize| a[row * a_row + k * a_column] as i32 * b[k * b_row + column * b_column] as i32;
                sums[row + column * self.m] = (0..self.k).map(product).sum::<i32>() as f32;
            }
        }
    }
}
