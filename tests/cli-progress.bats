#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# Progress of long commands: the lines that scripts read.

load helpers

@test "-p prints what the reference prints" {
	need qemu-img
	pattern_file in.raw 20M
	qemu-img convert -p -f raw -O qcow2 in.raw a >theirs
	qimg convert -p -f raw -O qcow2 in.raw b >ours
	equal "$(head -c 16 ours | od -An -c)" "$(head -c 16 theirs | od -An -c)"
	# Between them a line for each step, which need not be the same steps.
	[ "$(tr '\r' '\n' <ours | grep -Ecv '^    \([0-9]+\.[0-9][0-9]/100%\)$' || true)" -eq 1 ]
	equal "$(tail -c 21 ours | od -An -c)" "$(tail -c 21 theirs | od -An -c)"
	# It only goes up.
	tr '\r' '\n' <ours | grep -o '[0-9.]*/' | tr -d / >numbers
	sort -g numbers | cmp - numbers
	[ "$(wc -l <numbers)" -ge 5 ]
}

@test "-q silences -p, and without -p there is none" {
	pattern_file in.raw 2M
	equal "$(qimg convert -q -p -f raw -O qcow2 in.raw a)" ''
	equal "$(qimg convert -f raw -O qcow2 in.raw b)" ''
}

@test "SIGUSR1 asks for one line" {
	local pid
	pattern_file in.raw 4M
	"$QIMG" convert -r 2M -f raw -O qcow2 in.raw a >out &
	pid=$!
	# Not before it listens.
	until [ $((0x$(sed -n 's/^SigCgt:\t//p' "/proc/$pid/status") & 0x200)) -ne 0 ]; do
		sleep 0.01
	done
	kill -USR1 "$pid"
	wait "$pid"
	[ "$(wc -l <out)" -eq 1 ]
	grep -Eqx '    \([0-9]+\.[0-9][0-9]/100%\)' out
	same raw in.raw qcow2 a
}
