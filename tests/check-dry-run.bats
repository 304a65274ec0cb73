#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# qimg check -r --dry-run: nothing is written, and what is told is what a repair does.

load helpers

@test "finds and leaves what the repair does, and writes nothing" {
	need python3 jq
	names=$(python3 "$SRCDIR/tests/bad/make" LIST | awk 'NR % 7 == 2 { print $1 }')
	# shellcheck disable=SC2086 # names, one a word
	python3 "$SRCDIR/tests/bad/make" $names .
	compared=0
	for name in $names; do
		cp "$name.qcow2" x.qcow2
		dry=0 now=0
		qimg check -f qcow2 x.qcow2 >/dev/null 2>&1 || now=$?
		qimg check -f qcow2 --output=json -r all --dry-run x.qcow2 >dry.json 2>dry.err || dry=$?
		cmp x.qcow2 "$name.qcow2" || fail "$name was written to"
		qimg check -f qcow2 --output=json -r all x.qcow2 >real.json 2>/dev/null || true
		[ -s dry.json ] || continue
		equal $dry $now "status for $name"
		jq -e '.left' dry.json >/dev/null || continue
		equal "$(jq -c '[.left.corruptions, .left.leaks, ."leaks-fixed", ."corruptions-fixed"]' dry.json)" \
			"$(jq -c '[.corruptions, .leaks, ."leaks-fixed", ."corruptions-fixed"]' real.json)" "what is left of $name"
		compared=$((compared + 1))
	done
	[ $compared -ge 25 ] || fail "only $compared were compared"
}

@test "a file that can only be read, or that somebody else has open" {
	need python3
	python3 "$SRCDIR/tests/bad/make" corrupt-leak .
	chmod 444 corrupt-leak.qcow2
	before=$(sha256sum <corrupt-leak.qcow2)
	status=0
	qimg check -U -r all --dry-run corrupt-leak.qcow2 >out 2>err || status=$?
	equal $status 2 status
	grep -q '^Would repair cluster ' err
	grep -q 'would be repaired' out
	grep -q 'Nothing was written. Result: corrupt now (exit status 2), clean after a repair' out
	equal "$(sha256sum <corrupt-leak.qcow2)" "$before" hash
}

@test "the temporary file is in TMPDIR, and gone afterwards" {
	need python3
	python3 "$SRCDIR/tests/bad/make" corrupt-leak .
	mkdir temp
	TMPDIR=$PWD/temp qimg check -q -r all --dry-run corrupt-leak.qcow2 2>/dev/null || true
	equal "$(ls -A temp)" "" "left behind"
	status=0
	TMPDIR=$PWD/none/none qimg check -q -r all --dry-run corrupt-leak.qcow2 2>err || status=$?
	equal $status 1 status
	grep -q none err
}
