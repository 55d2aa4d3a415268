"""Runs the kernels in PTX, for NVIDIA's cards, on an emulator. See README.md.

usage: ptx_emulator [--processes N] [--cost N] [--file FILE ...] [--verbose] CASES [KERNEL ...]
"""
import argparse
import multiprocessing
import os
import sys
from pathlib import Path

# Each process uses one processor. numpy's own threads would only compete for it, because the matrices are small.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from targets import COST, check_kernel, summary, text_of  # noqa: E402

OBJECTS = Path(__file__).parents[3] / "hip/kernels/objects"

# Its instructions of whole warpgroups and its barriers in shared memory are not modelled.
LEFT_OUT = "sm_90a.ptx.gz"


def main() -> None:
    """Checks the kernels that the command line names."""
    parser = argparse.ArgumentParser(description="Checks kernels in PTX on an emulator; see README.md beside it.")
    parser.add_argument("cases", type=Path, help="the folder that the example kernel_cases has written")
    parser.add_argument("kernels", nargs="*", help="run only kernels whose name contains one of these")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--file", type=Path, action="append", help="PTX, compressed or not, in place of the stored files")
    parser.add_argument("--cost", type=int, default=COST, help="leave out cases that cost more: multiply-adds, and 64 for each result")
    parser.add_argument("--verbose", action="store_true", help="print every kernel's time and every case")
    options = parser.parse_args()
    files = options.file or sorted(path for path in OBJECTS.glob("sm_*.ptx.gz") if path.name != LEFT_OUT)
    if not files:
        sys.exit(f"there is no PTX in {OBJECTS}")
    tasks = [
        (path, name, options.cases, options.cost)
        for path in files
        for name in text_of(path)[1]
        if not options.kernels or any(part in name for part in options.kernels)
    ]
    if not tasks:
        sys.exit("there is no such kernel")
    reports = {path.name.split(".")[0]: [] for path, *_ in tasks}
    with multiprocessing.Pool(min(options.processes, len(tasks))) as pool:
        for report in pool.imap_unordered(check_kernel, tasks, chunksize=1):
            reports[report.target].append(report)
            if options.verbose:
                print(f"{report.target} {report.kernel}: {report.seconds():.1f} s, "
                      f"{report.executed} of {report.instructions} instructions executed")
                print("".join(f"  {result.line()}\n" for result in report.results), end="", flush=True)
    if not options.file:
        print(f"not run: {LEFT_OUT}, whose instructions of whole warpgroups are not modelled")
    for target, found in reports.items():
        print(summary(target, found))
    sys.exit(1 if any(report.failures() for found in reports.values() for report in found) else 0)


if __name__ == "__main__":
    main()
