#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# Lazy refcounts: more of them than the cache holds while the image is marked dirty.

load helpers

@test "refcounts leave a cache that is too small for them, and are right at the end" {
	local aio
	for aio in '' ,file.aio=threads; do
		rm -f image
		qimg create -q -f qcow2 -o cluster_size=512,lazy_refcounts=on image 16M
		timeout 120 "$QIO" --image-opts \
			"driver=qcow2,file.filename=image$aio,l2-cache-size=2k,refcount-cache-size=2k" \
			-c 'write -q -P 1 0 3M' -c 'write -q -P 2 4M 3M' -c 'discard -q 1M 1M' \
			-c 'write -q -P 3 8M 3M' -c flush -c 'write -q -P 4 13M 1M'
		is_clean image
		qio -f qcow2 -r -c 'read -q -P 1 0 1M' -c 'read -q -P 0 1M 1M' -c 'read -q -P 2 4M 3M' \
			-c 'read -q -P 3 8M 3M' -c 'read -q -P 4 13M 1M' image
	done
}
