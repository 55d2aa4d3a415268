"""Runs the kernels of code objects on an emulator that shares no code with hip/shims/emulator. See README.md.

usage: second_emulator [--processes N] [--objdump PROGRAM] [--only KERNEL] [--cost N] [--verbose]
                       CASES [FILE | FOLDER ...]
"""
import argparse
import multiprocessing
import os
import sys
from pathlib import Path

# Each process uses one processor. numpy's own threads would only compete for it, because the matrices are small.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from checks import COST, Options, check_object  # noqa: E402
from kernel_object import find_objdump  # noqa: E402

OBJECTS = Path(__file__).parents[3] / "hip/kernels/objects"


def main() -> None:
    """Checks the objects that the command line names."""
    parser = argparse.ArgumentParser(description="Checks code objects on an emulator; see README.md beside it.")
    parser.add_argument("cases", type=Path, help="the folder that the example kernel_cases has written")
    parser.add_argument("paths", nargs="*", type=Path, default=[OBJECTS], help="objects (.co, .co.gz) or folders")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--objdump", default=None, help="llvm-objdump of LLVM 19 or newer")
    parser.add_argument("--only", default="", help="run only kernels whose name contains this")
    parser.add_argument("--cost", type=int, default=COST, help="leave out cases that cost more: multiply-adds, and 64 for each result")
    parser.add_argument("--verbose", action="store_true", help="print every case")
    options = parser.parse_args()
    files = [file for path in options.paths for file in (sorted(path.glob("gfx*.co*")) if path.is_dir() else [path])]
    if not files:
        sys.exit(f"there is no object in {', '.join(map(str, options.paths))}")
    objdump = options.objdump or find_objdump()
    if not objdump:
        sys.exit("llvm-objdump was not found: apt-get install --no-install-recommends llvm-19")
    wanted = Options(options.cases, objdump, options.only, options.cost, options.verbose)
    tasks = [(file, wanted) for file in files]
    passed = True
    with multiprocessing.Pool(min(options.processes, len(tasks))) as pool:
        for text, right in pool.imap(check_object, tasks, chunksize=1):
            print(text, flush=True)
            passed = passed and right
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    main()
