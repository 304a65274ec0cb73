#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# convert -c: compressed clusters, written and read.

load helpers

text_file() { # FILE BYTES: compresses well
	need python3
	python3 -c '
import random, sys
r = random.Random(5)
words = ["".join(r.choices("etaoinshrdlu", k=r.randint(2, 9))) for _ in range(500)]
n = int(sys.argv[2])
open(sys.argv[1], "w").write(" ".join(r.choices(words, k=n // 3))[:n])' "$1" "$2"
}

mixed_file() {
	text_file in.raw 1500000
	truncate -s 2500000 in.raw
	pattern_file part 500000
	cat part >>in.raw
	text_file part 300077
	cat part >>in.raw
	rm part
}

@test 'all cluster sizes and both types' {
	local cs ct
	mixed_file
	for ct in zlib zstd; do
		for cs in 512 4k 64k 2M; do
			qimg convert -c -f raw -O qcow2 -o cluster_size=$cs,compression_type=$ct in.raw c.qcow2
			is_clean c.qcow2
			same raw in.raw qcow2 c.qcow2
			lacks "$(qemu-img check c.qcow2)" ' 0.00% compressed'
			qimg convert -O raw c.qcow2 back.raw
			cmp -n 3300077 in.raw back.raw
			equal "$(stat -c %s back.raw)" 3300352
			case $cs in
			4k | 64k) [ "$(stat -c %s c.qcow2)" -lt 2000000 ] ;;
			esac
		done
	done
}

@test 'with subclusters' {
	mixed_file
	qimg convert -c -f raw -O qcow2 -o extended_l2=on in.raw c.qcow2
	is_clean c.qcow2
	same raw in.raw qcow2 c.qcow2
	qimg convert -O raw c.qcow2 back.raw
	cmp -n 3300077 in.raw back.raw
}

@test 'what the reference compressed' {
	need qemu-img
	local ct
	mixed_file
	for ct in zlib zstd; do
		qemu-img convert -c -f raw -O qcow2 -o compression_type=$ct in.raw c.qcow2
		qimg convert -O raw c.qcow2 back.raw
		cmp -n 3300077 in.raw back.raw
	done
}

@test 'what does not compress is stored as it is, zeros not at all' {
	need qemu-img
	pattern_file in.raw 1M
	truncate -s 2M in.raw
	qimg convert -c -f raw -O qcow2 in.raw c.qcow2
	is_clean c.qcow2
	same raw in.raw qcow2 c.qcow2
	contains "$(qemu-img check c.qcow2)" '16/32 = 50.00% allocated'
	contains "$(qemu-img check c.qcow2)" ' 0.00% compressed'
}

@test 'the same input gives the same file' {
	mixed_file
	qimg convert -c -m 1 -f raw -O qcow2 in.raw a.qcow2
	qimg convert -c -m 8 -f raw -O qcow2 in.raw b.qcow2
	cmp a.qcow2 b.qcow2
}
