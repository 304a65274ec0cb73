#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# bench --preset: what is printed and drawn, where the tables were, what is
# refused.

load helpers

no_small_caches() {
	case $VARIANT in
	*two-slices* | *second-level*) skip 'the caches are not as large as they are asked to be' ;;
	esac
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

@test 'l2-rounding: the arithmetic' {
	local line
	qimg bench --preset=l2-rounding >out
	for line in '4K            2M ' '8K            8M ' '16K           32M ' '32K           128M ' \
		'64K           512M ' '128K          2G ' '256K          8G ' '512K          32G ' '1M            128G ' \
		'2M            512G '; do
		grep -q "^$line.*4 of 5 tables" out || fail "$line"
	done
	grep -q '^512K  *2  *2  *2  *3  *2  *3$' out
	grep -q 'entries of 8 bytes: nowhere; of 16: 512K\.' out
}

@test 'l2-rounding: one way of writing back alone' {
	qimg bench --preset=l2-rounding --writeback=single --output=json >out
	equal "$(json out '[r["label"] for r in d["runs"]]')" '["128K, single", "192K"]'
	qimg bench --preset=l2-rounding --writeback=shared --output=csv >out
	equal "$(wc -l <out)" 3
}

@test 'l2-on-disk: the page cache has nothing of what passes it by' {
	no_small_caches
	mount_fs ext4 200M mnt
	rmdir mnt/lost+found
	qimg bench --preset=l2-on-disk --scratch=mnt --output=json >out
	equal "$(json out '[r["image-cached-bytes"] + r["cache-file-cached-bytes"] for r in d["runs"]
		if "page cache" not in r["label"]]')" '[0, 0, 0, 0, 0, 0, 0, 0]'
	equal "$(json out '[r["cache-file-cached-bytes"] == 2560 << 10 for r in d["runs"]
		if r["label"] == "random: in a file, page cache"]')" '[true]'
	equal "$(json out '[r["image-cached-bytes"] > 2560 << 10 for r in d["runs"]
		if r["label"] == "random: none, image by page cache"]')" '[true]'
	# and in a few MiB: 20 GiB fit into 200 MiB
	equal "$(ls -A mnt)" ''
}

@test 'drawn, with the published points' {
	local name
	for name in l2-size l2-rounding; do
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

@test 'all is a name among others, and each is run once' {
	qimg bench --preset=all,l2-rounding,all --output=json >out 2>err
	equal "$(json out 'sum(r["preset"] == "l2-rounding" for r in d["runs"])')" 3
	equal "$(json out 'len({r["preset"] for r in d["runs"]})')" 5
	equal "$(grep -c "'preallocation' is left out" err)" 1
	qimg bench --preset=l2-rounding,l2-rounding --output=json >out
	equal "$(json out 'len(d["runs"])')" 3
	fails qimg bench --preset=all,al
	says "no preset 'al'"
	says "'all'"
}

@test 'a disk so small that each cache has all of its tables tells nothing, and that is said' {
	qimg bench --preset=l2-size --size=64M --output=json >out 2>err
	equal "$(grep -c 'of a disk of 64M each L2 cache has all tables' err)" 1
	no_small_caches
	qimg bench --preset=l2-size --size=10G --output=json >out 2>err
	equal "$(cat err)" ''
	qimg bench --preset=l2-size --output=json >out 2>err
	equal "$(cat err)" ''
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
}

@test 'shells know the presets that there are' {
	local known
	qimg bench --preset=help >out
	known=$(cut -d' ' -f1 out | sort | xargs)
	equal "$(qimg --complete options bench | awk -F'\t' '$1 == "--preset" { print $3 }' | tr ' ' '\n' |
		grep -vx help | sort | xargs)" "$known"
}

@test 'on what is no model' {
	mount_fs tmpfs 700M mnt
	qimg bench --preset=l2-rounding --real --size=640M --scratch=mnt --output=json >out
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
