#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# bench --preset=all, once, on models of the devices that were measured then:
# each cell is near the published figure.

load helpers

setup_file() {
	mkdir -p "$BATS_FILE_TMPDIR/room"
	"$QIMG" bench --preset=all --output=json --scratch="$BATS_FILE_TMPDIR/room" \
		>"$BATS_FILE_TMPDIR/all" 2>"$BATS_FILE_TMPDIR/errors"
}

setup() {
	helpers_setup
	out=$BATS_FILE_TMPDIR/all
	case $VARIANT in
	*two-slices* | *second-level*) skip 'the caches are not as large as they are asked to be' ;;
	esac
}

# near PRESET TOLERANCE COUNT CONDITION: all rows (r) of the preset that are meant (by a
# Python expression) are within the tolerance, and so many they are
near() {
	local bad
	bad=$(json "$out" "[(r['label'], r['iops'], r['published-iops']) for r in d['runs']
		if r['preset'] == '$1' and r['published-iops'] and ($4) and abs(r['ratio'] - 1) > $2]")
	equal "$bad" '[]' "$1" || return
	equal "$(json "$out" "sum(1 for r in d['runs'] if r['preset'] == '$1' and r['published-iops'] and ($4))")" \
		"$3" "rows of $1"
}

# of PRESET EXPRESSION: of all rows (r) of the preset
of() {
	json "$out" "[$2 for r in d['runs'] if r['preset'] == '$1']"
}

@test 'l2-size: each cell within 5 per cent, seven times with loads that overlap' {
	near l2-size 0.05 4 '"one load" in r["label"]'
	equal "$(json "$out" '[6.5 < r["ratio"] < 7.5 for r in d["runs"] if r["label"] == "1 MiB, overlapping, depth 8"]')" \
		'[true]'
	# in compact form everything fits
	equal "$(json "$out" 'sum(r["iops"] > 60000 for r in d["runs"] if "compact" in r["label"])')" 4
}

@test 'l2-size: the image has its tables, and the warm-up does not count' {
	equal "$(of l2-size '(r["ops"], r["warmup-ops"], r["virtual-size"] >> 30, r["unallocated-percent"])' |
		tr -d '[] \n')" "$(printf '20000,1000,20,0,%.0s' {1..12} | sed 's/,$//')"
	# as many loads as uniform requests on 40 tables need
	equal "$(json "$out" '[abs(r["metadata-reads-per-op"] - (1 - r["l2-cache-size"] / (40 << 16))) < 0.02
		for r in d["runs"] if "one load" in r["label"]]')" '[true, true, true, true]'
}

@test 'l2-entry-size: each cell within 10 per cent, those of another table within 15' {
	near l2-entry-size 0.10 9 '"of 64K:" in r["label"]'
	near l2-entry-size 0.15 9 '"of 256K" in r["label"]'
}

@test 'l2-rounding: 192K within 5 per cent, 128K with single within 15' {
	near l2-rounding 0.05 1 'r["label"] == "192K"'
	near l2-rounding 0.15 1 'r["metadata-writeback"] == "single"'
	equal "$(json "$out" '[r["ratio"] > 1.2 for r in d["runs"] if r["metadata-writeback"] == "shared"]')" '[true]'
	equal "$(of l2-rounding 'r["writes"]')" '[5000, 5000, 5000]'
}

@test 'l2-on-disk: random within 5 per cent, in order within 10' {
	near l2-on-disk 0.05 5 'r["label"].startswith("random")'
	near l2-on-disk 0.10 5 'r["label"].startswith("sequential")'
	# in memory there is what the cache may have; or little, and a file
	equal "$(json "$out" '[r["cache-bytes"] >> 10 >= 2560 for r in d["runs"] if r["label"] == "random: in memory"]')" \
		'[true]'
	equal "$(json "$out" 'max(r["cache-bytes"] for r in d["runs"] if "in a file" in r["label"]) < 400 << 10')" true
}

@test 'nothing is left of it, and there are no warnings' {
	equal "$(ls -A "$BATS_FILE_TMPDIR/room")" ''
	equal "$(sed '/page cache/d; /--real/d' "$BATS_FILE_TMPDIR/errors")" ''
	contains "$(cat "$BATS_FILE_TMPDIR/errors")" "'preallocation' is left out"
}
