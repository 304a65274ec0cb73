#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# convert to and from block devices.

load helpers

setup() {
	helpers_setup
	need_loop
	need qemu-img qemu-io
	qemu-img create -q -f qcow2 s.qcow2 6M
	qemu-io -c 'write -P 0x41 0 1M' -c 'write -z 2M 64k' -c 'write -P 0x42 5M 512k' s.qcow2 >/dev/null
	qemu-img convert -O raw s.qcow2 s.raw
	pattern_file disk.img 8M
	cp disk.img before.img
	dev=$(loop_device disk.img)
}

# the first 6 MiB are the source, the rest is what was there
written_over() {
	cmp -n $((6 << 20)) s.raw "$dev"
	cmp -i $((6 << 20)) -n $((2 << 20)) before.img "$dev"
}

@test '-n to a larger device' {
	qimg convert -n -O raw s.qcow2 "$dev"
	written_over
}

@test 'without -n to a larger device' {
	qimg convert -O raw s.qcow2 "$dev"
	written_over
}

@test 'with O_DIRECT' {
	qimg convert -t none -T none -O raw s.qcow2 "$dev"
	written_over
}

# zeros in a target full of other bytes, and -p says how
zeroed_by() { # WAY TARGET
	qimg convert -n -p -O raw s.qcow2 "$2" >log
	contains "$(cat log)" "Zeroed by $1"
	cmp -n $((6 << 20)) s.raw "$2"
}

@test 'a thin device: what was zeros in the source takes no space any more' {
	local before
	zeroed_by FALLOC_FL_PUNCH_HOLE "$dev"
	sync disk.img
	before=$(allocated before.img)
	[ "$(allocated disk.img)" -lt $((before - (3 << 20))) ]
	written_over
	# and many at a time, past the page cache
	cp before.img disk.img
	qimg convert -n -t none -W -m 16 -O raw s.qcow2 "$dev"
	written_over
}

@test 'a device and a file that can only be written: zeros for certain' {
	local bare
	mkdir plain
	mount -t ramfs none plain 2>/dev/null || skip 'ramfs cannot be mounted'
	undo unmount_fs "$PWD/plain"
	cp before.img plain/disk.img
	bare=$(loop_device plain/disk.img)
	zeroed_by BLKZEROOUT "$bare"
	cmp -i $((6 << 20)) before.img "$bare"
	cp before.img plain/file.img
	zeroed_by 'writing zeros' plain/file.img
	cmp -i $((6 << 20)) before.img plain/file.img
}

@test 'a source that is larger than the device is refused' {
	qemu-img create -q -f qcow2 big.qcow2 16M
	fails qimg convert -n -O raw big.qcow2 "$dev"
	says 16777216
	says 8388608
	fails qimg convert -O raw big.qcow2 "$dev"
	says 16777216
	cmp before.img "$dev"
}

@test 'qcow2 on a device' {
	qimg convert -O qcow2 s.qcow2 "$dev"
	same qcow2 s.qcow2 qcow2 "$dev"
	is_clean "$dev"
	qimg convert -f qcow2 -O raw "$dev" back.raw
	cmp s.raw back.raw
}

@test 'qcow2 on a device that is smaller than the disk' {
	qemu-img create -q -f qcow2 big.qcow2 1G
	qemu-io -c 'write -P 0x43 900M 1M' big.qcow2 >/dev/null
	qimg convert -O qcow2 big.qcow2 "$dev"
	same qcow2 big.qcow2 qcow2 "$dev"
	qemu-io -c 'write -P 0x44 0 20M' big.qcow2 >/dev/null
	fails qimg convert -O qcow2 big.qcow2 "$dev"
}

@test 'a device as the source' {
	qimg convert -f raw -O qcow2 "$dev" out.qcow2
	is_clean out.qcow2
	qimg convert out.qcow2 out.raw
	cmp before.img out.raw
}

@test 'the device of the source is refused as its target' {
	fails qimg convert -f raw -O raw "$dev" "$dev"
	fails qimg convert -n -f raw -O raw "$dev" "$dev"
	cmp before.img "$dev"
}
