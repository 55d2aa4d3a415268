#!/usr/bin/env bash
# Fills in the recipes for Arch Linux and Homebrew for a release, in target/packages: PKGBUILD, SRCINFO (the file
# .SRCINFO, which a release cannot hold under that name) and rukh.rb.
#
# usage: scripts/packages/recipes.sh REPOSITORY SOURCE URL
#   REPOSITORY    the address of the project's page
#   SOURCE        the archive of the source, made by `git archive`
#   URL           the address of that archive in the release
set -euo pipefail
. "$(dirname "$0")/common.sh"

[ $# = 3 ] || usage
checksum=$( (sha256sum "$2" 2>/dev/null || shasum -a 256 "$2") | cut -d ' ' -f 1)
# The source in the archive is no checkout, so the recipes say which commit it is. git archive writes that down.
commit=$(git get-tar-commit-id < <(gzip --decompress --stdout "$2" 2>/dev/null)) || {
    echo "$2 does not name its commit; make it with git archive" >&2
    exit 1
}
for recipe in aur/PKGBUILD aur/SRCINFO homebrew/rukh.rb; do
    sed -e "s|@REPOSITORY@|$1|g; s|@URL@|$3|g; s|@VERSION@|$version|g; s|@CHECKSUM@|$checksum|g" \
        -e "s|@COMMIT@|$commit|g" "scripts/packages/$recipe" >"$results/${recipe##*/}"
    echo "$results/${recipe##*/}"
done
