#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# New raw images: what is announced, reserved and set on each file system, and
# that a creation that fails leaves what was there.

load helpers

nothing_else() { # FILE...: the folder holds these and no temporary files
	equal "$(find . -mindepth 1 -printf '%P\n' | sort | tr '\n' ' ')" "$*${1:+ }"
}

@test 'the Formatting line is that of the reference' {
	local list
	need qemu-img
	for list in '' preallocation=off preallocation=falloc preallocation=full nocow=off \
		extent_size_hint=64k nocow=on,preallocation=off,extent_size_hint=0; do
		equal "$(qimg create -f raw ${list:+-o "$list"} x.raw 1000000)" \
			"$(qemu-img create -f raw ${list:+-o "$list"} x.raw 1000000)" "$list"
	done
}

@test 'lengths and space' {
	qimg create -q -f raw off.raw 3M
	equal "$(stat -c %s off.raw)" 3145728
	equal "$(allocated off.raw)" 0
	for mode in falloc full; do
		qimg create -q -f raw -o preallocation=$mode $mode.raw 3000001
		equal "$(stat -c %s $mode.raw)" 3000320
		[ "$(allocated $mode.raw)" -ge 3000320 ]
		qio -r -f raw -c 'read -P 0 0 3000320' $mode.raw
	done
	# An old image is replaced, whatever was in it.
	qio -f raw -c 'write -P 9 0 3M' off.raw
	qimg create -q -f raw off.raw 2M
	equal "$(allocated off.raw)" 0
	nothing_else falloc.raw full.raw off.raw
}

@test 'on tmpfs, and with too little space' {
	mount_fs tmpfs 4M small
	cd small
	qimg create -q -f raw -o preallocation=falloc x.raw 1M
	[ "$(allocated x.raw)" -ge 1048576 ]
	before=$(hash x.raw)
	for mode in falloc full; do
		run qimg create -f raw -o preallocation=$mode x.raw 8M
		equal "$status" 1
		contains "$output" 'No space left'
		run qimg create -f raw -o preallocation=$mode y.raw 8M
		equal "$status" 1
		equal "$(hash x.raw)" "$before"
		nothing_else x.raw
	done
	qimg create -q -f raw x.raw 1G
}

@test 'an extent size hint on XFS' {
	mount_fs xfs 300M disk
	hint() { qimg info --output=json disk/x.raw | json - 'd["children"][0]["info"]["format-specific"]["data"].get("extent-size-hint", 0)'; }
	qimg create -q -f raw disk/x.raw 10M
	equal "$(hint)" 1048576
	qimg create -q -f raw -o extent_size_hint=64k disk/x.raw 10M
	equal "$(hint)" 65536
	qimg create -q -f raw -o extent_size_hint=0 disk/x.raw 10M
	equal "$(hint)" 0
	qimg create -q -f qcow2 -o extent_size_hint=128k disk/x.raw 10M
	equal "$(hint)" 131072
	run qimg create -f raw -o extent_size_hint=5G disk/x.raw 10M
	equal "$status" 1
	contains "$output" extent_size_hint
	# Elsewhere it is a wish that nobody hears.
	equal "$(qimg create -q -f raw -o extent_size_hint=64k x.raw 1M 2>&1)" ''
}

@test 'no copy on write on btrfs' {
	need lsattr
	mount_fs btrfs 200M disk
	flags() { lsattr disk/x.raw | cut -d' ' -f1; }
	qimg create -q -f raw -o nocow=on disk/x.raw 10M
	contains "$(flags)" C
	qimg create -q -f raw disk/x.raw 10M
	lacks "$(flags)" C
	qimg create -q -f qcow2 -o nocow=on disk/x.raw 10M
	contains "$(flags)" C
	equal "$(qimg create -q -f raw -o nocow=on x.raw 1M 2>&1)" ''
}

@test 'block devices' {
	head -c 1M /dev/urandom >disk.img
	dev=$(loop_device disk.img)
	before=$(hash disk.img)
	for list in preallocation=falloc preallocation=full; do
		run qimg create -f raw -o $list "$dev" 1M
		equal "$status" 1
		contains "$output" device
	done
	run qimg create -f raw "$dev" 1025k
	equal "$status" 1
	contains "$output" 1048576
	qimg create -q -f raw "$dev" 1M
	qimg create -q -f raw "$dev" 4k
	qimg create -q -f host_device "$dev" 1M
	sync -f disk.img
	equal "$(hash disk.img)" "$before"
}
