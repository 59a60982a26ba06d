#!/bin/sh
# Makes a repository with four issues in the folder "work", and a clone of it for each of two agents.
set -eu
mkdir work && cd work
git init -q --bare -b main origin.git
git clone -q origin.git ann 2>/dev/null
cd ann
git checkout -q -b main
git config user.name ann && git config user.email ann@example.org
git config merge.bd.driver "bd merge %A %O %A %B"
bd init --prefix page >/dev/null
echo ".beads/issues.jsonl merge=bd" >.gitattributes
echo "# Pages" >index.md
all=""
for title in "The roof" "The harbour" "The garden"; do
	all="$all,$(bd q "$title")"
done
bd create "What the pages have in common" --deps "${all#,}" >/dev/null # ready when the others are closed
git add -A && git commit -q -m "Begin" && git push -q -u origin main
cd ..
git clone -q origin.git bob
cd bob
git config user.name bob && git config user.email bob@example.org
git config merge.bd.driver "bd merge %A %O %A %B"
echo "work/ann and work/bob are two clones of work/origin.git"
