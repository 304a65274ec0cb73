# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
#
# What all *.bats files load: `load helpers` on their first lines. tests/run
# sets QIMG, QIO, SRCDIR, BUILDDIR and VARIANT; to run one file by hand in a
# build directory: make check TESTS=name (KEEP=1 leaves the scratch directory).
#
# Every test starts in an empty directory of its own ($scratch). Loop devices
# and mounts made through the functions below are taken back when it ends,
# however it ends. A file that needs a setup or teardown of its own calls
# helpers_setup first and helpers_teardown last.

export LC_ALL=C TZ=UTC
: "${QIMG:=$PWD/qimg}" "${QIO:=$PWD/qio}" "${SRCDIR:=$(cd "$BATS_TEST_DIRNAME/.." && pwd)}"
: "${BUILDDIR:=$PWD}" "${VARIANT:=}" "${CC:=cc}"
export QIMG QIO SRCDIR BUILDDIR VARIANT CC
# mkfs and losetup live where only root looks
case :$PATH: in
*:/usr/sbin:*) ;;
*) PATH=$PATH:/usr/sbin:/sbin ;;
esac

# The programs by their names; the variables serve where a path is wanted.
qimg() { "$QIMG" "$@"; }
qio() { "$QIO" "$@"; }
# shellcheck disable=SC2086 # CC may be several words
compile() { $CC "$@"; }

helpers_setup() {
	scratch=$BATS_TEST_TMPDIR/scratch
	mkdir -p "$scratch"
	cd "$scratch" || return 1
	: >"$BATS_TEST_TMPDIR/undo"
}

helpers_teardown() {
	cd / || return 1
	undo_all
}

setup() { helpers_setup; }
teardown() { helpers_teardown; }

# ------------------------------------------------------------------- undoing

# undo COMMAND...: run when the test ends, last one first. Works from
# subshells, so that `dev=$(loop_device f)` does.
undo() {
	printf '%q ' "$@" >>"$BATS_TEST_TMPDIR/undo"
	echo >>"$BATS_TEST_TMPDIR/undo"
}

undo_all() {
	local line
	[ -s "$BATS_TEST_TMPDIR/undo" ] || return 0
	tac "$BATS_TEST_TMPDIR/undo" | while read -r line; do
		eval "$line" || true
	done
	: >"$BATS_TEST_TMPDIR/undo"
}

# ---------------------------------------------------------- what a test needs

# need PROGRAM...: skip the test where one is missing
need() {
	local program
	for program; do
		command -v "$program" >/dev/null || skip "$program is not installed"
	done
}

need_root() {
	[ "$(id -u)" -eq 0 ] || skip 'needs root'
}

# need_loop: root and loop devices
need_loop() {
	local device
	need_root
	need losetup
	device=$(losetup -f 2>/dev/null) || device=
	[ -b "$device" ] || skip 'no loop devices here'
}

# need_plain: the behaviour does not depend on the variant that is built, or
# sanitizers stand in its way (limits on memory, strace, time)
need_plain() {
	[ -z "$VARIANT" ] || skip "not for the variant $VARIANT"
}

need_no_sanitizer() {
	case $VARIANT in
	*address* | *undefined* | *thread* | *memory* | *leak*) skip 'not under sanitizers' ;;
	esac
}

# --------------------------------------------------------- devices and mounts

# loop_device FILE [LOSETUP_OPTION...]: prints the device
loop_device() {
	local file=$1 device try
	shift
	need_loop
	# Another process may take the free device first.
	for try in 1 2 3 4 5; do
		if device=$(losetup -f --show "$@" -- "$file" 2>"$BATS_TEST_TMPDIR/losetup.err"); then
			undo losetup -d "$device"
			echo "$device"
			return 0
		fi
		sleep "0.$try"
	done
	cat "$BATS_TEST_TMPDIR/losetup.err" >&2
	return 1
}

# mount_fs TYPE SIZE DIR: a new file system (ext4, xfs, btrfs, tmpfs, vfat) of
# that size, mounted at DIR. Skips where that cannot be had.
mount_fs() {
	local type=$1 size=$2 dir=$3 file
	need_root
	need mount umount
	mkdir -p "$dir"
	dir=$(cd "$dir" && pwd)
	if [ "$type" = tmpfs ]; then
		mount -t tmpfs -o "size=$size" tmpfs "$dir" || skip 'tmpfs cannot be mounted'
	else
		need "mkfs.$type"
		need_loop
		file=$BATS_TEST_TMPDIR/fs-$type-$RANDOM$RANDOM
		truncate -s "$size" "$file"
		"mkfs.$type" "$file" >"$file.log" 2>&1 || { cat "$file.log" >&2; return 1; }
		mount -o loop "$file" "$dir" 2>"$file.log" || skip "$type cannot be mounted: $(cat "$file.log")"
	fi
	undo unmount_fs "$dir"
}

unmount_fs() {
	local try
	for try in 1 2 3 4; do
		umount "$1" 2>/dev/null && return 0
		sleep "0.$try"
	done
	umount -l "$1"
}

# --------------------------------------------------------------------- data

# pattern_file FILE SIZE [SEED]: SIZE bytes that do not repeat and do not
# compress well, always the same for the same seed
pattern_file() {
	need python3
	python3 -c '
import random, sys
from_k = {"K": 10, "M": 20, "G": 30}
size = sys.argv[2]
n = int(size[:-1]) << from_k[size[-1]] if size[-1] in from_k else int(size)
r = random.Random(int(sys.argv[3]))
with open(sys.argv[1], "wb") as f:
    while n > 0:
        f.write(r.randbytes(min(n, 1 << 20)))
        n -= 1 << 20
' "$1" "$2" "${3:-1}"
}

# hash FILE: of what it reads as
hash() {
	sha256sum <"$1" | cut -d' ' -f1
}

# poke FILE OFFSET HEX: overwrites bytes of a file, as in poke img.qcow2 8 000000ff
poke() {
	need python3
	python3 -c '
import sys
with open(sys.argv[1], "r+b") as f:
    f.seek(int(sys.argv[2], 0))
    f.write(bytes.fromhex(sys.argv[3]))
' "$1" "$2" "$3"
}

# peek FILE OFFSET COUNT: the bytes there, in hex
peek() {
	od -An -v -tx1 -j "$(($2))" -N "$(($3))" -- "$1" | tr -d ' \n'
	echo
}

# json FILE EXPRESSION: evaluates Python over the JSON document `d`, as in
# json info.json 'd["virtual-size"]'; FILE - is stdin
json() {
	need python3
	python3 -c '
import json, sys
d = json.load(sys.stdin if sys.argv[1] == "-" else open(sys.argv[1]))
v = eval(sys.argv[2])
print(json.dumps(v) if isinstance(v, (bool, dict, list, type(None))) else v)
' "$1" "$2"
}

allocated() {
	echo $(($(stat -c %b -- "$1") * 512))
}

# --------------------------------------------------------------- assertions
#
# Each returns non-zero and says why on stderr, which fails the test.

fail() {
	echo "$*" >&2
	return 1
}

# equal GOT WANT [WHAT]
equal() {
	[ "$1" = "$2" ] || fail "${3:+$3: }got '$1', want '$2'"
}

# contains TEXT PART
contains() {
	case $1 in
	*"$2"*) ;;
	*) fail "'$2' is not in: $1" ;;
	esac
}

lacks() {
	case $1 in
	*"$2"*) fail "'$2' is in: $1" ;;
	esac
}

# is_clean FILE [FORMAT]: the reference finds no error and no leak
is_clean() {
	need qemu-img
	qemu-img check -f "${2:-qcow2}" "$1" >"$BATS_TEST_TMPDIR/check.log" 2>&1 ||
		fail "qemu-img check $1 ended with $?: $(cat "$BATS_TEST_TMPDIR/check.log")"
}

# is_sound FILE [FORMAT]: no error; leaks are allowed
is_sound() {
	local status=0
	need qemu-img
	qemu-img check -f "${2:-qcow2}" "$1" >"$BATS_TEST_TMPDIR/check.log" 2>&1 || status=$?
	[ $status -eq 0 ] || [ $status -eq 3 ] ||
		fail "qemu-img check $1 ended with $status: $(cat "$BATS_TEST_TMPDIR/check.log")"
}

# same FMT1 FILE1 FMT2 FILE2: the reference reads the same from both
same() {
	need qemu-img
	qemu-img compare -f "$1" -F "$3" "$2" "$4" >"$BATS_TEST_TMPDIR/compare.log" 2>&1 ||
		fail "$2 and $4: $(cat "$BATS_TEST_TMPDIR/compare.log")"
}

# refused FILE COMMAND...: ends with status 1, says why on stderr, and leaves
# no FILE. The message is in $BATS_TEST_TMPDIR/stderr, see `says`.
refused() {
	local file=$1 status=0
	shift
	"$@" >"$BATS_TEST_TMPDIR/stdout" 2>"$BATS_TEST_TMPDIR/stderr" </dev/null || status=$?
	[ $status -eq 1 ] ||
		fail "'$*' ended with $status, not 1: $(cat "$BATS_TEST_TMPDIR/stderr")" || return
	[ -s "$BATS_TEST_TMPDIR/stderr" ] || fail "'$*' said nothing on stderr" || return
	[ ! -e "$file" ] || fail "'$*' left $file"
}

# fails COMMAND...: as refused, where no file is at stake
fails() {
	refused "$BATS_TEST_TMPDIR/no such file" "$@"
}

# says TEXT: what the last `refused` or `fails` printed on stderr contains it
says() {
	contains "$(cat "$BATS_TEST_TMPDIR/stderr")" "$1"
}

# kept FILE COMMAND...: ends with status 1, says why, and FILE is as it was:
# content, inode and time
kept() {
	local file=$1 before
	shift
	before=$(stat -c '%i %s %y %z' -- "$file") && before="$before $(hash "$file")" || return
	fails "$@" || return
	equal "$(stat -c '%i %s %y %z' -- "$file") $(hash "$file")" "$before" "$file after '$*'"
}

# no_litter DIR NAME...: DIR holds the names given and nothing else
no_litter() {
	local dir=$1
	shift
	equal "$(find "$dir" -mindepth 1 -maxdepth 1 -printf '%f\n' | sort)" \
		"$(printf '%s\n' "$@" | sort)" "in $dir"
}
