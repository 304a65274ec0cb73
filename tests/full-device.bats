#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# On a device with next to no space left, what waits to be released is released
# when it is needed: work goes on as long as enough is free in the end. When it is
# not, that is an error, the image stays sound, and writes to what there is go on.

load helpers

# overwrites COUNT: compressed clusters that take the place of each other
overwrites() {
	local i
	for ((i = 0; i < $1; i++)); do
		echo "write -q -c -s noise$((i % 2)) $((i % 3 * 65536)) 64k"
	done
}

setup() {
	helpers_setup
	need qemu-img qemu-io
	# Compresses to about a half
	python3 -c '
import random
for i in 0, 1:
    r = random.Random(i)
    open(f"noise{i}", "wb").write(b"".join(r.randbytes(300) + bytes(212) for _ in range(128)))
'
}

@test "compressed clusters overwritten again and again, on a block device" {
	local dev
	truncate -s 1M disk
	dev=$(loop_device disk)
	qimg create -q -f qcow2 "$dev" 8M
	overwrites 300 | qio -f qcow2 "$dev"
	is_clean "$dev"
	qio -f qcow2 -r -c 'read -q 0 192k' "$dev"
}

@test "compressed clusters overwritten again and again, in a full file system" {
	mount_fs tmpfs 1M fs
	qimg create -q -f qcow2 fs/image 8M
	overwrites 300 | qio -f qcow2 fs/image
	is_clean fs/image
}

@test "what a snapshot shares is overwritten as far as there is space" {
	local dev status=0
	truncate -s 4M disk
	dev=$(loop_device disk)
	qimg create -q -f qcow2 "$dev" 8M
	qio -f qcow2 -c 'write -q -P 1 0 2M' "$dev"
	qemu-img snapshot -c one "$dev"
	for _ in 1 2 3 4 5; do echo 'write -q -P 2 0 1M'; done | qio -f qcow2 "$dev"
	is_clean "$dev"
	# Two more would be needed
	qio -f qcow2 -c 'write -q -P 3 1M 1M' -c 'read -P 2 0 1M' -c 'write -P 4 0 1M' "$dev" \
		>out 2>&1 || status=$?
	equal $status 1
	contains "$(cat out)" 'write failed'
	contains "$(cat out)" 'wrote 1048576/1048576 bytes at offset 0'
	lacks "$(cat out)" 'Pattern'
	is_sound "$dev"
	qio -f qcow2 -r -c 'read -P 4 0 1M' "$dev"
	qemu-img convert -l one -f qcow2 -O raw "$dev" one.raw
	qemu-io -f raw -r -c 'read -P 1 0 2M' one.raw
}

@test "a file system that is full: an error, a sound image, and on with it when there is space" {
	local status=0
	mount_fs tmpfs 2M fs
	qimg create -q -f qcow2 fs/image 16M
	qio -f qcow2 -c 'write -q -P 1 0 1M' -c 'write -P 2 1M 4M' -c 'read -P 1 0 1M' \
		-c 'discard 0 1M' -c 'write -P 3 8M 512k' fs/image >out 2>&1 || status=$?
	equal $status 1
	contains "$(cat out)" 'write failed'
	contains "$(cat out)" 'wrote 524288/524288 bytes at offset 8388608'
	is_sound fs/image
	qemu-io -f qcow2 -r -c 'read -P 0 0 1M' -c 'read -P 3 8M 512k' fs/image >out
	lacks "$(cat out)" 'Pattern'
}

@test "discarding a large image takes little memory" {
	need_no_sanitizer
	mount_fs tmpfs 600M fs
	qimg create -q -f qcow2 -o preallocation=metadata,cluster_size=2M fs/image 64T
	(
		ulimit -v $((128 * 1024))
		qio -f qcow2 -c 'discard -q 0 64T' -c flush fs/image
	)
	is_clean fs/image
}
