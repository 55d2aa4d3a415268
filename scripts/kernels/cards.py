"""The data of AMD's GPUs for the calculation of times: expected_times.py."""
from dataclasses import dataclass


@dataclass(frozen=True)
class Bandwidths:
    """Gigabytes a second that all compute units together get."""

    second_level: float
    last_level: float | None
    memory: float


@dataclass(frozen=True)
class Card:
    """A GPU. Compute units, clock, bandwidth of the memory and size of the last-level cache are those of AMD's product
    pages, and the matrix rate is that of its peak fp16 figure, divided by compute units and clock."""

    architecture: str
    name: str
    compute_units: int
    gigahertz: float
    gigabytes_per_second: float
    last_level_megabytes: int  # of 2^20 bytes
    measured: Bandwidths | None
    operations_per_cycle: int  # fp16 with fp32 sums, per compute unit
    lanes: int
    operand_copies: int  # how many lanes read the same operand: 2 on gfx11, whose operands are replicated
    simds: int  # of a compute unit
    fuses: bool | str = True  # which GEMMs share launches with what follows them by default: all, none, or "smolgen"'s
    multiplies_matrices: bool = True  # otherwise products are dot products of two (PlainCore in gemm_cores.h)
    launch_microseconds: float | None = None  # a graph's node
    launch_source: str = ""
    attention_cycles: int | None = None  # of a compute unit's vector unit for a head of 32: README.md, "Attention"

    def has_one_port(self) -> bool:
        """Whether a SIMD issues either a matrix instruction or another vector instruction: gfx9 does both at once (AMD's
        matrix instruction calculator, "co-execute with VALU")."""
        return self.lanes == 32


# The bandwidths that AMD has measured for the cost model of hipBLASLt: rocm-libraries,
# shared/origami/include/origami/hardware.hpp, get_arch_constants.
CARDS = [
    Card("gfx1151", "Radeon 8060S", 40, 2.9, 256, 32, Bandwidths(2470, 1133, 215), 512, 32, 2, 2,
         launch_microseconds=1.75, launch_source="legacy-rocm-build #6409", attention_cycles=2296),
    Card("gfx1100", "RX 7900 XTX", 96, 2.5, 960, 96, Bandwidths(7120, 4241, 732), 512, 32, 2, 2,
         launch_microseconds=2.82, launch_source="legacy-rocm-build #6409", attention_cycles=2296),
    Card("gfx1201", "RX 9070 XT", 64, 2.97, 640, 64, Bandwidths(5740, 2937, 464), 1024, 32, 1, 2,
         launch_microseconds=2.15, launch_source="legacy-rocm-build #6409, R9700", attention_cycles=1634),
    Card("gfx942", "MI300X", 304, 2.1, 5300, 256, Bandwidths(17000, 7313, 4000), 2048, 64, 1, 4, fuses="smolgen",
         launch_microseconds=1.38, launch_source="rocm-systems #11282", attention_cycles=1176),
]
# Cards whose steps are calculated, too, but not the time of a batch.
MORE_CARDS = [
    Card("gfx90a", "MI210", 104, 1.7, 1638, 0, Bandwidths(5500, None, 1200), 1024, 64, 1, 4),
    Card("gfx1030", "RX 6900 XT", 80, 2.25, 512, 128, None, 256, 32, 1, 2, multiplies_matrices=False),
]


def peak_of(card: Card) -> float:
    """Operations in a microsecond."""
    return card.compute_units * card.operations_per_cycle * card.gigahertz * 1e3
