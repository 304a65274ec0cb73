#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# convert: blocks shared between source and target, and -C.

load helpers

# used DIR: KiB in use on its file system
used() {
	sync -f "$1"
	df --output=used -k "$1" | tail -1
}

# share_on TYPE OPTION...: a convert of 20 MiB takes no space to speak of
share_on() {
	local type=$1 before after
	mount_fs "$type" 400M fs
	pattern_file fs/in.raw 20M
	head -c 3000 /dev/zero | tr '\0' x >>fs/in.raw
	before=$(used fs)
	qimg convert -f raw -O qcow2 fs/in.raw fs/out.qcow2
	is_clean fs/out.qcow2
	same raw fs/in.raw qcow2 fs/out.qcow2
	qimg convert -f raw -O raw fs/in.raw fs/out.raw
	cmp -n $((20 * 1048576 + 3000)) fs/in.raw fs/out.raw
	qimg convert -O raw fs/out.qcow2 fs/back.raw
	cmp -n $((20 * 1048576 + 3000)) fs/in.raw fs/back.raw
	after=$(used fs)
	[ $((after - before)) -lt 10000 ] || fail "$((after - before)) KiB more in use"
	# a change of one is none of the others
	dd if=/dev/zero of=fs/in.raw bs=1M count=1 seek=3 conv=notrunc status=none
	cmp fs/out.raw fs/back.raw
	same raw fs/out.raw qcow2 fs/out.qcow2
	# with -S, data is read and written
	before=$(used fs)
	qimg convert -S 64k -f raw -O qcow2 fs/out.raw fs/copy.qcow2
	after=$(used fs)
	[ $((after - before)) -gt 15000 ] || fail "-S: only $((after - before)) KiB more in use"
	same raw fs/out.raw qcow2 fs/copy.qcow2
}

@test 'XFS: the target shares the blocks of the source' {
	share_on xfs
}

@test 'btrfs: the target shares the blocks of the source' {
	share_on btrfs
}

@test 'on XFS from a chain, with holes and compressed clusters' {
	need qemu-img qemu-io
	mount_fs xfs 400M fs
	pattern_file fs/base.raw 8M
	qemu-img create -q -f qcow2 -b base.raw -F raw fs/top.qcow2 12M
	qemu-io -f qcow2 -c 'write -P 7 1M 300k' -c 'write -c -P 8 3M 64k' -c 'write -z 5M 1M' \
		-c 'write -P 9 11M 5000' fs/top.qcow2 >io.log
	qimg convert -O qcow2 fs/top.qcow2 fs/flat.qcow2
	is_clean fs/flat.qcow2
	same qcow2 fs/top.qcow2 qcow2 fs/flat.qcow2
	qimg convert -O raw fs/top.qcow2 fs/flat.raw
	same qcow2 fs/top.qcow2 raw fs/flat.raw
	qimg convert -O qcow2 -o cluster_size=2M fs/top.qcow2 fs/big.qcow2
	is_clean fs/big.qcow2
	same qcow2 fs/top.qcow2 qcow2 fs/big.qcow2
}

@test '-C where nothing can be shared' {
	pattern_file in.raw 5M
	qimg convert -C -f raw -O qcow2 in.raw out.qcow2
	is_clean out.qcow2
	same raw in.raw qcow2 out.qcow2
	qimg convert -C -f raw -O raw in.raw out.raw
	cmp in.raw out.raw
	mount_fs tmpfs 20M small
	qimg convert -C -f raw -O raw in.raw small/out.raw
	cmp in.raw small/out.raw
}

@test '-C fits neither -S nor -c nor --salvage' {
	pattern_file in.raw 1M
	local other
	for other in '-S 4k' -c --salvage; do
		# shellcheck disable=SC2086 # two words
		refused out.qcow2 qimg convert -C $other -f raw -O qcow2 in.raw out.qcow2
	done
}
