#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# The chart of README.md is what the program draws today.

load helpers

# values FILE: what each point of a chart stands for
values() {
	grep -o '<title>[^<]*</title>' "$1"
}

@test 'man/l2-size.svg' {
	case $VARIANT in
	*two-slices* | *second-level*) skip 'the caches are not as large as they are asked to be' ;;
	esac
	[ -f "$SRCDIR/man/l2-size.svg" ] || skip 'not in this copy'
	contains "$(cat "$SRCDIR/README.md")" '(man/l2-size.svg)'
	qimg bench --preset=l2-size -q --plot=now.svg
	[ "$(values now.svg | wc -l)" -gt 12 ]
	values "$SRCDIR/man/l2-size.svg" >before
	values now.svg | diff before -
}
