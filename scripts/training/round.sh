#!/bin/sh
# Writes weights/rukh-128x6.int8.gz: how `cpu-int8` rounds the weights of the embedded network. Run it whenever that
# network changes, or the code that rounds (src/backend/cpu/calibration.rs, src/backend/cpu/kernels/matrix/quantise.rs).
#
#   scripts/training/round.sh [CARGO ARGUMENTS]
#
# It needs a processor with AVX-512 VNNI. A test of rukh-cpu does the work and then checks the result.
set -eu
cd "$(dirname "$0")/../.."
name=the_embedded_rounding_is_what_calibration_gives
RUKH_WRITE_ROUNDING=1 cargo test "$@" --package rukh-cpu --lib "$name" -- --nocapture
checked=$(cargo test "$@" --package rukh-cpu --lib "$name" -- --nocapture) || { echo "$checked"; exit 1; }
echo "$checked"
# A test that has another name now, or that this processor skips, has written and checked nothing.
echo "$checked" | grep -q "weights are rounded to another step" || { echo "nothing was checked" >&2; exit 1; }
