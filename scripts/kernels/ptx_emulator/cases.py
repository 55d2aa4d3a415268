"""What this emulator shares with scripts/kernels/second_emulator: the table of cases, how results are compared with what
they must be and reported, and the error that stops a kernel. No instruction is shared."""
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "second_emulator"))

from fault import Fault  # noqa: E402
from results import Result, largest_error  # noqa: E402
from table import Case, load_cases  # noqa: E402

__all__ = ["Case", "Fault", "Result", "largest_error", "load_cases"]
