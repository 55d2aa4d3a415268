"""What differs between the families of AMD's architectures."""
from dataclasses import dataclass

from fault import Fault


@dataclass(frozen=True)
class Family:
    """The properties of a family. The names of instructions differ too: see disassembly.py."""

    generation: int  # 9 to 12
    # Arithmetic of 16 bits clears the upper half of its result's register (gfx9), or keeps it.
    clears_upper_half: bool
    # Stores have a counter of their own, or count as loads (gfx9).
    counts_stores_apart: bool
    # The workgroup's number comes in the trap handler's registers (gfx12), or in scalar registers.
    workgroup_in_trap_registers: bool
    # Accumulation registers: none; as many as vector registers (gfx908); or one file with them (gfx90a and later).
    accumulators: str
    # Products of fp16 and bf16 take subnormal numbers for zero, and give zero for them (AMD's PyTorch and MIOpen
    # documents on the MI200).
    flushes_products: bool

    @staticmethod
    def of(architecture: str) -> "Family":
        """The family of an architecture such as gfx1100. The last two characters are its version and stepping."""
        generation = int(architecture.removeprefix("gfx")[:-2])
        if generation not in (9, 10, 11, 12):
            raise Fault(f"{architecture} belongs to no known family")
        accumulators = "none"
        if generation == 9 and architecture not in ("gfx900", "gfx902", "gfx904", "gfx906", "gfx909", "gfx90c"):
            accumulators = "apart" if architecture == "gfx908" else "unified"
        return Family(generation, generation == 9, generation > 9, generation == 12, accumulators,
                      architecture == "gfx90a")

    def registers(self, granules: int, offset: int, lanes: int) -> tuple[int, int]:
        """The numbers of vector and of accumulation registers, from the descriptor's fields.

        LLVM's guide, "compute_pgm_rsrc1": GRANULATED_WORKITEM_VGPR_COUNT; "compute_pgm_rsrc3": ACCUM_OFFSET.
        """
        if self.accumulators == "unified":
            total = 8 * granules
            return min(offset, total), max(total - offset, 0)
        count = (8 if lanes == 32 else 4) * granules
        return count, count if self.accumulators == "apart" else 0
