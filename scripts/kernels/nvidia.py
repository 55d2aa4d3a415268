#!/usr/bin/env python3
"""Compiles the GPU kernels for an NVIDIA GPU with NVRTC, as the CUDA shim does when it runs.

usage: nvidia.py [sm_90]

Prints the registers and the shared memory of each kernel, and fails if a kernel does not compile, spills or uses a
stack. Needs libnvrtc in the library path or from `pip install nvidia-cuda-nvrtc`, but neither a GPU nor CUDA's headers.
"""
import ctypes
import glob
import os
import re
import sys

KERNELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "hip", "kernels")


def load():
    names = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"]
    for folder in sys.path:
        names += sorted(glob.glob(os.path.join(folder, "nvidia", "*", "lib", "libnvrtc.so.*")))
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            pass
    sys.exit("nvidia.py: libnvrtc was not found: pip install nvidia-cuda-nvrtc")


def compile_all(nvrtc, architecture):
    """Compiles all kernels; returns the compiler's status and log."""
    program = ctypes.c_void_p()
    with open(os.path.join(KERNELS, "all.hip"), "rb") as file:
        nvrtc.nvrtcCreateProgram(ctypes.byref(program), file.read(), b"all.hip", 0, None, None)
    options = [f"--gpu-architecture={architecture}", f"-I{KERNELS}", "--std=c++17", "--ptxas-options=-v"]
    encoded = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
    status = nvrtc.nvrtcCompileProgram(program, len(options), encoded)
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return status, log.value.decode()


def main():
    architecture = sys.argv[1] if len(sys.argv) > 1 else "sm_90"
    nvrtc = load()
    status, log = compile_all(nvrtc, architecture)
    warnings = [line for line in log.splitlines() if "warning" in line or "error" in line]
    if status != 0 or warnings:
        print(log[:4000], file=sys.stderr)
        sys.exit(f"nvidia.py: the kernels do not compile cleanly for {architecture}")
    major, minor = ctypes.c_int(), ctypes.c_int()
    nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    print(f"NVRTC {major.value}.{minor.value}, {architecture}")
    print("| kernel | registers | shared bytes |")
    print("|---|---:|---:|")
    failed, rows = [], []
    for part in log.split("Compiling entry function")[1:]:
        name = re.search(r"'(\w+)'", part).group(1)
        registers = int(re.search(r"Used (\d+) registers", part).group(1))
        shared = re.search(r"(\d+) bytes smem", part)
        stack = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", part)
        if stack and any(int(number) for number in stack.groups()):
            failed.append(name)
        rows.append((name, registers, int(shared.group(1)) if shared else 0))
    for name, registers, shared in sorted(rows):
        print(f"| {name} | {registers} | {shared} |")
    if failed or not rows:
        message = f"these kernels spill or use a stack: {', '.join(failed)}" if failed else "the log names no kernel"
        sys.exit(f"nvidia.py: {message}")


main()
