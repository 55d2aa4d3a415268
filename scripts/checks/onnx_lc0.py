#!/usr/bin/env python3
"""Compares the ONNX models of `rukh leela2onnx` with those of lc0's own converter, node by node.

    scripts/checks/onnx_lc0.py LC0 NETWORK.pb.gz ... [--rukh target/debug/rukh]

LC0 is lc0's program. Both programs convert each network with several sets of flags, and also the heads of a network
with several. The nodes with their names, inputs and attributes, the shapes of the constants, the inputs and the outputs
must be equal. The weights may differ in the last bits, because lc0's compiler may fuse a multiplication and an addition when
it decodes LINEAR16. Three differences are intended, and are looked past:

- Rukh writes LayerNorms as elementary operators in opsets before 17, which do not have LayerNormalization.
- Rukh does not write version 3 of the file format, in which constants would have to be inputs too.
- lc0 leaves the batch of an attention policy's output open although the flag fixes it.

The exit code is 1 if there is another difference. Needs numpy and onnx.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

ROOT = Path(__file__).resolve().parents[2]
FLAGS = [
    [],
    ["--onnx-data-type=f16"],
    ["--onnx-data-type=bf16"],
    ["--onnx-opset=7"],
    ["--onnx-opset=12"],
    ["--onnx-opset=18"],
    ["--onnx-batch-size=4"],
    ["--onnx2pytorch"],
    ["--onnx2pytorch", "--onnx-data-type=f16"],
    ["--policy-head=optimistic", "--value-head=q"],
    ["--policy-head=soft", "--value-head=st"],
]
#: The largest difference of two weights, relative to the largest weight of their tensor: half a step of the type.
TOLERANCE = {onnx.TensorProto.FLOAT: 1e-6, onnx.TensorProto.FLOAT16: 1e-3, onnx.TensorProto.BFLOAT16: 8e-3}


def converted(program, network, flags, path):
    """The model, or None if the program refuses the flags."""
    path.unlink(missing_ok=True)
    command = [str(program), "leela2onnx", f"--input={network}", f"--output={path}", *flags]
    subprocess.run(command, capture_output=True, check=False)
    return onnx.load(path) if path.exists() else None


def opset(model):
    return model.opset_import[0].version


def nodes(model):
    def attributes(node):
        return sorted((attribute.name, str(onnx.helper.get_attribute_value(attribute))) for attribute in node.attribute)

    graph = model.graph
    return [(node.op_type, node.name, list(node.input), list(node.output), attributes(node)) for node in graph.node]


def without_norms(listed):
    """The nodes without LayerNorms in either form, and with the normalised tensors renamed alike."""
    parts = ("mean", "centered", "squared", "var", "var_eps", "std", "inv_std", "normalized", "gammas")
    kept = []
    for operator, name, inputs, outputs, attributes in listed:
        if operator == "LayerNormalization" or name.endswith("/betas") or name.split("/")[-1] in parts:
            continue
        inputs = [tensor.removesuffix("/betas") for tensor in inputs]
        kept.append((operator, name, inputs, outputs, attributes))
    return kept


def shapes(model):
    return {tensor.name: (tuple(tensor.dims), tensor.data_type) for tensor in model.graph.initializer}


def interface(model, is_batch_open):
    described = []
    for value in [*model.graph.input, *model.graph.output]:
        tensor = value.type.tensor_type
        sizes = [dimension.dim_value or dimension.dim_param for dimension in tensor.shape.dim]
        described.append((value.name, tensor.elem_type, sizes if is_batch_open else sizes[1:]))
    return described


def difference(lc0, rukh, flags):
    """What differs, or None."""
    old = opset(lc0) < 17
    ours, theirs = nodes(rukh), nodes(lc0)
    if old:
        ours, theirs = without_norms(ours), without_norms(theirs)
    for our, their in zip(ours, theirs):
        if our != their:
            return f"node {our} is {their} in lc0"
    if len(ours) != len(theirs):
        return f"{len(ours)} nodes; lc0 has {len(theirs)}"
    if not old and shapes(rukh) != shapes(lc0):
        return f"constants: {sorted(shapes(rukh).items() ^ shapes(lc0).items())[:4]}"
    is_batch_open = not any(flag.startswith("--onnx-batch-size") for flag in flags)
    if interface(rukh, is_batch_open) != interface(lc0, is_batch_open):
        return "the inputs and outputs differ"
    if opset(rukh) != opset(lc0) or rukh.ir_version != max(lc0.ir_version, 4):
        return "the versions differ"
    theirs = {tensor.name: tensor for tensor in lc0.graph.initializer}
    for tensor in rukh.graph.initializer:
        if tensor.name not in theirs:
            continue
        our = numpy_helper.to_array(tensor).astype(np.float64)
        their = numpy_helper.to_array(theirs[tensor.name]).astype(np.float64)
        allowed = TOLERANCE.get(tensor.data_type, 0) * np.abs(their).max()
        if np.abs(our - their).max() > allowed:
            return f"the values of {tensor.name} differ by {np.abs(our - their).max()}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lc0", type=Path)
    parser.add_argument("networks", type=Path, nargs="+")
    parser.add_argument("--rukh", type=Path, default=ROOT / "target/debug/rukh")
    arguments = parser.parse_args()
    same, different = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for network in arguments.networks:
            for flags in FLAGS:
                lc0 = converted(arguments.lc0, network, flags, Path(folder) / "lc0.onnx")
                if lc0 is None:
                    continue
                rukh = converted(arguments.rukh, network, flags, Path(folder) / "rukh.onnx")
                found = "Rukh does not convert it" if rukh is None else difference(lc0, rukh, flags)
                same, different = same + (found is None), different + (found is not None)
                if found is not None:
                    print(f"{network.name} {' '.join(flags)}: {found}")
    print(f"{same} models are those of lc0, {different} are not")
    return 1 if different or not same else 0


if __name__ == "__main__":
    sys.exit(main())
