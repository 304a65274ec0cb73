#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# Raw images written to: as the reference does it, in all cache modes, and
# what of it reaches the disk when.

load helpers

# Commands for qio and qemu-io alike, on a file of SIZE bytes, always the same for a SEED.
program() { # SEED SIZE
	need python3
	python3 - "$@" <<'END'
import random, sys
r, size = random.Random(int(sys.argv[1])), int(sys.argv[2])
for _ in range(60):
    off = r.randrange(size)
    n = min(size - off, r.choice((1, 511, 512, 4096, 5000, 65536, 300000)))
    c = r.choice(("write -P %d" % r.randrange(1, 256), "write -P 0", "write -z", "write -z -u", "discard", "flush"))
    print(c if c == "flush" else "%s %d %d" % (c, off, n))
END
}

@test 'the same commands leave the same bytes as with the reference' {
	need qemu-io
	local seed
	for seed in 1 2 3; do
		head -c 2000896 /dev/urandom >ours.raw
		cp ours.raw theirs.raw
		program $seed 2000896 >commands
		qio -f raw -d unmap ours.raw <commands >/dev/null
		qemu-io -f raw -d unmap theirs.raw <commands >/dev/null
		cmp ours.raw theirs.raw
	done
}

@test 'in every cache mode' {
	local mode
	program 4 1048576 >commands
	for mode in writeback none writethrough directsync unsafe; do
		head -c 1048576 /dev/zero | tr '\0' y >$mode.raw
		qio -f raw -t $mode $mode.raw <commands >/dev/null
		cmp $mode.raw writeback.raw
	done
	run qio -f raw -t sometimes writeback.raw
	[ "$status" -ne 0 ]
	contains "$output" sometimes
}

@test 'syncs and direct access are what the cache mode says' {
	need strace
	need_no_sanitizer
	head -c 1048576 /dev/zero >x.raw
	trace() { # MODE
		strace -f -o log -e trace=openat,fcntl,fdatasync,fsync,pwrite64 "$QIO" -f raw -t "$1" \
			-c 'write 0 4k' -c 'write 8k 4k' -c 'write 16k 4k' x.raw >/dev/null
	}
	syncs() { grep -c -E 'fdatasync|fsync' log || true; }
	trace writeback
	equal "$(syncs)" 1
	lacks "$(cat log)" O_DIRECT
	trace writethrough
	[ "$(syncs)" -ge 3 ]
	trace none
	equal "$(syncs)" 1
	contains "$(cat log)" O_DIRECT
	trace directsync
	[ "$(syncs)" -ge 3 ]
	contains "$(cat log)" O_DIRECT
	trace unsafe
	equal "$(syncs)" 0
}

@test 'an odd length stays until something is written behind it' {
	printf 'abcde' >odd.raw
	qio -r -f raw -c 'read -P 0x61 0 1' -c 'read -P 0 5 507' odd.raw
	qio -f raw -c 'write -P 0x62 0 5' odd.raw
	equal "$(stat -c %s odd.raw)" 5
	qio -f raw -c 'write -P 0x63 510 2' odd.raw
	equal "$(stat -c %s odd.raw)" 512
	qio -r -f raw -c 'read -P 0x62 0 5' -c 'read -P 0 5 505' -c 'read -P 0x63 510 2' odd.raw
}

@test 'the format of a disk that is written to has to be given' {
	head -c 1048576 /dev/zero >x.raw
	qimg create -q -f qcow2 inner.qcow2 1M
	run qio -c 'write -P 1 64k 64k' x.raw
	equal "$status" 0
	contains "$output" 'format'
	contains "$output" 'x.raw'
	# A guest that writes an image header there does not choose how the host reads the disk.
	run qio -c 'write -P 0x51 0 1' -c 'write -P 0x46 1 1' -c 'write -P 0x49 2 1' -c 'write -P 0xfb 3 1' \
		-c 'write -P 0 4 3' -c 'write -P 3 7 1' x.raw
	[ "$status" -ne 0 ]
	contains "$output" 'another format'
	equal "$(qimg info --output=json x.raw | json - 'd["format"]')" raw
	qio -f raw -c 'write -P 0x51 0 1' -c 'write -P 0x46 1 1' -c 'write -P 0x49 2 1' -c 'write -P 0xfb 3 1' x.raw
	run qio -f raw -c 'write -P 1 64k 64k' x.raw
	equal "$status" 0
	lacks "$output" warning
}
