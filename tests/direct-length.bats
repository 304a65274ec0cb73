#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# Direct writes into new clusters make the file longer than is needed, for a
# while: nothing of that is left when the image is closed, and nothing is wrong
# with it when it never is.

load helpers

fill() {
	qimg bench -q -w --pattern=3 -c 200 -d 8 -S 68k "$@"
}

@test 'the file ends with its last cluster' {
	qimg create -q -f qcow2 cached.qcow2 64M
	qimg create -q -f qcow2 direct.qcow2 64M
	fill -d 1 cached.qcow2
	fill -d 1 -t none direct.qcow2
	# That one may be there in part only, where the rest of it reads as zeros.
	equal "$(stat -c %s direct.qcow2)" $((($(stat -c %s cached.qcow2) + 65535) / 65536 * 65536))
	same qcow2 direct.qcow2 qcow2 cached.qcow2
	is_clean direct.qcow2
}

@test 'a process that is killed leaves a sound image' {
	local pid
	qimg create -q -f qcow2 a.qcow2 1G
	"$QIMG" bench -q -w --rw=randwrite --runtime=100 -t none a.qcow2 &
	pid=$!
	for _ in $(seq 100); do
		[ "$(stat -c %s a.qcow2)" -gt 33554432 ] && break
		sleep 0.1
	done
	kill -KILL $pid
	wait $pid || true
	is_sound a.qcow2
	fill -t none a.qcow2
	is_sound a.qcow2
}

@test 'a limit on the size of files counts for what is written alone' {
	qimg create -q -f qcow2 a.qcow2 64M
	(ulimit -f 20480 && fill -t none a.qcow2)
	is_clean a.qcow2
	[ "$(stat -c %s a.qcow2)" -lt 20971520 ] || fail 'more was written than fits'
}
