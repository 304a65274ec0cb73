#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# l2-cache-file: a second level of the L2 cache, in a file without a name or on
# a block device. What comes out of an image does not depend on it.

load helpers

# value KEY: of the L2 cache, from the lines of qio's `counters` in the file out
value() {
	sed -n "s,^image l2 .*\b$1=\([0-9]*\).*,\1,p" out
}

setup() {
	helpers_setup
	need_plain
	need qemu-img qemu-io
	qemu-img create -q -f qcow2 -o cluster_size=4k image 64M
	# Something in each 2 MiB, for each of which there is a table
	for ((i = 0; i < 32; i++)); do
		echo "write -q -P $((i + 1)) $((i * 2))M 4k"
	done | qemu-io image >/dev/null
	qemu-img convert -O raw image want
}

# Reads something from each table, twice; prints the counters into out
read_tables() {
	local i words=()
	for ((i = 0; i < 32; i++)); do words+=(-c "read -P $((i + 1)) $((i * 2))M 4k"); done
	qio -r -o "l2-cache-size=8k,$1" "${words[@]}" "${words[@]}" -c counters image >out
}

@test "tables that leave the memory come from there when they are needed again" {
	read_tables l2-cache-compact=off
	equal "$(value loads) $(value second) $(value file)" '64 0 0'
	mkdir fast
	read_tables l2-cache-file=fast/cache,l2-cache-file-direct=off
	equal "$(value loads)" 64
	[ "$(value second)" -ge 28 ]
	# 32 of them but for two
	[ "$(value file)" -ge $((28 * 4096)) ]
	[ "$(value file)" -le $((32 * 4096)) ]
	equal "$(ls -A fast)" ''
}

@test "its size is a limit" {
	read_tables l2-cache-file=.,l2-cache-file-size=64k,l2-cache-file-direct=off
	[ "$(value file)" -le 65536 ]
	read_tables l2-cache-file=.,l2-cache-file-size=4k,l2-cache-file-direct=off
	equal "$(value file)" 4096
}

@test "convert gives the same with it" {
	qimg convert -O raw --image-opts \
		driver=qcow2,file.filename=image,l2-cache-size=8k,l2-cache-file=.,l2-cache-file-direct=off copy
	cmp want copy
	qemu-img create -q -f qcow2 -o cluster_size=4k target 64M
	qimg convert -n -f qcow2 --target-image-opts image \
		driver=qcow2,file.filename=target,l2-cache-size=8k,l2-cache-file=.
	qemu-img check -q target
	qimg convert -O raw target copy
	cmp want copy
}

@test "where it cannot be, that is an error" {
	refused copy qimg convert -O raw --image-opts \
		driver=qcow2,file.filename=image,l2-cache-file=absent/cache copy
	says absent
	refused copy qimg convert -O raw --image-opts \
		driver=qcow2,file.filename=image,l2-cache-file=/dev/null copy
	says /dev/null
	# info does not need it
	qimg info --image-opts driver=qcow2,file.filename=image,l2-cache-file=absent/cache >/dev/null
}

@test "a file that is there is not touched" {
	echo precious >file
	read_tables l2-cache-file=file
	equal "$(cat file)" precious
}

@test "a block device is used in place, unless somebody else uses it" {
	local dev
	need_root
	truncate -s 8M disk
	dev=$(loop_device disk)
	read_tables "l2-cache-file=$dev"
	[ "$(value second)" -ge 28 ]
	mkfs.ext4 -q "$dev"
	mkdir mnt
	mount "$dev" mnt
	undo umount -l "$PWD/mnt"
	refused copy qimg convert -O raw --image-opts \
		"driver=qcow2,file.filename=image,l2-cache-file=$dev" copy
	says 'mounted or in use'
	[ -d mnt/lost+found ]
}
