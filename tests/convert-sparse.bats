#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# convert -S: which runs of zeros become holes.

load helpers

# 16 MiB: every 256 KiB one byte that is not zero, all of it allocated
speckled() {
	need python3
	python3 -c '
b = bytearray(16 << 20)
for i in range(0, len(b), 256 << 10):
    b[i + 100] = 1
open("in.raw", "wb").write(b)'
}

# uses SIZE WANT: converting with -S SIZE allocates WANT bytes, and a block or
# two of the file system's own
uses() {
	local got
	qimg convert -S "$1" -f raw -O raw in.raw out.raw
	cmp in.raw out.raw
	sync out.raw
	got=$(allocated out.raw)
	if [ "$got" -lt "$2" ] || [ "$got" -gt $(($2 + 8192)) ]; then
		fail "-S $1: $got allocated, want $2"
	fi
}

@test '-S sets the size of the holes' {
	speckled
	local chunks=64
	uses 4k $((chunks * 4096))
	uses 512 $((chunks * 4096))
	uses 64k $((chunks * 65536))
	uses 256k $((16 << 20))
	uses 0 $((16 << 20))
	# not a power of two, and longer than any run
	uses 12k $((chunks * 8192))
	uses 16M $((16 << 20))
}

@test 'zeros longer than the buffers are still one run' {
	dd if=/dev/zero of=in.raw bs=1M count=40 status=none
	printf x | dd of=in.raw bs=1 seek=3000000 conv=notrunc status=none
	uses 16M $((16 << 20))
	uses 8M $((8 << 20))
}

@test 'holes of the source stay holes however long -S is' {
	truncate -s 16M in.raw
	for i in 1 5 30 31 100; do
		printf x | dd of=in.raw bs=1 seek=$((i * 65536)) conv=notrunc status=none
	done
	[ "$(allocated in.raw)" -le 65536 ] || skip 'the file system has no holes as small'
	uses 16M $((5 * 4096))
	uses 1M $((5 * 4096))
	qimg create -q -f qcow2 in.qcow2 16M
	qio -c 'write -P 1 1M 64k' -c 'write -P 1 7M 64k' in.qcow2 >/dev/null
	qimg convert -S 16M -f qcow2 -O qcow2 in.qcow2 out.qcow2
	[ "$(stat -c %s out.qcow2)" -lt 1048576 ]
}

@test 'a zero tail that is shorter than -S is a hole' {
	pattern_file in.raw 1M
	head -c 4096 /dev/zero >>in.raw
	qimg convert -S 64k -f raw -O raw in.raw out.raw
	cmp in.raw out.raw
}

@test 'clusters that nothing was written to are not read' {
	qimg create -q -f qcow2 -o preallocation=metadata,cluster_size=2M pre.qcow2 100G
	qio -f qcow2 -c 'write -P 7 50G 3M' pre.qcow2 >/dev/null
	"$QIMG" convert -O qcow2 pre.qcow2 out.qcow2
	[ "$(allocated out.qcow2)" -lt 16777216 ] || fail 'holes were written'
	qio -r -f qcow2 -c 'read -P 7 50G 3M' -c 'read -P 0 53690236928 1M' out.qcow2
	need strace
	need_no_sanitizer
	strace -f -o trace -e trace=pread64,preadv2,io_uring_enter "$QIMG" convert -O qcow2 pre.qcow2 out2.qcow2
	[ "$(wc -l <trace)" -lt 2000 ] || fail "$(wc -l <trace) calls"
}

@test 'a file system that errs on holes is not asked for them' {
	need strace
	need_no_sanitizer
	cat >zfs.c <<-'END'
	#include <sys/vfs.h>
	int fstatfs(int fd, struct statfs *s) { (void)fd; s->f_type = 0x2fc12fc1; return 0; }
	int fstatfs64(int fd, struct statfs64 *s) { (void)fd; s->f_type = 0x2fc12fc1; return 0; }
	END
	compile -D_LARGEFILE64_SOURCE -shared -fPIC -o zfs.so zfs.c
	truncate -s 3M in.raw
	printf data | dd of=in.raw bs=1M seek=1 conv=notrunc status=none
	strace -f -o plain -e trace=lseek "$QIMG" convert -f raw -O raw in.raw out.raw
	grep -q SEEK_DATA plain
	strace -f -o zfs -e trace=lseek -E LD_PRELOAD="$PWD/zfs.so" "$QIMG" convert -f raw -O raw in.raw out.raw
	! grep SEEK_DATA zfs || return
	cmp in.raw out.raw
	[ "$(allocated out.raw)" -lt 1048576 ] || fail 'zeros became data'
}

@test '-S 0 allocates everything' {
	truncate -s 5000000 in.raw
	qimg convert -S 0 -f raw -O raw in.raw out.raw
	[ "$(allocated out.raw)" -ge 5000000 ]
	qimg convert -S 0 -f raw -O qcow2 in.raw out.qcow2
	is_clean out.qcow2
	need qemu-img
	contains "$(qemu-img check out.qcow2)" '77/77 = 100.00% allocated'
	same raw in.raw qcow2 out.qcow2
}

@test '-S takes multiples of 512 up to 16 MiB' {
	truncate -s 1M in.raw
	local bad
	for bad in 513 1 16777728 1T x -1 ''; do
		refused out.raw qimg convert -S "$bad" -f raw -O raw in.raw out.raw
	done
	qimg convert -S 16M -f raw -O raw in.raw out.raw
	qimg convert --sparse-size=1536 -f raw -O raw in.raw out.raw
}

@test 'a partly zero cluster is written as a whole' {
	truncate -s 1M in.raw
	printf x | dd of=in.raw bs=1 seek=70000 conv=notrunc status=none
	qimg convert -f raw -O qcow2 in.raw out.qcow2
	same raw in.raw qcow2 out.qcow2
	need qemu-img
	contains "$(qemu-img check out.qcow2)" '1/16 = 6.25% allocated'
}
