#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# Values of qcow2 create options that are refused: status 1, a message that
# names option and value, no new file, and an old one left as it was.

load helpers

# no OPTIONS SIZE TEXT...: refused with all these texts
no() {
	local options=$1 size=$2 text
	shift 2
	refused new qimg create -f qcow2 -o "$options" new "$size" || return
	for text; do
		says "$text" || return
	done
	[ -e old ] || qimg create -q -f qcow2 old 1M || return
	kept old qimg create -f qcow2 -o "$options" old "$size" || return
	no_litter . old
}

@test "cluster sizes" {
	for value in 0 1 256 3000 65537 4M 1G; do
		no cluster_size=$value 1M 'power of two between 512 and 2048k'
	done
	no cluster_size=64kb 1M cluster_size
	no cluster_size=-1 1M cluster_size
}

@test "refcount widths" {
	for value in 0 3 5 24 63 128; do
		no refcount_bits=$value 1M refcount_bits
	done
	no refcount_bits=sixteen 1M refcount_bits sixteen
	no refcount_bits=8,compat=0.10 1M refcount_bits 'compat=1.1'
}

@test "versions" {
	no compat=2 1M compat
	no compat=1.0 1M compat
	no compat=v4 1M compat v4
	no compat=0.10,lazy_refcounts=on 1M lazy_refcounts
	no compat=0.10,extended_l2=on 1M extended_l2
	no compat=v2,compression_type=zstd 1M compression_type
	no compat=v2,data_file=d 1M data_file
	qimg create -q -f qcow2 -o compat=0.10,refcount_bits=16,lazy_refcounts=off,compression_type=zlib fine 1M
}

@test "other values" {
	no lazy_refcounts=maybe 1M lazy_refcounts maybe
	no extended_l2=1 1M extended_l2
	no extended_l2=on,cluster_size=8k 1M 'at least 16384' 8192
	no compression_type=lzo 1M compression_type lzo
	no data_file_raw=on 1M data_file_raw data_file
	no keep_data_file=on 1M keep_data_file data_file
	no nonsense=1 1M nonsense
	no extent_size_hint=8G 1M extent_size_hint
	no nocow=perhaps 1M nocow
}

@test "encryption is refused by name" {
	no encrypt.format=luks,encrypt.key-secret=s 1M encrypt.format 'not supported'
	no encrypt.cipher-alg=aes-256 1M encrypt.cipher-alg 'not supported'
	no encryption=on 1M encryption 'not supported'
	qimg create -q -f qcow2 -o encryption=off fine 1M
}

@test "sizes" {
	no cluster_size=512 137438953473 'too large' 'larger cluster size'
	no cluster_size=64k 3P 'too large' 'larger cluster size'
	no cluster_size=64k,extended_l2=on 2P 'too large'
	no cluster_size=2M 3E 'too large'
	qimg create -q -f qcow2 -o cluster_size=2M fine 2048P
}

@test "backing names have to fit in the first cluster" {
	long=$(printf 'x%.0s' {1..400})
	refused new qimg create -u -b "$long" -F raw -f qcow2 -o cluster_size=512 new 1M
	says 'cluster_size'
	qimg create -q -u -b "${long:0:300}" -F raw -f qcow2 -o cluster_size=512 fine 1M
	equal "$(qimg info --output=json fine | json - 'd["backing-filename"]')" "${long:0:300}"
	long=$(printf 'x%.0s' {1..1024})
	refused new qimg create -u -b "$long" -F raw -f qcow2 new 1M
	says 'longer than 1023'
	qimg create -q -u -b "${long:0:1023}" -F raw -f qcow2 fine2 1M
	equal "$(qimg info --output=json fine2 | json - 'd["backing-filename"]')" "${long:0:1023}"
}
