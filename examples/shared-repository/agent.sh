#!/bin/sh
# A coding agent without a model. In its clone of the repository it takes issues, writes a page for each, and pushes.
# Start it again after any kill: it goes on with the issue that it holds.
set -eu
me=$1 clone=$2
# What is in no commit is dropped below, so another repository is refused.
[ -d "$clone/../origin.git" ] || { echo "$clone is no clone of setup.sh" >&2; exit 2; }
cd "$clone"
export BD_ACTOR="$me" BEADS_AGENT_NAME="$me"

say() { echo "$me: $*"; }
save() { git add -A && { git diff --cached --quiet || git commit -q -m "$1"; }; }
share() { # until nobody else pushes in between
	git pull -q --rebase
	until git push -q 2>/dev/null; do git pull -q --rebase; done
}

# What a kill has left: a half-done git command, and changes that are in no commit.
rm -f .git/index.lock
git rebase --abort 2>/dev/null || true
git reset -q --hard && git clean -qfd
share

while [ "$(bd count --status open,in_progress)" -gt 0 ]; do
	issue=$(bd list --status in_progress --assignee "$me" | sed -n 's/^\([^ ]*\)  P.*/\1/p' | head -n 1)
	if [ -z "$issue" ]; then
		# The server refuses what another agent holds, before git could tell.
		taken=$(bd ready --claim 2>/dev/null | sed -n 's/^Claimed \([^:]*\): .*/\1/p')
		if [ -n "$taken" ]; then
			say "took $taken"
			save "$me takes $taken"
		else # all are taken, or wait for the others
			mailroom project inbox --as "$me" 2>/dev/null | grep -o 'issue\.closed' | head -n 1 | sed "s/^/$me: heard of /" || true
			sleep "${PACE:-1}"
		fi
		share
		continue
	fi

	title=$(bd show "$issue" | sed -n '1s/^[^ ]*  //p')
	mkdir -p pages
	echo "# $title" >"pages/$issue.md" # a real agent calls its model for that
	sleep "${PACE:-1}"
	save "$issue: write the page"

	# Both agents change this file. The holder of the reservation begins with what the last one pushed.
	mailroom project reserve index.md --as "$me" --ttl 10m >/dev/null 2>&1 || say "waits for index.md"
	until mailroom project reserve index.md --as "$me" --ttl 10m >/dev/null 2>&1; do sleep "${PACE:-1}"; done
	share
	grep -q "$issue" index.md || echo "- [$title](pages/$issue.md), by $me" >>index.md
	bd close "$issue" --reason "written by $me" >/dev/null
	save "$issue: list the page"
	share
	mailroom project release index.md --as "$me" >/dev/null 2>&1 || true # else it ends after its ten minutes
	say "finished $issue"
done
share
say "nothing is left"
