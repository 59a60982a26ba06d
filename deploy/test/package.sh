#!/bin/bash
# Installs the deb of one version in a Debian that has nothing of ours, runs the server by the command line of its unit,
# as a user without rights, upgrades it to another version with a run at work, removes and purges it. Then it runs the
# image in an empty root by its own command, as the image's user and as root. It needs root, debootstrap, iproute2 and
# the network.
#
# Not run here: systemd, because a root folder has none at work. The unit's sandbox is not applied, and what the
# package's scripts tell systemd is not told.
#
# Usage: package.sh OLD NEW [ROOT]; OLD and NEW are versions to build, or folders with a release. ROOT is a folder that
# debootstrap made, which is copied.
set -euo pipefail
old=$1 new=$2 root=${3:-}
tree=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
debian=$work/debian
server=

finish() {
	[ -z "$server" ] || kill "$server" 2>/dev/null || true
	wait || true
	rm -rf "$work"
}
trap finish EXIT

say() { printf '\n== %s\n' "$*"; }
fail() { echo "package: $*" >&2; exit 1; }

# release VERSION|FOLDER prints a folder with a release for this machine.
release() {
	if [ -d "$1" ]; then
		(cd "$1" && pwd)
		return
	fi
	make -s -C "$tree" release VERSION="$1" PLATFORMS="linux/$(dpkg --print-architecture)" >&2
	cp -r "$tree/bin/release" "$work/$1"
	echo "$work/$1"
}

inside() { chroot "$debian" "$@"; }

enter=(chroot) # how a server enters its root folder

# start ROOT USER DATA COMMAND… starts a server in a root folder of its own, and waits until it is ready.
start() {
	local at=$1 user=$2 data=$3
	shift 3
	unshare --mount --pid --fork --kill-child "${enter[@]}" --userspec="$user:$user" "$at" "$@" 2>>"$work/log" &
	server=$!
	for _ in $(seq 300); do
		if [ -s "$at$data/server.json" ]; then return; fi
		kill -0 "$server" 2>/dev/null || { cat "$work/log"; fail "the server has ended"; }
		sleep 0.1
	done
	fail "the server does not start"
}

# stop DATA ends the server in order, as systemd does by SIGTERM.
stop() {
	local child
	child=$(pgrep -P "$server")
	kill -TERM "$child"
	wait "$server" || true
	server=
}

old=$(release "$old")
new=$(release "$new")

say "a Debian without our tools"
if [ -n "$root" ]; then
	cp -a "$root" "$debian"
else
	debootstrap --variant=minbase bookworm "$debian" >/dev/null
fi
inside sh -c '! command -v go && . /etc/os-release && echo "$PRETTY_NAME"'

say "install"
cp "$old"/*.deb "$debian/tmp/old.deb"
cp "$new"/*.deb "$debian/tmp/new.deb"
inside dpkg -i /tmp/old.deb
inside mailroom version
inside sh -c 'mailroom licenses | tail -n +2 | wc -l'
[ ! -e "$debian/var/lib/mailroom" ] || fail "the installation made a data folder"
printf '[agents.echo]\npace = "500ms"\n' >>"$debian/etc/mailroom/mailroom.toml"

say "start by the unit's command, as a user without rights"
user=61184 # the first of systemd's dynamic users
install -d -m 0700 -o $user -g $user "$debian/var/lib/mailroom" # what StateDirectory makes
read -ra command < <(sed -n 's/^ExecStart=//p' "$debian/usr/lib/systemd/system/mailroom.service")
command+=(--listen 127.0.0.1:0) # a server of this machine may have the usual port
echo "${command[*]}"
start "$debian" $user /var/lib/mailroom "${command[@]}"
inside mailroom send --data /var/lib/mailroom "hello from a clean Debian"

say "upgrade with a run at work"
id=$(inside mailroom send --data /var/lib/mailroom --thread long --detach -o json \
	"one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen" |
	sed -n 's/.*"run":"\([^"]*\)".*/\1/p')
inside mailroom runs --data /var/lib/mailroom --filter thread:long
inside dpkg -i /tmp/new.deb
inside mailroom version
grep -q '^pace' "$debian/etc/mailroom/mailroom.toml" || fail "the upgrade replaced the settings"
stop
start "$debian" $user /var/lib/mailroom "${command[@]}"
inside timeout 120 mailroom attach --data /var/lib/mailroom "${id:-long}"
inside mailroom status --data /var/lib/mailroom | head -n 6
inside mailroom doctor --data /var/lib/mailroom

say "remove: data and settings stay"
stop
inside dpkg -r mailroom
if inside sh -c 'command -v mailroom'; then fail "the program is still there"; fi
ls "$debian/var/lib/mailroom/mailroom.db" "$debian/etc/mailroom/mailroom.toml" | sed "s|$debian||"

say "purge: they go"
inside dpkg -P mailroom
for at in var/lib/mailroom etc/mailroom; do
	[ ! -e "$debian/$at" ] || fail "$at is still there"
done
left=$(inside find / -xdev -iname "*mailroom*" -not -path "/proc/*" -not -path "/var/log/*")
[ -z "$left" ] || fail "the package has left $left"

for user in 65532 0; do
	say "the image, as user $user"
	image=$work/image-$user
	mkdir -p "$image" "$work/oci"
	tar -xf "$new"/*_oci.tar -C "$work/oci"
	# The one layer of the image for this machine, and how it starts.
	settings=$(python3 - "$work/oci" "$(dpkg --print-architecture)" <<'PY'
import json, shlex, sys
root, arch = sys.argv[1:]
blob = lambda d: json.load(open(root + "/blobs/sha256/" + d.split(":")[1]))
index = blob(json.load(open(root + "/index.json"))["manifests"][0]["digest"])
manifest = blob(next(m for m in index["manifests"] if m["platform"]["architecture"] == arch)["digest"])
config = blob(manifest["config"]["digest"])["config"]
print("layer=" + manifest["layers"][0]["digest"].split(":")[1])
print("data=" + shlex.quote(config["WorkingDir"]))
print("variables=(" + shlex.join(config["Env"]) + ")")
print("words=(" + shlex.join(config["Entrypoint"] + config["Cmd"]) + ")")
PY
	)
	eval "$settings"
	echo "${variables[*]} ${words[*]}"
	tar -xzf "$work/oci/blobs/sha256/$layer" -C "$image"
	# The image listens on all addresses: here on those of a network of its own, which nothing else reaches.
	program=$(command -v chroot)
	enter=(unshare --net sh -c 'ip link set lo up && exec "$@"' sh
		env -i "${variables[@]}" MAILROOM_BEHIND_PROXY=true "$program")
	start "$image" $user "$data" "${words[@]}"
	nsenter --target "$(pgrep -P "$server")" --net env -i "${variables[@]}" \
		"$program" --userspec=$user:$user "$image" /usr/bin/mailroom send "hello from the image"
	stop
done
say "done"
