#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# bench --preset=chain: the memory of the caches of each image of a chain,
# before and after the data has moved up.

load helpers

# memory LAYER STAGE INTERVAL: bytes of the L2 cache, from the file out
memory() {
	json out "[c['ram-bytes'] for r in d['runs'] for c in r['caches'] if r['label'] == '$1: $2' and
		r['open-options'] == 'cache-clean-interval=$3' and c['cache'] == 'l2']" | tr -d '[]'
}

@test 'each image keeps its tables; an interval gives back those of images that nobody reads' {
	need_plain
	mkdir here
	qimg bench --preset=chain --scratch=here --size=64M --output=json >out
	equal "$(json out 'len(d["runs"])')" 26
	equal "$(json out 'sorted({(r["preset"], r["file"], r["virtual-size"]) for r in d["runs"]})')" \
		'[["chain", null, 67108864]]'
	for interval in 0 1; do
		equal "$(memory hd0 'hd1 is new: all is read' $interval)" 131072
		equal "$(memory hd1 'hd1 is new: all is read' $interval)" 0
		equal "$(memory hd1 'half of it is written to hd1' $interval)" 131072
		equal "$(memory hd2 'all is written to hd2' $interval)" 131072
		equal "$(memory hd2 'hd2 is read for a while' $interval)" 131072
	done
	for layer in hd0 hd1; do
		equal "$(memory $layer 'hd2 is read for a while' 0)" 131072
		equal "$(memory $layer 'hd2 is read for a while' 1)" 0
	done
	no_litter here
}

@test 'as text, one line a step, and nothing is left' {
	mkdir here
	qimg bench --preset=chain --scratch=here --size=8M >out
	equal "$(grep -c 'KiB' out)" 6
	contains "$(cat out)" '16 KiB of tables for each image'
	no_litter here
	equal "$(qimg bench --preset=chain --scratch=here --size=8M -q)" ''
}

@test 'a size that can not be, a folder that is not there' {
	mkdir here
	for size in 0 4096 10000; do
		fails qimg bench --preset=chain --scratch=here --size=$size
		says "'chain' needs a size"
	done
	fails qimg bench --preset=chain --scratch=none
	says "'none'"
	no_litter here
}

@test 'a signal ends it and leaves nothing' {
	local pid status try
	mkdir here
	"$QIMG" bench --preset=chain --scratch=here 2>message &
	pid=$!
	for try in {1..100}; do
		[ "$(find here -type f | wc -l)" -eq 0 ] || break
		sleep 0.1
	done
	[ "$try" -lt 100 ]
	sleep 0.2
	kill -TERM $pid
	status=0
	wait $pid || status=$?
	equal "$status" 143
	contains "$(cat message)" 'Interrupted'
	lacks "$(cat message)" 'Could not'
	no_litter here
}
