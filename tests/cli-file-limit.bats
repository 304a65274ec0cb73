#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# A limit on the size of files (ulimit -f) is an error that is reported, and nothing is left behind.

load helpers

@test "create beyond the limit fails with a message and leaves nothing" {
	run bash -c 'ulimit -f 1024; exec "$QIMG" create -f raw -o preallocation=full big.raw 16M' 
	[ "$status" -eq 1 ]
	[[ $output == *"File too large"* ]]
	[ -z "$(ls -A)" ]
}

@test "convert beyond the limit keeps the old target" {
	pattern_file in.raw 4M
	echo old >out.raw
	run bash -c 'ulimit -f 1024; exec "$QIMG" convert -f raw -O raw in.raw out.raw'
	[ "$status" -eq 1 ]
	[[ $output == *"File too large"* ]]
	[ "$(cat out.raw)" = old ]
	[ "$(ls -A)" = "$(printf 'in.raw\nout.raw')" ]
}
