#!/usr/bin/env bash
# Packs the program that archive.sh has built for Linux as a Debian package in target/packages, and prints its path.
# Needs cargo-deb (`cargo install cargo-deb --locked`).
#
# usage: scripts/packages/deb.sh TARGET
# environment:
#   RUKH_MAINTAINER    who answers for the package, as `Name <address>`
set -euo pipefail
. "$(dirname "$0")/common.sh"

[ $# = 1 ] || usage
maintainer=${RUKH_MAINTAINER:-$(sed -n 's/^maintainer = "\(.*\)"/\1/p' Cargo.toml)}
unpacked=$results/unpacked/rukh-$version-linux-${1%%-*}
# Cargo.toml says which files are installed, and where.
files=$results/shell-files
rm -rf "$files"
cp -r "$unpacked/completions" "$files"
cp "$unpacked"/{rukh.6,licences-of-others.txt} "$files/"
# The last commit has a date that does not depend on the time of the build.
date=$(git log -1 --format=%cD 2>/dev/null || date -R)
cat >"$files/changelog" <<END
rukh ($version-1) unstable; urgency=medium

  * The changes are listed in /usr/share/doc/rukh/changelog.gz.

 -- $maintainer  $date
END
# cargo-deb compresses the page and the changelogs.
exec cargo deb --package rukh --target "$1" --no-build --no-strip --maintainer "$maintainer" --output "$results/"
