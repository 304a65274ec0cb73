#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# bench --preset: published tables on models of the devices that were measured
# then. Each cell is near the published figure, and comes out the same again.

load helpers

# near PRESET TOLERANCE ROWS [CONDITION]: all rows (r) of the preset in out that are
# meant (by a Python expression) are within the tolerance, and so many they are
near() {
	local bad
	bad=$(json out "[(r['label'], r['iops'], r['published-iops']) for r in d['runs']
		if r['preset'] == '$1' and r['published-iops'] and (${4:-True}) and abs(r['ratio'] - 1) > $2]")
	equal "$bad" '[]' "$1" || return
	equal "$(json out "sum(1 for r in d['runs'] if r['preset'] == '$1' and r['published-iops'] and (${4:-True}))")" \
		"$3" "rows of $1"
}

no_small_caches() {
	case $VARIANT in *two-slices* | *second-level*) skip 'the caches are not as large as they are asked to be' ;; esac
}

@test 'l2-size: each cell within 5 per cent, seven times with loads that overlap' {
	no_small_caches
	qimg bench --preset=l2-size --output=json >out
	near l2-size 0.05 4 '"one load" in r["label"]'
	equal "$(json out '[6.5 < r["ratio"] < 7.5 for r in d["runs"] if r["label"] == "1 MiB, overlapping, depth 8"]')" \
		'[true]'
	# in compact form everything fits
	equal "$(json out 'sum(r["iops"] > 60000 for r in d["runs"] if "compact" in r["label"])')" 4
	# the image has its metadata, and the warm-up does not count
	equal "$(json out 'all(r["ops"] == 20000 and r["warmup-ops"] == 1000 for r in d["runs"])')" true
	equal "$(json out 'all(r["virtual-size"] == 20 << 30 and r["unallocated-percent"] == 0 for r in d["runs"])')" true
}

@test 'l2-entry-size: each cell within 10 per cent, those of another table within 15' {
	no_small_caches
	qimg bench --preset=l2-entry-size --output=json >out
	near l2-entry-size 0.10 9 '"of 64K:" in r["label"]'
	near l2-entry-size 0.15 9 '"of 256K" in r["label"]'
}

@test 'l2-rounding: 192K within 5 per cent, 128K with single within 15' {
	no_small_caches
	qimg bench --preset=l2-rounding --output=json >out
	near l2-rounding 0.05 1 'r["label"] == "192K"'
	near l2-rounding 0.15 1 'r["metadata-writeback"] == "single"'
	equal "$(json out '[r["ratio"] > 1.2 for r in d["runs"] if r["metadata-writeback"] == "shared"]')" '[true]'
	equal "$(json out 'all(r["writes"] == 5000 for r in d["runs"])')" true
	qimg bench --preset=l2-rounding --writeback=single --output=json >out
	equal "$(json out '[r["label"] for r in d["runs"]]')" '["128K, single", "192K"]'
}

@test 'l2-rounding: the arithmetic' {
	qimg bench --preset=l2-rounding >out
	for line in '4K            2M ' '8K            8M ' '16K           32M ' '32K           128M ' \
		'64K           512M ' '128K          2G ' '256K          8G ' '512K          32G ' '1M            128G ' \
		'2M            512G '; do
		grep -q "^$line.*4 of 5 tables" out || fail "$line"
	done
	grep -q '^512K  *2  *2  *2  *3  *2  *3$' out
	grep -q 'entries of 8 bytes: nowhere; of 16: 512K\.' out
}

@test 'l2-on-disk: random within 5 per cent, in order within 10; and where the tables were' {
	no_small_caches
	qimg bench --preset=l2-on-disk --output=json >out
	near l2-on-disk 0.05 5 'r["label"].startswith("random")'
	near l2-on-disk 0.10 5 'r["label"].startswith("sequential")'
	# in memory there is what the cache may have, or little and a file
	equal "$(json out '[r["cache-bytes"] >> 10 for r in d["runs"] if "in memory" in r["label"]][0] >= 2560')" true
	equal "$(json out 'max(r["cache-bytes"] for r in d["runs"] if "in a file" in r["label"]) < 400 << 10')" true
	equal "$(json out 'min(r["cache-file-cached-bytes"] for r in d["runs"] if r["label"] == "random: in a file, page cache") > 0')" true
}

@test 'the page cache has nothing of what passes it by' {
	no_small_caches
	mount_fs ext4 200M mnt
	qimg bench --preset=l2-on-disk --scratch=mnt --output=json >out
	equal "$(json out '[r["image-cached-bytes"] + r["cache-file-cached-bytes"] for r in d["runs"]
		if "page cache" not in r["label"]]')" '[0, 0, 0, 0, 0, 0, 0, 0]'
	equal "$(json out '[r["cache-file-cached-bytes"] == 2560 << 10 for r in d["runs"]
		if r["label"] == "random: in a file, page cache"]')" '[true]'
	equal "$(ls -A mnt | grep -v lost+found)" ''
}

@test 'the text has the published table, the ratio, the model, and is the same each time' {
	local name
	for name in l2-size l2-rounding; do
		qimg bench --preset=$name >one
		qimg bench --preset=$name >two
		diff one two
		grep -q "^$name: " one
		grep -q '^Published: ' one
		grep -q 'time is that of model=' one
	done
	no_small_caches
	grep -q '^192K  *16000  *1[56][0-9]*  *[01]\.[0-9]*$' one
}

@test 'all of them, in one document, in little room' {
	mkdir room
	TMPDIR=$PWD/room qimg bench --preset=all --output=json >out
	equal "$(json out 'sorted({r["preset"] for r in d["runs"]})')" \
		'["l2-entry-size", "l2-on-disk", "l2-rounding", "l2-size"]'
	equal "$(ls -A room)" ''
	qimg bench --preset=l2-rounding,l2-size --output=csv >out
	equal "$(wc -l <out)" 16
}

@test 'drawn, with the published points' {
	local name
	for name in l2-size l2-entry-size l2-rounding l2-on-disk; do
		qimg bench -q --preset=$name --plot=$name.svg
		python3 - $name.svg <<-'END' || fail "$name"
		import sys, xml.etree.ElementTree as tree
		text = [t.text for t in tree.parse(sys.argv[1]).iter('{http://www.w3.org/2000/svg}text')]
		assert any('published' in t for t in text if t) and any('here' in t for t in text if t), text
		END
	done
	fails qimg bench --preset=l2-size,l2-rounding --plot=two.svg
	says 'one preset'
	[ ! -e two.svg ]
	fails qimg bench -q --preset=l2-rounding --plot=no/where.svg
}

@test 'what can not be meant is refused' {
	fails qimg bench --preset=no
	says "no preset 'no'"
	says 'Known are l2-size, '
	fails qimg bench --preset=l2-siz
	says "'l2-size'"
	fails qimg bench --preset=
	fails qimg bench --preset=l2-size,
	fails qimg bench --preset=l2-size image
	says image
	fails qimg bench --preset=l2-size -c 5
	says --count
	fails qimg bench --preset=l2-size --l2-cache-size=1M
	says --l2-cache-size
	fails qimg bench --preset=l2-size -i threads
	says --real
	fails qimg bench --preset=l2-size --real -i model=ssd-2015
	fails qimg bench --preset=l2-size --real -i abacus
	fails qimg bench --preset=l2-size --scratch=none
	says none
	fails qimg bench --real image
	says --preset
	qimg bench --preset=help >out
	grep -q '^l2-on-disk ' out
}

@test 'on a real disk' {
	qimg bench --preset=l2-rounding --real --size=640M --output=json >out
	equal "$(json out '[r["aio"] for r in d["runs"]]')" '["threads", "threads", "threads"]'
	equal "$(json out 'all(r["virtual-size"] == 640 << 20 and r["ops"] > 0 for r in d["runs"])')" true
}

@test 'a signal ends it, and takes the image along' {
	local pid status=0
	mkdir room
	TMPDIR=$PWD/room "$QIMG" bench -q --preset=all 2>/dev/null &
	pid=$!
	sleep 0.3
	kill -TERM $pid
	wait $pid || status=$?
	equal $status 143
	equal "$(ls -A room)" ''
}
