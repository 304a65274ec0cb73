#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# info of images that another process has open.

load helpers

# while_written FMT FILE COMMAND...: with qemu-io, or qio, having the image open for writing
while_written() {
	local program status=0 format=$1 file=$2
	shift 2
	for program in qio qemu-io; do
		command -v $program >/dev/null || continue
		mkfifo to from
		$program -f "$format" "$file" <to >from 2>&1 &
		exec 8>to 9<from
		# it has the image open when it answers
		echo 'read 0 512' >&8
		read -r -n 1 <&9
		"$@" 8>&- 9<&- || status=$?
		exec 8>&- 9<&-
		wait
		rm to from
		[ $status -eq 0 ] || fail "while $program has $file open" || return
	done
}

@test "a raw image in use can be described" {
	qimg create -q disk.raw 1M
	while_written raw disk.raw qimg info disk.raw
	while_written raw disk.raw qimg info -f raw --output=json disk.raw
	while_written raw disk.raw refused out qimg convert disk.raw out
	says lock
}

@test "a qcow2 image in use is described with -U only" {
	qimg create -q -f qcow2 disk.qcow2 1M
	while_written qcow2 disk.qcow2 fails qimg info disk.qcow2
	says lock
	says -U
	while_written qcow2 disk.qcow2 qimg info -U disk.qcow2
}
