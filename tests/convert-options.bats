#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# convert refuses what cannot work before it touches anything.

load helpers

setup() {
	helpers_setup
	pattern_file in.raw 1M
}

@test 'options that exclude each other' {
	refused out.raw qimg convert -c -f raw -O raw in.raw out.raw
	says '-O qcow2'
	refused out.qcow2 qimg convert -c -f raw -O qcow2 -o preallocation=metadata in.raw out.qcow2
	says 'preallocation'
	refused out.qcow2 qimg convert -c -f raw -O qcow2 -o data_file=d.raw in.raw out.qcow2
	says 'data file'
	refused out.raw qimg convert --target-is-zero -f raw -O raw in.raw out.raw
	says '-n'
	refused out.raw qimg convert -C -S 4k -f raw -O raw in.raw out.raw
	refused out.qcow2 qimg convert -C -c -f raw -O qcow2 in.raw out.qcow2
	refused out.qcow2 qimg convert -F raw -f raw -O qcow2 in.raw out.qcow2
	no_litter . in.raw
	truncate -s 2M out.raw
	kept out.raw qimg convert -n -o size=2M -f raw -O raw in.raw out.raw
	says '-n'
	kept out.raw qimg convert -n --no-clobber -f raw -O raw in.raw out.raw
}

@test 'numbers out of range' {
	local n
	for n in 0 17 -1 1x ''; do
		refused out.raw qimg convert -m "$n" -f raw -O raw in.raw out.raw
	done
	qimg convert -m 1 -f raw -O raw in.raw out.raw
	qimg convert -m 16 -W -f raw -O raw in.raw out.raw
	cmp in.raw out.raw
}

@test 'too few names, unknown options and formats' {
	fails qimg convert
	fails qimg convert in.raw
	fails qimg convert --nonsense in.raw out.raw
	refused out.raw qimg convert -f nosuch in.raw out.raw
	refused out.raw qimg convert -O nosuch in.raw out.raw
	refused out.qcow2 qimg convert -O qcow2 -o nosuch=1 in.raw out.qcow2
	refused out.raw qimg convert -t nosuch in.raw out.raw
	refused out.raw qimg convert -T nosuch in.raw out.raw
	refused out.raw qimg convert missing.raw out.raw
	says 'missing.raw'
	no_litter . in.raw
}

@test 'a refused conversion leaves an older target as it was' {
	need qemu-img
	qemu-img create -q -f qcow2 old.qcow2 4M
	kept old.qcow2 qimg convert -f raw -O qcow2 -o cluster_size=3000 in.raw old.qcow2
	kept old.qcow2 qimg convert -f raw -O qcow2 -o size=512k in.raw old.qcow2
	kept old.qcow2 qimg convert -f raw -O qcow2 -B missing.raw -F raw in.raw old.qcow2
	kept old.qcow2 qimg convert --no-clobber -f raw -O qcow2 in.raw old.qcow2
	kept old.qcow2 qimg convert missing.raw old.qcow2
	no_litter . in.raw old.qcow2
}

@test '-o size' {
	qimg convert -f raw -O qcow2 -o size=3M in.raw out.qcow2
	is_clean out.qcow2
	qimg convert out.qcow2 out.raw
	cmp -n 1048576 in.raw out.raw
	equal "$(stat -c %s out.raw)" $((3 << 20))
	equal "$(tail -c 2M out.raw | tr -d '\0' | wc -c)" 0
	qimg convert -f raw -O raw -o size=2M in.raw out.raw
	equal "$(stat -c %s out.raw)" $((2 << 20))
	refused no.raw qimg convert -f raw -O raw -o size=512k in.raw no.raw
	says 524288
	says 1048576
}

@test 'the option names of newer versions' {
	need qemu-img
	qimg convert --source-format raw --target-format qcow2 --target-format-options cluster_size=4k \
		--source-cache none --target-cache writeback --parallel 4 --oob-writes --compress \
		--progress --quiet --sparse-size 8k in.raw out.qcow2
	is_clean out.qcow2
	same raw in.raw qcow2 out.qcow2
	qimg convert --no-create --target-is-zero --force-share --source-format=raw \
		--target-format=qcow2 in.raw out.qcow2
	qimg convert --copy-range-offloading --rate-limit 0 --source-format=raw in.raw out.raw
	cmp in.raw out.raw
	qimg convert --backing in.raw --backing-format raw -f raw -O qcow2 in.raw over.qcow2
	same raw in.raw qcow2 over.qcow2
	qimg convert -b in.raw -F raw -f raw -O qcow2 in.raw over.qcow2
	same raw in.raw qcow2 over.qcow2
}

@test 'cache modes do not change the result' {
	local mode
	for mode in none writeback writethrough directsync unsafe; do
		qimg convert -t $mode -T $mode -f raw -O qcow2 in.raw out.qcow2
		is_clean out.qcow2
		same raw in.raw qcow2 out.qcow2
		qimg convert -t $mode -T $mode -O raw out.qcow2 out.raw
		cmp in.raw out.raw
	done
}

@test '-o help lists the options and creates nothing' {
	contains "$(qimg convert -O qcow2 -o help)" cluster_size
	contains "$(qimg convert -O qcow2 -o '?' in.raw out.qcow2)" cluster_size
	no_litter . in.raw
}

@test 'names with commas, colons, blanks and dashes' {
	local name
	for name in 'a:b.qcow2' 'a,b.qcow2' 'a b.qcow2' '-dash.qcow2'; do
		qimg convert -f raw -O qcow2 -- in.raw "$name"
		qimg convert -O raw -- "$name" out.raw
		cmp in.raw out.raw
		rm -- "$name"
	done
}

@test '-r limits the rate' {
	need_no_sanitizer
	local start end
	start=$(date +%s%N)
	qimg convert -r 1M -f raw -O raw in.raw out.raw
	end=$(date +%s%N)
	cmp in.raw out.raw
	[ $((end - start)) -ge 900000000 ]
}
