#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# stdout and stderr when they are full, closed or in use.

load helpers

@test "a full stdout is an error" {
	local status
	[ -c /dev/full ] || skip 'no /dev/full'
	qimg create -q -f qcow2 a 1M
	for args in '--help' '--version' 'info a' 'info --output=json a' 'create --help' 'create -f qcow2 -o help'; do
		status=0
		# shellcheck disable=SC2086
		qimg $args >/dev/full 2>err || status=$?
		equal "$status" 1 "status of $args"
		contains "$(cat err)" 'Could not write to standard output: No space left on device'
	done
}

@test "a closed stdout is an error, and no image is written to in its place" {
	local status=0
	qimg create -q -f qcow2 a 1M
	hash a >before
	qimg info a >&- 2>err || status=$?
	equal "$status" 1
	contains "$(cat err)" 'Could not write to standard output'
	equal "$(hash a)" "$(cat before)"
	# Descriptor 1 would be the first free one for the new file.
	status=0
	qimg create -f qcow2 b 1M >&- 2>err || status=$?
	equal "$status" 1
	if [ -e b ]; then
		lacks "$(tr -d '\0' <b | head -c 1000)" Formatting
		is_clean b
	fi
}

@test "closed stdin and stderr do no harm" {
	local status=0
	qimg create -q -f qcow2 a 1M <&- 2>&-
	is_clean a
	qimg info a <&- 2>&- >out
	grep -q '^file format: qcow2$' out
	qimg info missing >out 2>&- || status=$?
	equal "$status" 1
	equal "$(cat out)" ''
}

@test "a reader that has seen enough ends info silently" {
	qimg create -q -f qcow2 a 1M
	for _ in 1 2 3; do
		{ qimg info a 2>err || true; } | true
		equal "$(grep -v 'Broken pipe' err || true)" ''
	done
}

@test "an error leaves stdout empty" {
	fails "$QIMG" info --output=json missing
	equal "$(cat "$BATS_TEST_TMPDIR/stdout")" ''
	says 'No such file'
}

@test "warnings stay out of a JSON document" {
	need qemu-img python3
	qemu-img create -q -f qcow2 a 1M
	qemu-img bitmap --add a b0
	# bitmaps, but the bit that vouches for them is off
	poke a 88 0000000000000000
	qimg info --output=json a >out 2>err
	equal "$(json out 'd["format"]')" qcow2
}
