#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# convert between raw and qcow2: content, sizes, holes.

load helpers

# some data, a hole, data, a hole at the end; 10 MiB
holey_file() {
	pattern_file "$1" 1M
	truncate -s 4M "$1"
	pattern_file part 300000 7
	dd if=part of="$1" bs=64K seek=64 conv=notrunc status=none
	rm part
	truncate -s 10M "$1"
}

@test 'raw to raw keeps content and holes' {
	holey_file in.raw
	qimg convert -f raw -O raw in.raw out.raw
	cmp in.raw out.raw
	[ "$(allocated out.raw)" -le $((1048576 + 300000 + 16384)) ]
	no_litter . in.raw out.raw
}

@test 'raw to qcow2 and back' {
	holey_file in.raw
	qimg convert -f raw -O qcow2 in.raw out.qcow2
	is_clean out.qcow2
	same raw in.raw qcow2 out.qcow2
	# 1 MiB, 5 clusters of 64 KiB, metadata
	[ "$(stat -c %s out.qcow2)" -le $(((16 + 5 + 6) * 65536)) ]
	qimg convert -f qcow2 -O raw out.qcow2 back.raw
	cmp in.raw back.raw
	[ "$(allocated back.raw)" -le $((1048576 + 5 * 65536 + 16384)) ]
	no_litter . in.raw out.qcow2 back.raw
}

@test 'qcow2 to qcow2 with another cluster size' {
	holey_file in.raw
	qimg convert -f raw -O qcow2 -o cluster_size=4k in.raw a.qcow2
	qimg convert -O qcow2 -o cluster_size=2M,compat=0.10 a.qcow2 b.qcow2
	is_clean b.qcow2
	same raw in.raw qcow2 b.qcow2
	qimg convert -O qcow2 -o cluster_size=512 b.qcow2 c.qcow2
	is_clean c.qcow2
	same raw in.raw qcow2 c.qcow2
	qimg convert -O qcow2 -o extended_l2=on,cluster_size=128k c.qcow2 d.qcow2
	is_clean d.qcow2
	same raw in.raw qcow2 d.qcow2
}

@test 'raw sizes that are not a multiple of 512 are padded with zeros' {
	local n up
	for n in 1 5 511 513 1000001; do
		up=$(((n + 511) / 512 * 512))
		pattern_file in.raw $n
		qimg convert -f raw -O qcow2 in.raw a.qcow2
		qimg convert -f qcow2 -O raw a.qcow2 back.raw
		qimg convert -f raw -O raw in.raw copy.raw
		truncate -s $up in.raw
		cmp in.raw back.raw
		cmp in.raw copy.raw
		is_clean a.qcow2
	done
}

@test 'an empty file' {
	: >empty.raw
	qimg convert -f raw -O qcow2 empty.raw e.qcow2
	is_clean e.qcow2
	qimg convert -f raw -O raw empty.raw e.raw
	equal "$(stat -c %s e.raw)" 0
	qimg convert -f qcow2 -O raw e.qcow2 f.raw
	equal "$(stat -c %s f.raw)" 0
}

@test 'the source format is found by content' {
	holey_file in.raw
	qimg convert -f raw -O qcow2 in.raw a.qcow2
	qimg convert a.qcow2 back.raw
	cmp in.raw back.raw
}

@test 'zeros in the source become holes' {
	dd if=/dev/zero of=in.raw bs=1M count=8 status=none
	printf x | dd of=in.raw bs=1 seek=5000000 conv=notrunc status=none
	qimg convert -f raw -O raw in.raw out.raw
	cmp in.raw out.raw
	[ "$(allocated out.raw)" -le 8192 ]
	qimg convert -f raw -O qcow2 in.raw out.qcow2
	same raw in.raw qcow2 out.qcow2
	[ "$(stat -c %s out.qcow2)" -le $((6 * 65536)) ]
}

@test 'a whole empty disk of 16 TiB is copied at once' {
	need qemu-img
	need_no_sanitizer
	qemu-img create -q -f qcow2 big.qcow2 16T
	timeout 5 "$QIMG" convert -O qcow2 big.qcow2 copy.qcow2
	is_clean copy.qcow2
	equal "$(qemu-img info --output=json copy.qcow2 | json - 'd["virtual-size"]')" $((1 << 44))
	truncate -s 8P big.raw 2>/dev/null || truncate -s 8T big.raw
	timeout 5 "$QIMG" convert -f raw -O qcow2 -o cluster_size=2M big.raw copy.qcow2
	is_clean copy.qcow2
}

@test 'random layouts read the same, by the reference' {
	need qemu-img qemu-io python3
	local seed
	for seed in 1 2 3 4 5 6; do
		python3 - "$seed" >script <<-'PY'
			import random, sys
			r = random.Random(int(sys.argv[1]))
			for i in range(60):
			    off = r.randrange(0, 8 << 20) & ~511
			    n = min(r.choice([512, 4096, 5120, 65536, 200704, 1 << 20]), (8 << 20) - off)
			    what = r.choice(["write -P %d" % r.randrange(1, 256), "write -P %d" % r.randrange(1, 256),
			                     "write -z", "write -z -u", "write -P 0", "discard"])
			    print("%s %d %d" % (what, off, n))
		PY
		rm -f in.qcow2
		qemu-img create -q -f qcow2 -o cluster_size=$((512 << (seed % 5 * 2))) in.qcow2 8M
		qemu-io -d unmap -f qcow2 in.qcow2 <script >/dev/null
		qimg convert -O qcow2 -o cluster_size=$((65536 >> (seed % 4 * 2))) in.qcow2 out.qcow2
		is_clean out.qcow2
		same qcow2 in.qcow2 qcow2 out.qcow2
		qimg convert -O raw out.qcow2 out.raw
		same qcow2 in.qcow2 raw out.raw
		qimg convert -c -f raw -O qcow2 out.raw packed.qcow2
		is_clean packed.qcow2
		same qcow2 in.qcow2 qcow2 packed.qcow2
	done
}
