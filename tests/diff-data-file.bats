#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# External data files, raw and not, and preallocated images of the reference:
# qio reads and writes them as it does.

load helpers
load diff

# both_write OPTIONS CLUSTER [DATA]: the same commands on two new images. With
# DATA each has a data file of its own.
both_write() {
	local size seed name
	need qemu-img qemu-io
	size=$(image_size "$2")
	for seed in 1 2 3; do
		rm -f ./*.qcow2 ./*.raw
		commands write $seed "$size" "$2" 50 >list
		commands read $seed "$size" "$2" 20 >reads
		for name in a b; do
			qemu-img create -q -f qcow2 -o "cluster_size=$2,$1${3:+,data_file=$name.raw}" $name.qcow2 "$size"
		done
		qio_run a.qcow2 list
		qemu_run b.qcow2 list
		is_clean a.qcow2
		same qcow2 a.qcow2 qcow2 b.qcow2
		reads_same a.qcow2
		reads_same b.qcow2
		same_dumps b.qcow2 reads
	done
}

@test "data file" { both_write compat=1.1 65536 data; }
@test "data file, 512" { both_write compat=1.1 512 data; }
@test "data file, extended L2" { both_write extended_l2=on 65536 data; }

@test "raw data file: is the image" {
	both_write data_file_raw=on 65536 data
	qemu-img convert -f qcow2 -O raw a.qcow2 want.raw
	# The reference, too, rounds the data file up to a whole cluster.
	cmp -n "$(stat -c %s want.raw)" a.raw want.raw
}

@test "preallocation=metadata" {
	both_write preallocation=metadata 4096
	both_write preallocation=metadata,extended_l2=on 65536
}
@test "preallocation=falloc" { both_write preallocation=falloc 65536; }
@test "preallocation=full" { both_write preallocation=full 65536; }
@test "lazy refcounts" { both_write lazy_refcounts=on 4096; }
