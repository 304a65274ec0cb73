#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# bench: it says so where no disk was asked, and its figures are no others than
# they seem.

load helpers

# warned PART OPTION...: bench says PART; lacking PART OPTION...: it does not
warned() {
	local part=$1
	shift
	qimg bench --scratch=. --size=16M -c 500 "$@" >/dev/null 2>"$BATS_TEST_TMPDIR/said"
	contains "$(cat "$BATS_TEST_TMPDIR/said")" "$part"
}

lacking() {
	local part=$1
	shift
	qimg bench --scratch=. --size=16M -c 500 "$@" >/dev/null 2>"$BATS_TEST_TMPDIR/said"
	lacks "$(cat "$BATS_TEST_TMPDIR/said")" "$part"
}

@test 'reading what is not allocated' {
	warned '100% of what is read is not allocated' --rw=randread --preallocation=off
	warned '100% of what is read is not allocated' --rw=read --preallocation=off -i model=ssd-2015
	warned 'not allocated' --rw=randread --preallocation=metadata
	lacking 'not allocated' --rw=randread --preallocation=metadata -i model=ssd-2015
	lacking 'not allocated' --rw=randread --fill
	lacking 'not allocated' --rw=randwrite
	warned 'not allocated' --rw=randrw
	warned 'not allocated' --rw=randread -f raw
	lacking 'not allocated' --rw=randread -f raw --fill
	warned 'In 1 of 2 rows' --rw=randread -f raw,qcow2 -i model=ssd-2015
	qimg create -q -f qcow2 half.qcow2 16M
	qio -f qcow2 -c 'write 0 8M' half.qcow2 >/dev/null
	contains "$(qimg bench --rw=randread -c 10 half.qcow2 2>&1)" '50% of what is read'
	lacks "$(qimg bench --rw=read -c 100 half.qcow2 2>&1)" 'not allocated'
	lacks "$(qimg bench -c 100 half.qcow2 2>&1)" 'not allocated'
}

@test 'reserved space that was never written' {
	need_loop
	local type
	for type in ext4 xfs; do
		command -v mkfs.$type >/dev/null || continue
		mount_fs $type 400M $type
		warned 'not allocated' --rw=randread --preallocation=falloc --scratch=$type -t none
		lacking 'not allocated' --rw=randread --preallocation=full --scratch=$type -t none
	done
}

@test 'the page cache' {
	warned 'page cache has answered' --rw=randread --fill
	lacking 'page cache' --rw=randread --fill -i model=ssd-2015
	lacking 'page cache' --rw=randread --preallocation=off
	qimg bench --scratch=. --size=16M --rw=randread --fill --output=json -c 500 >out 2>/dev/null
	equal "$(json out 'd["runs"][0]["page-cache"] and d["runs"][0]["image-cached-bytes"] >= 16 << 20')" true
	need_loop
	mount_fs ext4 400M ext4
	lacking 'page cache' --rw=randread --fill -t none --scratch=ext4
	qimg bench --scratch=ext4 --size=16M --rw=randread --fill --output=json -c 500 -t none >out
	equal "$(json out 'd["runs"][0]["image-cached-bytes"] < 4 << 20')" true
}

@test 'a page cache that has what it has read is not one that has answered' {
	need_loop
	mount_fs ext4 400M ext4
	qimg create -q -f qcow2 ext4/a.qcow2 64M
	qimg bench -q --rw=read -w --fill -c 1 ext4/a.qcow2 2>/dev/null
	# cached OPTION...: what is said of reads of a quarter of it, at most
	cached() {
		qimg bench --rw=randread -d 4 --output=json "$@" ext4/a.qcow2 >out 2>said
		json out 'd["runs"][0]["page-cache"]'
	}
	dd of=ext4/a.qcow2 oflag=nocache conv=notrunc,fdatasync count=0 2>/dev/null
	equal "$(cached -c 4000)" false
	lacks "$(cat said)" 'page cache'
	equal "$(json out 'd["runs"][0]["image-cached-bytes"] > 8 << 20')" true
	equal "$(cached -c 4000)" true
	contains "$(cat said)" 'page cache has answered'
	# The warm-up makes it hold what the run asks for.
	dd of=ext4/a.qcow2 oflag=nocache conv=notrunc,fdatasync count=0 2>/dev/null
	equal "$(cached --rw=read -c 1000 --warmup=16384)" true
	# A write that is flushed has reached the disk.
	equal "$(cached --rw=randwrite -w -c 50)" true
	equal "$(cached --rw=randwrite -w -c 50 -t writethrough)" false
}

@test 'what the cache file has in the page cache is told' {
	case $VARIANT in *two-slices* | *second-level*) skip 'the caches are not as large as they are asked to be' ;; esac
	local direct
	for direct in on off; do
		qimg bench --scratch=. --size=40G -i model=ssd-2018 --rw=randread -c 3000 -d 1 --l2-cache-size=64K --output=json \
			--open-options="l2-cache-file=.,l2-cache-file-direct=$direct" >$direct 2>/dev/null
	done
	equal "$(json off 'd["runs"][0]["cache-file-cached-bytes"] > 1 << 20')" true
	equal "$(json on 'd["runs"][0]["resident-bytes"] > 1 << 20')" true
	equal "$(json on 'd["runs"][0]["caches"][0]["file-bytes"] > 1 << 20')" true
}

@test 'requests a second times seconds are requests' {
	local how
	for how in '--rw=randread' '--rw=randwrite -i model=ssd-2018' '--rw=write --flush-interval=64' \
		'--rw=randread --warmup=100 --runs=2 -i model=hdd-2016'; do
		# shellcheck disable=SC2086
		qimg bench --scratch=. --size=16M -c 1000 $how --output=json >out 2>/dev/null
		equal "$(json out 'abs(d["runs"][0]["iops"] * d["runs"][0]["seconds"] - 1000) < 2')" true "$how"
	done
	# Also in a very short time.
	qimg bench --scratch=. --size=16M -c 1 --fill -i sync --output=json >out 2>/dev/null
	equal "$(json out 'abs(d["runs"][0]["iops"] * d["runs"][0]["seconds"] - 1) < 1e-4')" true "$(cat out)"
	qimg bench --scratch=. --size=16M -c 1 -i model=ssd-2015 --output=csv >out
	python3 - <<-'END'
	import csv
	row = list(csv.DictReader(open('out')))[0]
	assert abs(float(row['iops']) * float(row['seconds']) - 1) < 1e-4 and len(row['seconds']) == 11, row
	END
	# No device was asked: there is no rate.
	qimg bench --scratch=. --size=16M -c 1000 --preallocation=off -i model=ssd-2015 --output=json >out 2>/dev/null
	equal "$(json out '[d["runs"][0][k] for k in ("iops", "iops-least", "iops-most", "bytes-per-second")]')" \
		'[null, null, null, null]'
	qimg bench --scratch=. --size=16M -c 100 --preallocation=off,metadata -i model=ssd-2015 --runs=2 >out 2>/dev/null
	equal "$(awk '$1 == "off" { print $2, $3, $4 }' out)" $'- - -\n- - -' "$(cat out)"
	equal "$(awk '$1 == "metadata" && $2 > 0' out | wc -l)" 2
}

@test 'a model gives the same figures each time' {
	local i
	for i in 1 2; do
		qimg bench --scratch=. --size=20G --rw=randread -c 2000 -i model=ssd-2015 --l2-cache-size=1M,full -d 1,8 \
			--output=json | grep -E '"(iops|seconds|metadata-reads|evictions)"|"mean"' >"run$i"
	done
	equal "$(wc -l <run1)" 24
	diff run1 run2
}
