#!/usr/bin/env bash
# Builds the Debian package in target/debian, and prints its path. Needs cargo-deb (`cargo install cargo-deb --locked`)
# and Debian or Ubuntu. The package runs on the release it was built on, and on newer ones.
#
# usage: scripts/packages/deb.sh
# environment:
#   RUKH_PROGRAM       packs this program and builds nothing
#   RUKH_MAINTAINER    who answers for the package, as `Name <address>`
set -euo pipefail
cd "$(dirname "$0")/../.."

if [ -n "${RUKH_PROGRAM:-}" ]; then
    mkdir -p target/release
    [ "$RUKH_PROGRAM" -ef target/release/rukh ] || cp "$RUKH_PROGRAM" target/release/rukh
else
    cargo build --release --locked >&2
fi

maintainer=${RUKH_MAINTAINER:-$(sed -n 's/^maintainer = "\(.*\)"/\1/p' Cargo.toml)}
version=$(sed -n '/^\[workspace.package\]/,/^version/s/^version = "\(.*\)"/\1/p' Cargo.toml)
files=target/packages/shell-files
scripts/packages/shell_files.sh target/release/rukh "$files"
# The last commit has a date that does not depend on the time of the build.
date=$(git log -1 --format=%cD 2>/dev/null || date -R)
cat >"$files/changelog" <<END
rukh ($version-1) unstable; urgency=medium

  * The changes are listed in /usr/share/doc/rukh/changelog.gz.

 -- $maintainer  $date
END
# cargo-deb compresses the page and the changelogs, and finds the libraries that the program needs.
exec cargo deb --package rukh --no-build --strip --maintainer "$maintainer"
