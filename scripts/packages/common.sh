# shellcheck shell=bash
# shellcheck disable=SC2034  # the scripts use the variables
# What the scripts of this folder share; they source it. It enters the repository's root.
script=$(realpath "$0")
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit
# The version of the release.
version=$(sed -n '/^\[workspace.package\]/,/^version/s/^version = "\(.*\)"/\1/p' Cargo.toml)
# The folder of finished packages. Its folders hold what is not published.
results=$PWD/target/packages
# The oldest glibc that a program for Linux runs with. `depends` in Cargo.toml has it too.
glibc=2.28
export CARGO_TARGET_DIR=$PWD/target
mkdir -p "$results"

# usage: prints the comment at the top of the script, without its first line, and fails.
usage() {
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$script" >&2
    exit 2
}
