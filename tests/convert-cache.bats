#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# convert -t and -T: the cache modes.

load helpers

# cached FILE: KiB of it in the page cache
cached() {
	need python3
	python3 -c '
import ctypes, os, sys
n = os.stat(sys.argv[1]).st_size
f = os.open(sys.argv[1], os.O_RDONLY)
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
at = libc.mmap(None, ctypes.c_size_t(n), 1, 1, f, ctypes.c_long(0))
pages = (ctypes.c_ubyte * ((n + 4095) // 4096))()
assert libc.mincore(ctypes.c_void_p(at), ctypes.c_size_t(n), pages) == 0
print(4 * sum(p & 1 for p in pages))' "$1"
}

# forget FILE: nothing of it stays in the page cache
forget() {
	python3 -c '
import os, sys
f = os.open(sys.argv[1], os.O_RDWR)
os.fsync(f)
os.posix_fadvise(f, 0, 0, os.POSIX_FADV_DONTNEED)' "$1"
}

@test 'none keeps the page cache clean' {
	mount_fs ext4 200M fs
	pattern_file fs/in.raw 16M
	forget fs/in.raw
	[ "$(cached fs/in.raw)" -lt 1024 ] || skip 'the page cache cannot be emptied'
	qimg convert -T none -t none -f raw -O qcow2 fs/in.raw fs/out.qcow2
	[ "$(cached fs/in.raw)" -lt 1024 ]
	[ "$(cached fs/out.qcow2)" -lt 1024 ]
	qimg convert -T none -t none -O raw fs/out.qcow2 fs/back.raw
	[ "$(cached fs/out.qcow2)" -lt 1024 ]
	[ "$(cached fs/back.raw)" -lt 1024 ]
	qimg convert -c -T none -t none -f raw -O qcow2 fs/in.raw fs/c.qcow2
	[ "$(cached fs/in.raw)" -lt 1024 ]
	[ "$(cached fs/c.qcow2)" -lt 1024 ]
	cmp fs/in.raw fs/back.raw
	same raw fs/in.raw qcow2 fs/out.qcow2
	same raw fs/in.raw qcow2 fs/c.qcow2
}

@test 'the result is the same in all modes' {
	local source target
	pattern_file in.raw 3000000
	for target in none writeback writethrough directsync unsafe; do
		for source in none directsync unsafe; do
			qimg convert -T $source -t $target -f raw -O qcow2 in.raw out.qcow2
			is_clean out.qcow2
			same raw in.raw qcow2 out.qcow2
			qimg convert -T $source -t $target -O raw out.qcow2 back.raw
			cmp -n 3000000 in.raw back.raw
		done
	done
}
