#!/usr/bin/env bash
# Gathers what scripts/checks/cuda.sh needs on a machine with an NVIDIA card and no Rust: the programs, stripped, and
# the networks and goldens that are not in the repository. The folder is then taken along with the checkout.
#
# usage: scripts/checks/cuda_pack.sh FOLDER [net_pb2.py]
#   FOLDER      made anew, some 25 MB
#   net_pb2.py  of the network file's schema, made by protoc, for ../shared/nets/make_nets.py; without it there are
#               no large networks to measure the speed with
# PROFILE names Cargo's profile: release unless set.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=${1:?usage: scripts/checks/cuda_pack.sh FOLDER [net_pb2.py]}
schema=${2:-}
profile=${PROFILE:-release}

cargo build --profile "$profile" -p rukh
# One by one, or Cargo leaves the shared library of an earlier build beside new examples.
cargo build --profile "$profile" -p rocm-cuda-shim --lib
cargo build --profile "$profile" -p rocm-cuda-shim --example distance --example sweep
tests=$(cargo test --profile "$profile" -p rocm-cuda-shim --test cuda_shim --no-run --message-format=json \
    | sed -n 's/.*"executable":"\([^"]*cuda_shim-[^"]*\)".*/\1/p' | tail -1)
built=$(cargo metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/$profile

rm -rf "$folder"
mkdir -p "$folder/lib" "$folder/shared"
strip -o "$folder/rukh" "$built/rukh"
strip -o "$folder/distance" "$built/examples/distance"
strip -o "$folder/sweep" "$built/examples/sweep"
# Tests look for the library beside them.
strip -o "$folder/lib/cuda_shim" "$tests"
strip -o "$folder/lib/librocm_cuda_shim.so" "$built/librocm_cuda_shim.so"
if [ -d ../shared/nets ]; then
    # Those of tests/data are in the checkout, and the networks of input formats are made from micro-attn.
    for golden in ../shared/goldens/*.json; do
        name=$(basename "$golden" .json)
        [ "$name" = planes ] || [ -e "tests/data/$name.json.gz" ] || cp "$golden" "$folder/shared/"
    done
    for network in ../shared/nets/*.pb.gz; do
        name=$(basename "$network")
        if [ ! -e "tests/data/$name" ] && [[ $name != micro-in* ]]; then cp "$network" "$folder/shared/"; fi
    done
    cp ../shared/nets/make_nets.py "$folder/"
else
    echo "no ../shared: neither its networks nor make_nets.py are packed"
fi
if [ -n "$schema" ]; then cp "$schema" "$folder/net_pb2.py"; fi
du -sh "$folder"
