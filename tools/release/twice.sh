#!/bin/sh
# Builds a release in two clones of this tree, in folders with names of other lengths, and compares all files.
# Usage: twice.sh VERSION [PLATFORMS]
set -eu
version=$1
platforms=${2:-}
tree=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
commit=$(git -C "$tree" rev-parse HEAD)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
(cd "$tree/tools/release" && GOWORK=off go build -o "$work/make-release" .)
for name in one another-folder/deeper; do
	mkdir -p "$(dirname "$work/$name")"
	git clone -q --no-hardlinks "$tree" "$work/$name"
	git -C "$work/$name" checkout -q --detach "$commit"
	"$work/make-release" -root "$work/$name" -out "$work/$name/bin/release" -version "$version" -platforms "$platforms"
done
diff -r "$work/one/bin/release" "$work/another-folder/deeper/bin/release"
echo "both folders have the same files"
