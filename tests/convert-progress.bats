#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# convert -p, -q and SIGUSR1.

load helpers

setup() {
	helpers_setup
	pattern_file in.raw 8M
}

@test '-p shows lines that end in a carriage return' {
	qimg convert -p -f raw -O qcow2 in.raw out.qcow2 >log
	contains "$(tr '\r' '\n' <log)" '    (0.00/100%)'
	contains "$(tr '\r' '\n' <log)" '    (25.00/100%)'
	equal "$(tail -c 18 log)" "$(printf '    (100.00/100%%)\r\n' | tail -c 18)"
}

@test 'without -p, or with -q, nothing is printed' {
	equal "$(qimg convert -f raw -O qcow2 in.raw out.qcow2 2>&1)" ''
	equal "$(qimg convert -p -q -f raw -O qcow2 in.raw out.qcow2 2>&1)" ''
}
