#!/usr/bin/env python3
"""Times a network in onnxruntime and prints the line of lc0's `backendbench`, for compare_backendbench.py.

    rukh leela2onnx --input=t1.pb.gz --output=t1.onnx
    scripts/matches/compare_backendbench.py --net t1.pb.gz --batch 8 'rukh=target/release/rukh -b cpu' \\
        'onnxruntime=scripts/matches/onnx_bench.py --model t1.onnx'

lc0's backend `onnx-cpu` gives such a model to onnxruntime. Here the time is that of onnxruntime alone: the planes are made
once, and no policy is read. The model may have a fixed batch, which onnxruntime can optimise for. Needs numpy and
onnxruntime.
"""

import argparse
import statistics
import time

import numpy as np
import onnxruntime


def session_of(path, threads):
    """The model with so many threads, and with all of onnxruntime's optimisations."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=["backendbench"])
    parser.add_argument("--model", required=True, help="ONNX file")
    parser.add_argument("--threads", type=int, default=1, help="onnxruntime's threads")
    parser.add_argument("--start-batch-size", type=int, default=8, help="positions in a batch")
    parser.add_argument("--batches", type=int, default=60, help="batches")
    parser.add_argument("--weights", help="ignored")
    parser.add_argument("--max-batch-size", type=int, help="ignored")
    arguments = parser.parse_args()

    session = session_of(arguments.model, arguments.threads)
    batch = arguments.start_batch_size
    planes = (np.random.default_rng(1).random((batch, 112, 8, 8)) < 0.1).astype(np.float32)
    inputs = {session.get_inputs()[0].name: planes}
    for _ in range(3):
        session.run(None, inputs)
    seconds = []
    for _ in range(arguments.batches):
        start = time.perf_counter()
        session.run(None, inputs)
        seconds.append(time.perf_counter() - start)
    mean, median = batch / statistics.mean(seconds), batch / statistics.median(seconds)
    fastest, slowest = batch / min(seconds), batch / max(seconds)
    # size, mean nps, mean ms, sdev, cv, max nps, median, min nps
    print(f"{batch}, {mean:.0f}, {1000 * statistics.mean(seconds):.4f}, 0, 0, {fastest:.0f}, {median:.1f}, {slowest:.0f}")


if __name__ == "__main__":
    main()
