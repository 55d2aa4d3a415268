#!/usr/bin/env python3
"""Evaluates the ONNX models that `rukh leela2onnx` writes, and compares the outputs with the golden ones.

    scripts/checks/onnx_models.py [--folder FOLDER] [--written]

The test `cases_for_onnxruntime_are_written` converts every network that has golden evaluations (and some in several
ways), and writes the models, the input planes and the expected outputs into FOLDER (target/onnx_cases by default).
With --written they are already there. Each model must pass ONNX's checker, and onnxruntime must compute the expected
outputs: q (win minus loss) and d within the tolerance, and the logits of the policy and the moves left within the
tolerance times their magnitude, where that is above 1. The golden outputs are lc0's in fp32. The exit code is 1 if a
model fails. Needs numpy, onnx and onnxruntime.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

ROOT = Path(__file__).resolve().parents[2]
TEST = "onnx_cases::cases_for_onnxruntime_are_written"


def write_cases(folder):
    # All targets of the workspace are built, as for the other tests, because for fewer Cargo would build the engine
    # again.
    command = ["cargo", "test", "--workspace", "--quiet", "--test", "integration", "--", "--ignored", "--exact", TEST]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, "RUKH_ONNX_CASES": str(folder)},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"{done.stdout}\nthe test {TEST} could not write the models")


def relative(found, expected):
    return abs(found - expected) / max(1.0, abs(expected))


def differences(model_path, planes, positions):
    """The largest differences of the policy, q, d and the moves left over the positions."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    session = onnxruntime.InferenceSession(str(model_path), options, providers=["CPUExecutionProvider"])
    (declared,) = session.get_inputs()
    planes = planes.astype(np.float16 if declared.type == "tensor(float16)" else np.float32)
    names = [output.name for output in session.get_outputs()]
    computed = session.run(None, {declared.name: planes})
    outputs = {name: values.astype(np.float64) for name, values in zip(names, computed)}
    largest = dict.fromkeys(("policy", "q", "d", "m"), 0.0)
    for row, position in enumerate(positions):
        indices = [index for index, _ in position["policy"]]
        logits = np.array([logit for _, logit in position["policy"]])
        errors = np.abs(outputs["/output/policy"][row, indices] - logits) / np.maximum(1.0, np.abs(logits))
        if "/output/wdl" in outputs:
            win, draw, loss = outputs["/output/wdl"][row]
            q = win - loss
        else:
            q, draw = outputs["/output/value"][row, 0], 0.0
        found = {"policy": errors.max(initial=0.0), "q": abs(q - position["q"]), "d": abs(draw - position["d"])}
        if "/output/mlh" in outputs:
            found["m"] = relative(outputs["/output/mlh"][row, 0], position["m"])
        for name, difference in found.items():
            # Unlike `max`, this keeps a NaN.
            largest[name] = np.maximum(largest[name], difference)
    return largest


def check(folder, case):
    """A line for the table, and whether the model is right."""
    model_path = folder / f"{case['name']}.onnx"
    onnx.checker.check_model(onnx.load(model_path), full_check=True)
    if case["tolerance"] is None:
        return f"{case['name']:64} consistent; not evaluated", True
    positions = json.loads((folder / f"{case['inputs']}.json").read_text())
    planes = np.fromfile(folder / f"{case['inputs']}.planes", np.float32).reshape(len(positions), 112, 8, 8)
    largest = differences(model_path, planes, positions)
    is_right = all(difference <= case["tolerance"] for difference in largest.values())
    figures = "".join(f"{difference:10.1e}" for difference in largest.values())
    return f"{case['name']:64}{figures}{case['tolerance']:10.0e}{'' if is_right else '  WRONG'}", is_right


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=ROOT / "target/onnx_cases")
    parser.add_argument("--written", action="store_true", help="evaluate the models that are in the folder")
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    if not arguments.written:
        write_cases(folder)
    cases = json.loads((folder / "cases.json").read_text())
    print(f"{'largest differences':64}{'policy':>10}{'q':>10}{'d':>10}{'m':>10}{'allowed':>10}")
    wrong = 0
    for case in cases:
        try:
            line, is_right = check(folder, case)
        except Exception as error:  # The libraries raise many types, and each means that the model is wrong.
            line, is_right = f"{case['name']:64} {error}", False
        print(line)
        wrong += not is_right
    print(f"{len(cases) - wrong} of {len(cases)} models are right")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
