#!/bin/sh
# Installs mailroom and bd from a release. Nothing runs before the whole script is here, because it is one function that
# its last line calls.
#
#   MAILROOM_BASE      address of the releases: https://…, or file:///folder of one
#   MAILROOM_VERSION   version to install (default below)
#   INSTALL_DIR        folder for the programs (default ~/.local/bin)
#   MAILROOM_PUBKEY    public key of minisign; with it, an unsigned or wrongly signed release is refused. An address that
#                      begins with http:// needs it, unless it is of this machine
#
# It needs curl or wget for addresses of the web, tar, and sha256sum or shasum. It never uses sudo and changes no
# profile of a shell.
set -eu

BASE="${MAILROOM_BASE:-}"
VERSION="${MAILROOM_VERSION:-0.1.0}"

fail() {
	echo "install: $*" >&2
	exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

# fetch NAME copies a file of the release to the folder of this installation.
fetch() {
	case $BASE in
	file://*) cp "${BASE#file://}/$1" "$work/$1" 2>/dev/null ;;
	https://*) # also after a redirect
		if have curl; then
			curl -fsSL --proto '=https' --proto-redir '=https' -o "$work/$1" "$BASE/$1"
		elif have wget; then
			wget -q --max-redirect=0 -O "$work/$1" "$BASE/$1"
		else
			fail "needs curl or wget"
		fi
		;;
	*)
		if have curl; then
			curl -fsSL --proto '=https,http' -o "$work/$1" "$BASE/$1"
		elif have wget; then
			wget -q -O "$work/$1" "$BASE/$1"
		else
			fail "needs curl or wget"
		fi
		;;
	esac
}

sum() {
	if have sha256sum; then
		sha256sum "$1"
	elif have shasum; then
		shasum -a 256 "$1"
	else
		fail "needs sha256sum or shasum, because it installs nothing that it did not check"
	fi | cut -d' ' -f1
}

# verify checks the signature of the checksums, if there is a key, and the checksum of a file.
verify() {
	if [ -n "${MAILROOM_PUBKEY:-}" ]; then
		have minisign || fail "MAILROOM_PUBKEY is set, and minisign is not installed"
		fetch checksums.txt.minisig || fail "the release is not signed; without MAILROOM_PUBKEY only checksums are checked"
		minisign -Vqm "$work/checksums.txt" -P "$MAILROOM_PUBKEY" >/dev/null ||
			fail "the signature of checksums.txt is not by MAILROOM_PUBKEY"
	fi
	want=$(while read -r digest name; do
		if [ "$name" = "$1" ]; then echo "$digest"; fi
	done <"$work/checksums.txt")
	[ -n "$want" ] || fail "checksums.txt does not name $1"
	got=$(sum "$work/$1")
	[ "$got" = "$want" ] || fail "$1 has the SHA-256 $got, and not $want: the download is damaged or was changed"
}

main() {
	[ -n "$BASE" ] || fail "set MAILROOM_BASE to the address of the releases, such as file:///folder/with/a/release"
	case $BASE in
	https://* | file://*) ;;
	http://*@*) fail "MAILROOM_BASE has a name of a user: use an address without it" ;;
	http://127.0.0.1[:/]* | http://localhost[:/]*) ;;
	http://*)
		# Who can change the release on its way can change its checksums.
		[ -n "${MAILROOM_PUBKEY:-}" ] || fail "$BASE is not encrypted: set MAILROOM_PUBKEY, or use https://"
		;;
	*) fail "MAILROOM_BASE is $BASE; use an address that begins with https:// or file://" ;;
	esac
	case $(uname -s) in
	Linux) os=linux ;;
	Darwin) os=darwin ;;
	*) fail "there is no release for $(uname -s); the server needs Linux or macOS" ;;
	esac
	case $(uname -m) in
	x86_64 | amd64) arch=amd64 ;;
	aarch64 | arm64) arch=arm64 ;;
	*) fail "there is no release for processors of the kind $(uname -m)" ;;
	esac
	to=${INSTALL_DIR:-$HOME/.local/bin}
	name=mailroom_${VERSION}_${os}_$arch

	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	trap 'exit 130' INT TERM
	fetch checksums.txt || fail "cannot read $BASE/checksums.txt"
	fetch "$name.tar.gz" || fail "cannot read $BASE/$name.tar.gz"
	verify "$name.tar.gz"
	tar -xzf "$work/$name.tar.gz" -C "$work"
	mkdir -p "$to"
	for program in mailroom bd; do
		# A new file under the old name: a program that runs keeps its own.
		cp "$work/$name/$program" "$to/.$program.new"
		chmod 755 "$to/.$program.new"
		mv "$to/.$program.new" "$to/$program"
	done
	"$to/mailroom" --version
	case :$PATH: in
	*:"$to":*) ;;
	*) echo "Add $to to PATH to call mailroom by its name." ;;
	esac
	echo "Next: mailroom serve, and in another terminal: mailroom send --agent tour hello"
}

main "$@"
