#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# qio, the program that other tests drive images with, is a stand-in for
# qemu-io: same words, same result lines, same status.

load helpers

# alike COMMAND...: both programs, each on its own copy of the image, print the
# same (but for the time it took) and end with the same status
alike() {
	local args=() command name one=0 two=0
	for command; do args+=(-c "$command"); done
	cp start.qcow2 a.qcow2
	cp start.qcow2 b.qcow2
	qio -f qcow2 "${args[@]}" a.qcow2 >qio.out 2>qio.err || one=$?
	qemu-io -f qcow2 "${args[@]}" b.qcow2 >qemu.out 2>qemu.err || two=$?
	equal $one $two "status of $*"
	for name in qio qemu; do
		# What failed goes to stderr here and to stdout there, with other reasons.
		grep -h ' failed: ' $name.out $name.err | sed 's/: .*//' >$name.failed || true
		grep -v ' ops\| failed: ' $name.out >$name.lines || true
		if grep -q -v ' failed: ' $name.err; then echo 'more on stderr' >>$name.lines; fi
	done
	cat qio.failed >>qio.lines
	cat qemu.failed >>qemu.lines
	diff qio.lines qemu.lines || fail "$* differ"
	same qcow2 a.qcow2 qcow2 b.qcow2
}

setup() {
	helpers_setup
	need qemu-img qemu-io
	qemu-img create -q -f qcow2 start.qcow2 1000K
}

@test "write and read, all forms" {
	alike 'write -P 0x61 100k 70000' 'read -P 0x61 100k 70000' 'read -v 102390 50'
	alike 'write 0 5k' 'write -P 7 5k 3' 'read -P 205 0 5k' 'read -P 7 -s 5120 -l 3 0 6000'
	alike 'write -z 0 64k' 'write -z -u 64k 64k' 'discard 0 64k' 'read -P 0 0 1000k'
	alike 'write -q 0 1k' 'read -q 0 1k' 'read -q -P 205 0 1k'
	alike 'write -c -P 9 0 64k' 'read -P 9 0 64k'
	alike 'write -f -P 1 0x200 0x200' 'read -P 1 512 512' 'flush'
	alike 'read 0 0'
	head -c 1000 /dev/urandom >pattern
	alike 'write -s pattern 0 2500' 'read -v 0 2500'
}

@test "a wrong pattern is told and ends with status 1, later commands run" {
	alike 'read -P 1 0 4k' 'write 0 4k' 'read -P 205 0 4k'
	alike 'write -P 5 0 4k' 'read -P 5 -s 1k -l 4k 0 5k'
}

@test "map, alloc, length" {
	alike 'write 100k 70k' 'write 500k 64k' map
	alike 'write 100k 70k' 'alloc 0 1000k' 'alloc 0' 'alloc 64k 64k' 'alloc 300k 1k'
	alike length
}

@test "what is wrong with a command is an error" {
	alike 'write 0' 'length'
	alike 'nonsense 1 2' 'length'
	alike 'write -P 300 0 512'
	alike 'write -z -P 3 0 512'
	alike 'write -u 0 512'
	alike 'read 0 999M' 'length'
	alike 'write 999K 2K' 'length'
	alike 'read -P 3 -s 4k -l 4k 0 4k'
}

@test "truncate, quit, commands from standard input" {
	alike 'truncate 3M' length map
	printf 'write -P 3 0 1k\nlength\nquit\nnonsense\n' | qio -f qcow2 start.qcow2 >out
	contains "$(cat out)" 'wrote 1024/1024 bytes at offset 0'
	contains "$(cat out)" '1000 KiB'
	qemu-io -f qcow2 -c 'read -P 3 0 1k' start.qcow2
}

@test "options: -r, -d, -t, --image-opts, a file that is missing" {
	run qio -f qcow2 -r -c 'write 0 1k' start.qcow2
	equal "$status" 1
	contains "$output" 'write failed: '
	fails qio -f qcow2 missing.qcow2
	says "can't open device missing.qcow2"
	qio -f qcow2 -t unsafe -c 'write -P 4 0 64k' start.qcow2
	qio -f qcow2 -d ignore -c 'discard 0 64k' -c 'read -P 4 0 64k' start.qcow2
	qio --image-opts -c 'read -P 4 0 64k' driver=qcow2,file.filename=start.qcow2,l2-cache-size=1M
	qio -f qcow2 -n -c 'discard 0 64k' -c 'read -P 0 0 64k' start.qcow2
	fails qio -f qcow2 -t nonsense start.qcow2
	fails qio -f qcow2 -d nonsense start.qcow2
}

@test "abort leaves the image as it was at the last flush" {
	local status=0
	qio -f qcow2 -c 'write -P 1 0 64k' -c flush -c 'write -P 2 64k 64k' -c abort start.qcow2 || status=$?
	equal $status 134
	is_sound start.qcow2
	qemu-io -f qcow2 -c 'read -P 1 0 64k' start.qcow2
	status=0
	qio -f qcow2 -c 'sigraise 9' start.qcow2 || status=$?
	equal $status 137
}
