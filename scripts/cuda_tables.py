#!/usr/bin/env python3
"""Tables for scripts/cuda_check.sh.

usage: cuda_tables.py speed FILE.json ...        backendbench's results beside lc0's and our bars
       cuda_tables.py profile BATCH FILE.tsv     the CUDA stand-in's times by operation, with TFLOP/s and GB/s
"""
import json
import os
import re
import sys

SIZES = (16, 64, 256, 512)
# Evaluations per second on one H200: lc0's best mode there, and what we want to reach.
BARS = {
    "t82-like": {16: (12033, 16000), 64: (23163, 33000), 256: (29346, 40000), 512: (30093, 42000)},
    "bt4-full": {16: (9821, 13000), 64: (17128, 23000), 256: (20791, 26000), 512: (21652, 27000)},
    "t1-like": {16: (30369, 50000), 64: (69961, 130000), 256: (114486, 200000), 512: (126951, 230000)},
}
# Of one H200, measured: bf16 products of 8192^3 on random data, and copies, bytes read and written.
PEAK_TFLOPS, PEAK_GBS = 790.0, 4300.0


def speed(files):
    print(f"{'network':10} {'mode':>6} " + " ".join(f"{size:>20}" for size in SIZES))
    for name, bars in BARS.items():
        best = {}
        for file in files:
            match = re.fullmatch(rf"speed-{name}-(\w+)\.json", os.path.basename(file))
            if not match:
                continue
            mode = {"1": "1 thr", "2": "2 thr"}.get(match[1], match[1])
            try:
                with open(file) as stream:
                    # Notices may stand before it.
                    lines = [line for line in stream if line.startswith("{")]
                sizes = {row["size"]: row for row in json.loads(lines[-1])["sizes"]}
            except (OSError, ValueError, IndexError, KeyError) as error:
                print(f"{name:10} {mode:>6} no result: {error!r}")
                continue
            cells = []
            for size in SIZES:
                if size not in sizes:
                    cells.append(f"{'-':>20}")
                    continue
                nps, ms = sizes[size]["mean_nps"], 1000.0 * size / sizes[size]["mean_nps"]
                best[size] = max(best.get(size, 0.0), nps)
                cells.append(f"{nps:>10.0f} {ms:6.3f} ms")
            print(f"{name:10} {mode:>6} " + " ".join(cells))
        print(f"{name:10} {'lc0':>6} " + " ".join(f"{bars[size][0]:>20}" for size in SIZES))
        print(f"{name:10} {'bar':>6} " + " ".join(f"{bars[size][1]:>20}" for size in SIZES))
        ratios = [f"{best[size] / bars[size][0]:.2f} lc0 {best[size] / bars[size][1]:.2f} bar" if size in best else "-"
                  for size in SIZES]
        print(f"{name:10} {'ratio':>6} " + " ".join(f"{ratio:>20}" for ratio in ratios))


def numbers(text):
    return {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", text)}


def work(name, width):
    """Floating-point operations and least bytes of one operation; None where the name does not say."""
    if name.startswith(("hipblaslt", "rocblas")):
        n = numbers(name)
        batch = n.get("batch", 1)
        types = re.search(r"type=(\d+)->(\d+)", name)
        size = [4 if code == "0" else 2 for code in types.groups()]
        m, rows, k = n["m"], n["n"], n["k"]
        return 2.0 * m * rows * k * batch, batch * ((m * k + rows * k) * size[0] + m * rows * size[1])
    match = re.match(r"(\w+?)_(f32|f16|bf16)(?:_([wd])(\d+))? (\d+)x(\d+)x", name)
    if not match:
        return None
    kernel, kind, letter, value, x, y = match.groups()
    size = 4 if kind == "f32" else 2
    if kernel == "attention" and letter == "d":
        heads, depth = int(x) * int(y), int(value)
        return heads * 4.0 * 64 * 64 * depth, heads * size * (64 * 64 + 4 * 64 * depth)
    if kernel == "layer_norm" and letter == "w":
        rows, wide = int(x) * 8, int(value)
        if wide > 1024:
            rows, wide = int(x), width or wide
            return 0.0, rows * wide * size * 2
        # Branch and residual in, result out; of smolgen's first LayerNorm only two of the three.
        return 0.0, rows * wide * size * 3
    return None


def profile(batch, file):
    rows = {}
    width = None
    total = 0.0
    with open(file) as stream:
        for line in stream:
            time, name = line.rstrip("\n").split("\t")
            row = rows.setdefault(name, [0, 0.0, width])
            row[0] += 1
            row[1] += float(time)
            if name.startswith(("hipblaslt", "rocblas")):
                width = numbers(name)["m"]
    # The same pass may have run more than once; each ends in one policy.
    passes = max((row[0] for name, row in rows.items() if re.match(r"(attention_)?policy_", name)), default=1)
    for row in rows.values():
        row[0] /= passes
        row[1] /= passes
        total += row[1]
    count = sum(row[0] for row in rows.values())
    print(f"{count:.0f} operations, {total / 1000:.3f} ms one after another: {batch / total * 1e6:.0f} positions/s at most")
    print("     us  share  times    each us  TFLOP/s   GB/s  floor us  operation")
    for name, (times, time, wide) in sorted(rows.items(), key=lambda item: -item[1][1]):
        each = time / times
        cells = " " * 25
        found = work(name, wide)
        if found:
            flops, size = found
            floor = max(flops / PEAK_TFLOPS, size / PEAK_GBS * 1e3) / 1e6
            cells = f"{flops / each / 1e6:8.1f} {size / each / 1e3:6.0f} {floor:9.1f}"
        print(f"{time:7.1f} {time / total:6.1%} {times:6.0f} {each:10.2f} {cells}  {name}")


def main():
    if sys.argv[1:2] == ["speed"]:
        speed(sys.argv[2:])
    elif sys.argv[1:2] == ["profile"] and len(sys.argv) == 4:
        profile(int(sys.argv[2]), sys.argv[3])
    else:
        sys.exit(__doc__)


main()
