#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# bench: lists make a row for each combination; what they may hold, and what is
# refused before anything is measured.

load helpers

# sweep OPTION...: rows of modelled reads of scratch images in $BATS_TEST_TMPDIR/json
sweep() {
	qimg bench --rw=randread --size=20G -c 20 -i model=ssd-2015 --scratch=. --output=json "$@" \
		>"$BATS_TEST_TMPDIR/json"
	no_litter .
}

# column KEY: its values, row by row
column() {
	json "$BATS_TEST_TMPDIR/json" "' '.join(str(r['$1']) for r in d['runs'])"
}

@test 'lists, ranges, steps and words' {
	sweep --l2-cache-size=1M,1.5M
	equal "$(column l2-cache-size)" '1048576 1572864'
	sweep --l2-cache-size=64K..512K*2
	equal "$(column l2-cache-size)" '65536 131072 262144 524288'
	sweep --l2-cache-size=64K..1M*4
	equal "$(column l2-cache-size)" '65536 262144 1048576'
	sweep --l2-cache-size=1M..2M+512K,256K
	equal "$(column l2-cache-size)" '1048576 1572864 2097152 262144'
	sweep --l2-cache-size=1M..full*2
	equal "$(column l2-cache-size)" '1048576 2097152 2621440'
	sweep --l2-cache-size=min,full,default
	equal "$(column l2-cache-size)" '8192 2621440 2621440'
	sweep --l2-cache-entry-size=min,4K,full --l2-cache-size=1M
	equal "$(column l2-cache-entry-size)" '512 4096 65536'
	sweep --l2-cache-size=512K,1M --l2-cache-entry-size=4K,64K
	equal "$(column l2-cache-size)" '524288 524288 1048576 1048576'
	equal "$(column l2-cache-entry-size)" '4096 65536 4096 65536'
	sweep -d 1,4..6+1
	equal "$(column depth)" '1 4 5 6'
	sweep -d default,min
	equal "$(column depth)" '64 1'
	sweep -i model=ssd-2015,model=hdd-2016,sync
	equal "$(column aio)" 'model=ssd-2015 model=hdd-2016 sync'
}

@test 'scratch images of several kinds; raw ones have neither clusters nor caches' {
	sweep --size=16M --format=raw,qcow2 --cluster-size=4K,64K,full --preallocation=off,metadata,falloc \
		--l2-cache-size=full,8K
	equal "$(json "$BATS_TEST_TMPDIR/json" 'len(d["runs"])')" 20
	equal "$(json "$BATS_TEST_TMPDIR/json" '[[r["preallocation"], r["cluster-size"], r["l2-cache-size"]] for r in d["runs"] if r["format"] == "raw"]')" \
		'[["off", null, null], ["falloc", null, null]]'
	equal "$(json "$BATS_TEST_TMPDIR/json" 'sorted({r["cluster-size"] for r in d["runs"] if r["format"] == "qcow2"})')" \
		'[4096, 65536, 2097152]'
}

@test 'a list is a column, also when all of its values come to the same' {
	qimg bench --rw=randread --size=1G -c 20 -i model=ssd-2015 --scratch=. --refcount-cache-size=min,default >out
	equal "$(awk 'NR == 1 { print $1 } NR < 4 && NR > 1 { printf "%s ", $1 }' out)" "refcounts
256K 256K "
	qimg bench --rw=randread --size=1G -c 20 -i model=ssd-2015 --scratch=. --l2-cache-size=min,8K >out
	equal "$(grep -cE '^L2 cache  ' out)" 2
	equal "$(grep -c 'refcounts\|depth' out)" 0
}

@test 'extent size hints are what files have got' {
	mount_fs xfs 300M xfs
	mount_fs ext4 20M ext4
	qimg bench --rw=randwrite --size=16M -c 20 --scratch=xfs --extent-size-hint=0,64K --format=raw,qcow2 \
		--output=json >"$BATS_TEST_TMPDIR/json" 2>err
	equal "$(column extent-size-hint)" '0 65536 0 65536'
	lacks "$(cat err)" 'extent size hints'
	qimg bench --rw=randwrite --size=16M -c 20 --scratch=xfs --format=raw --output=json >"$BATS_TEST_TMPDIR/json"
	equal "$(column extent-size-hint)" 1048576
	qimg bench --rw=randwrite --size=16M -c 20 --scratch=ext4 --extent-size-hint=0,64K --format=raw,qcow2 \
		--output=json >"$BATS_TEST_TMPDIR/json" 2>err
	equal "$(column extent-size-hint)" 'None None None None'
	equal "$(grep -c 'no extent size hints on ext4' err)" 1
	qimg bench --rw=randwrite --size=16M -c 20 --scratch=ext4 --extent-size-hint=0,64K >out 2>err
	equal "$(awk 'NR < 4 { printf "%s ", $1 }' out)" 'hint - - '
	equal "$(grep -c 'no extent size hints on ext4' err)" 1
}

@test 'a named image: its sizes are what the words mean, and it stays as it is' {
	qimg create -q -f qcow2 -o preallocation=metadata,cluster_size=4k a.qcow2 64M
	local before
	before=$(hash a.qcow2)
	qimg bench --rw=randread -c 100 --output=json --l2-cache-size=min..full*8 --refcount-cache-size=min \
		a.qcow2 >"$BATS_TEST_TMPDIR/json"
	equal "$(column l2-cache-size)" '8192 65536 131072'
	equal "$(column refcount-cache-size)" '16384 16384 16384'
	equal "$(column file)" 'a.qcow2 a.qcow2 a.qcow2'
	qimg bench --rw=randread -c 100 --output=json --l2-cache-size=full --image-opts \
		driver=qcow2,file.filename=a.qcow2,cache.direct=off >"$BATS_TEST_TMPDIR/json"
	equal "$(column l2-cache-size)" 131072
	equal "$(hash a.qcow2)" "$before"
}

@test 'a larger cache reads less, until the image fits' {
	case $VARIANT in *two-slices* | *second-level*) skip 'the caches are not as large as they are asked to be' ;; esac
	sweep -c 2000 -d 1 --warmup=500 --metadata-depth=1 --l2-cache-entry-size=64K --l2-cache-size=1M,2M,full \
		--open-options=l2-cache-compact=off
	json "$BATS_TEST_TMPDIR/json" '[r["metadata-reads-per-op"] for r in d["runs"]]' >out
	equal "$(json out 'd[0] > d[1] > d[2] == 0')" true "$(cat out)"
	equal "$(json "$BATS_TEST_TMPDIR/json" '[r["iops"] for r in d["runs"]] == sorted(r["iops"] for r in d["runs"])')" true
	equal "$(json "$BATS_TEST_TMPDIR/json" 'all(abs(r["metadata-reads-per-op"] + r["l2-hit-ratio"] - 1) < 0.002 for r in d["runs"])')" true
}

@test 'the size of the cache makes a difference in the example of the manual' {
	local example
	case $VARIANT in *two-slices* | *second-level*) skip 'the caches are not as large as they are asked to be' ;; esac
	example=$(sed -n 's/^\.Dl \$ qimg bench \(.*--size=20G.*\)/\1/p' "$SRCDIR/man/qimg-bench.1")
	contains "$example" '--l2-cache-size='
	# shellcheck disable=SC2086
	qimg bench $example -c 5000 --scratch=. --output=json >"$BATS_TEST_TMPDIR/json"
	equal "$(json "$BATS_TEST_TMPDIR/json" '[b["iops"] > 1.05 * a["iops"] for a, b in zip(d["runs"], d["runs"][1:])]')" \
		'[true, true, true, true]'
}

@test 'a table for people has what differs, and the figures' {
	qimg bench --rw=randread --size=20G -c 100 -i model=ssd-2015 --l2-cache-size=1M,2M -d 1,2 --scratch=. >out 2>&1
	equal "$(wc -l <out)" 12
	contains "$(head -n 1 out)" 'L2 cache'
	contains "$(head -n 1 out)" 'depth'
	contains "$(head -n 1 out)" 'IOPS'
	lacks "$(head -n 1 out)" 'cluster'
	lacks "$(head -n 1 out)" 'spread'
	contains "$(head -n 1 out)" 'CPU s'
	contains "$(sed -n 8p out)" '99.9%'
	equal "$(head -n 5 out | awk '{ print length }' | sort -u | wc -l)" 1 'lines of different lengths'
	equal "$(tail -n 5 out | awk '{ print length }' | sort -u | wc -l)" 1 'lines of different lengths'
	qimg bench -q --rw=randread --size=20G -c 100 -i model=ssd-2015 -d 1,2 --scratch=. >out 2>&1
	equal "$(cat out)" ''
}

@test 'lists that mean nothing are refused before anything is made' {
	local bad
	for bad in --l2-cache-size= '--l2-cache-size=1M,' --l2-cache-size=,1M --l2-cache-size=x --l2-cache-size=2M..1M \
		--l2-cache-size=1M..2M*1 --l2-cache-size=1M..2M+0 --l2-cache-size=0..1M --l2-cache-size=default..full \
		--l2-cache-size=1..100000+1 --l2-cache-size=1M.. --l2-cache-size=..1M --l2-cache-size=1M..2M*x \
		--l2-cache-size=-1 --l2-cache-size=9E --l2-cache-entry-size=3K --l2-cache-entry-size=128K \
		--l2-cache-entry-size=256 --refcount-cache-size=full..1 --depth=0 --depth=full --depth=2G \
		--cluster-size=3K --cluster-size=256 --cluster-size=4M --preallocation=some --format=vhd --format= \
		--extent-size-hint=full --aio=model=abacus '--aio=threads,,' --aio=native --aio=threads,native \
		'--preallocation=metadata,off,'; do
		fails qimg bench --rw=randread --size=64M -c 10 --scratch=. "$bad"
		equal "$(wc -l <"$BATS_TEST_TMPDIR/stdout")" 0 "$bad"
		no_litter .
	done
	fails qimg bench --size=64M --scratch=. --depth=1..200+1 --l2-cache-size=1..6+1
	says 1000
	fails qimg bench --size=64M --scratch=. --format=raw --preallocation=metadata
	says metadata
	fails qimg bench --size=64M --scratch=. --rw=randwrite --flush-interval=4 -d 4,8
	says depth
}

@test 'what is about scratch images is refused beside a FILE, and caches where there are none' {
	qimg create -q -f qcow2 a.qcow2 1M
	truncate -s 1M a.raw
	local option
	for option in --size=1M --cluster-size=4K --preallocation=off --extent-size-hint=0 --scratch=. --create-options=compat=1.1; do
		kept a.qcow2 qimg bench --rw=randread "$option" a.qcow2
		says 'no FILE'
	done
	kept a.raw qimg bench --rw=randread -f raw --l2-cache-size=1M a.raw
	kept a.qcow2 qimg bench --rw=randread --l2-cache-entry-size=1M a.qcow2
	kept a.qcow2 qimg bench --rw=randread -f qcow2,raw a.qcow2
	fails qimg bench --image-opts --size=1M
	fails qimg bench --rw=randread --l2-cache-size=1M none.qcow2
	fails qimg bench
	says 'Expecting image file name'
}
