#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# bench --preset=preallocation: a row for each kind of image and engine, on the
# file system that is there. How fast they are is no matter of a test.

load helpers

# direct_io FOLDER: skips where there is none
direct_io() {
	dd if=/dev/zero of="$1/probe" bs=4096 count=1 oflag=direct status=none 2>/dev/null || skip 'no direct I/O here'
	rm "$1/probe"
}

@test 'it is about a real disk' {
	fails qimg bench --preset=preallocation
	says '--real'
	equal "$(cat "$BATS_TEST_TMPDIR/stdout")" ''
}

@test 'a row for each kind and engine, on ext4 and XFS' {
	local fs kinds
	need_no_sanitizer
	mount_fs ext4 200M ext4
	mount_fs xfs 320M xfs
	for fs in ext4 xfs; do
		qimg bench --preset=preallocation --real --size=16M -c 100 --runs=2 --scratch=$fs --output=json >out
		kinds=9
		[ $fs = ext4 ] || kinds=11
		equal "$(json out 'len(d["runs"])')" $((3 * kinds)) $fs
		equal "$(json out 'sorted({(r["preset"], r["file-system"], r["rw"], r["cache"], r["depth"], r["ops"],
			r["runs"]) for r in d["runs"]})')" "[[\"preallocation\", \"$fs\", \"randwrite\", \"none\", 32, 100, 2]]"
		equal "$(json out 'sorted({(r["format"], r["preallocation"]) for r in d["runs"]})')" \
			'[["qcow2", "falloc"], ["qcow2", "full"], ["qcow2", "metadata"], ["qcow2", "off"], ["raw", "falloc"], ["raw", "full"], ["raw", "off"]]'
		equal "$(json out 'sorted({r["open-options"] for r in d["runs"] if r["open-options"]})')" \
			'["cow-zero-range=auto", "cow-zero-range=off", "cow-zero-range=on"]'
		equal "$(json out '[r["published-iops"] for r in d["runs"] if r["label"] == "qcow2, full, native"]')" '[56668.0]'
		equal "$(json out '[r["published-iops"] for r in d["runs"] if r["aio"] == "io_uring" and r["published-iops"]]')" '[]'
		equal "$(json out '[r["preallocated-by"] for r in d["runs"] if r["preallocation"] == "falloc"]')" \
			"[$(yes '"fallocate"' | head -n 6 | paste -sd, | sed 's/,/, /g')]"
		[ "$(find $fs -type f | wc -l)" -eq 0 ]
	done
	equal "$(json out '[r["aio"] for r in d["runs"] if r["extent-size-hint"] == 65536]')" \
		'["threads", "native", "io_uring"]'
}

@test 'a file system that reserves nothing: zeros are written, or there is no such row' {
	mount_fs ext2 64M ext2
	direct_io ext2
	qimg bench --preset=preallocation --real --size=4M -c 20 --runs=1 -i threads --scratch=ext2 --output=json >out
	equal "$(json out 'sorted({(r["format"], r["preallocated-by"]) for r in d["runs"] if r["preallocation"] == "falloc"})')" \
		'[["qcow2", "writing zeros"]]'
	qimg bench --preset=preallocation --real --size=4M -c 20 --runs=1 -i threads --scratch=ext2 >out
	contains "$(cat out)" 'Space is reserved by writing zeros, ranges are cleared by writing zeros'
}

@test 'as text, with the figures that were published' {
	direct_io .
	mkdir here
	qimg bench --preset=preallocation --real --size=4M -c 20 --runs=1 -i native --scratch=here --plot=p.svg >out
	contains "$(cat out)" '20 requests, 32 at a time; the median of 1'
	contains "$(cat out)" 'Space is reserved by '
	grep -qE '^full +56668 +[0-9.]+ +[0-9.]+$' out
	grep -qE '^full +58627 +[0-9.]+ +[0-9.]+$' out
	grep -qE '^full: qcow2 to raw +[0-9.]+$' out
	grep -q 'native, published' p.svg
	no_litter here
}

@test 'what can not be is said' {
	fails qimg bench --preset=preallocation --real -i sync --size=4M
	says sync
	fails qimg bench --preset=preallocation --real --scratch=none
	says "'none'"
	fails qimg bench --preset=chain -c 5
	says --count
	need_root
	mount_fs tmpfs 1M small
	fails qimg bench --preset=preallocation --real --scratch=small
	says 'direct I/O'
	no_litter small
}
