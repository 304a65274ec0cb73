#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# convert --like-source.

load helpers

# layout FILE: what --like-source keeps
layout() {
	qimg info --output=json "$1" >info.json
	json info.json '(d["cluster-size"], [d["format-specific"]["data"].get(k) for k in ("compat",
		"refcount-bits", "lazy-refcounts", "extended-l2", "compression-type")])'
}

@test 'the target is laid out as the source' {
	local opts
	for opts in cluster_size=4k compat=0.10,cluster_size=512 refcount_bits=1 \
		extended_l2=on,cluster_size=128k compression_type=zstd,lazy_refcounts=on; do
		qimg create -q -f qcow2 -o "$opts" a.qcow2 3M
		qimg convert --like-source -O qcow2 a.qcow2 b.qcow2
		equal "$(layout b.qcow2)" "$(layout a.qcow2)" "$opts"
		is_clean b.qcow2
	done
}

@test '-o comes first' {
	qimg create -q -f qcow2 -o cluster_size=4k,compression_type=zstd a.qcow2 3M
	qimg convert --like-source -O qcow2 -o cluster_size=16k a.qcow2 b.qcow2
	contains "$(layout b.qcow2)" 16384
	contains "$(layout b.qcow2)" zstd
	qimg convert --like-source -O qcow2 -o compat=0.10 a.qcow2 c.qcow2
	contains "$(layout c.qcow2)" "'0.10'"
}

@test 'what -o says is not contradicted by what the source has' {
	qimg create -q -f qcow2 -o extended_l2=on a.qcow2 3M
	qimg convert --like-source -O qcow2 -o cluster_size=4k a.qcow2 b.qcow2
	contains "$(layout b.qcow2)" 4096
	qimg create -q -f qcow2 -o compat=0.10 a.qcow2 3M
	qimg convert --like-source -O qcow2 -o compression_type=zstd a.qcow2 b.qcow2
	contains "$(layout b.qcow2)" zstd
}

@test 'other formats and existing targets are refused' {
	truncate -s 1M in.raw
	qimg create -q -f qcow2 a.qcow2 1M
	refused out.qcow2 qimg convert --like-source -f raw -O qcow2 in.raw out.qcow2
	says raw
	refused out.raw qimg convert --like-source -O raw a.qcow2 out.raw
	qimg create -q -f qcow2 t.qcow2 1M
	kept t.qcow2 qimg convert -n --like-source -O qcow2 a.qcow2 t.qcow2
}
