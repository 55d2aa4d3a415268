#!/usr/bin/env bash
# Packs what scripts/checks/cuda.sh needs on a machine with an NVIDIA card and no Rust: the stripped programs, and the
# networks and goldens that are not in the repository. Copy the folder to that machine together with the checkout.
# Needs Rust and binutils.
#
# usage: scripts/checks/cuda_pack.sh FOLDER [net_pb2.py]
#   FOLDER      is deleted and made again, about 25 MB
#   net_pb2.py  protoc's output for the schema of network files, for ../shared/nets/make_nets.py; without it, the
#               speed of large networks is not measured
# environment:
#   PROFILE=release    Cargo's profile
#   CHAINS=1           also packs what the step `chains` needs: compiles the kernels, and builds a part of the engine again
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=${1:?usage: scripts/checks/cuda_pack.sh FOLDER [net_pb2.py]}
schema=${2:-}
profile=${PROFILE:-release}

cargo build --profile "$profile" --workspace --bin rukh --example distance --example sweep
built=$(cargo metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/$profile

rm -rf "$folder"
mkdir -p "$folder/shared"
strip -o "$folder/rukh" "$built/rukh"
strip -o "$folder/distance" "$built/examples/distance"
strip -o "$folder/sweep" "$built/examples/sweep"
if [ -n "${CHAINS:-}" ]; then
    chains=$(mktemp --suffix=.ptx)
    scripts/kernels/ptx.sh --chains "$chains"
    RUKH_KERNELS_CHAINS=$chains cargo build --profile "$profile" --workspace --example distance
    strip -o "$folder/distance-chains" "$built/examples/distance"
    rm "$chains"
fi
if [ -d ../shared/nets ]; then
    # Leaves out the networks of tests/data, which the checkout has, and those of other input formats (micro-in*), which
    # the tests make from micro-attn.
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
    echo "there is no ../shared: its networks and make_nets.py are not packed"
fi
if [ -n "$schema" ]; then cp "$schema" "$folder/net_pb2.py"; fi
du -sh "$folder"
