#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# Open options of qcow2: what is accepted works, what is not is named.

load helpers

# no OPTIONS TEXT...
no() {
	local options=$1 text
	shift
	kept image qio -o "$options" -c 'read 0 1' image || return
	for text; do
		says "$text" || return
	done
}

# yes OPTIONS: and data go in and out
yes() {
	qio -f qcow2 -o "$1" -c 'write -P 9 100k 3M' -c 'read -P 9 100k 3M' -c 'write -P 8 7M 1' \
		-c 'read -P 8 7M 1' image >/dev/null || fail "$1" || return
	is_clean image || fail "$1"
}

@test "cache sizes" {
	qimg create -q -f qcow2 -o cluster_size=4k image 8M
	for options in l2-cache-size=0 l2-cache-size=1 l2-cache-size=1M l2-cache-entry-size=512 \
		l2-cache-entry-size=4k,l2-cache-size=8k refcount-cache-size=0 refcount-cache-size=1M \
		cache-size=0 cache-size=1M cache-size=64k,l2-cache-size=32k \
		cache-size=64k,refcount-cache-size=32k cache-clean-interval=0 cache-clean-interval=600; do
		yes $options
	done
	no cache-size=1M,l2-cache-size=512k,refcount-cache-size=512k 'exclude each other'
	no cache-size=1M,l2-cache-size=2M l2-cache-size 2097152 1048576
	no cache-size=1M,refcount-cache-size=2M refcount-cache-size
	no l2-cache-entry-size=8k l2-cache-entry-size 8192 4096
	no l2-cache-entry-size=1000 l2-cache-entry-size
	no l2-cache-entry-size=256 l2-cache-entry-size
	no l2-cache-size=lots l2-cache-size
	no cache-clean-interval=4294967296 cache-clean-interval
	no cache-rule=2014 cache-rule 2014
	for options in cache-rule=2015 cache-rule=2015,cache-size=100k cache-rule=current,l2-cache-size=1M \
		metadata-cache=on metadata-writeback=single metadata-writeback=shared metadata-depth=1 metadata-depth=32; do
		yes $options
	done
	no metadata-depth=0 metadata-depth
	no metadata-writeback=each metadata-writeback
	no metadata-cache=off,l2-cache-size=1M "'metadata-cache' (off)" "'l2-cache-size' (1M)"
	no metadata-cache=off,l2-cache-file=x "'metadata-cache' (off)" "'l2-cache-file' (x)"
	no l2-cache-file-size=1M l2-cache-file-size 1M "'l2-cache-file'"
	no l2-cache-file-direct=off l2-cache-file-direct "'l2-cache-file'"
	no l2-cache-file= 'l2-cache-file' empty
}

@test "the others" {
	qimg create -q -f qcow2 image 8M
	for options in lazy-refcounts=on lazy-refcounts=off pass-discard-request=on pass-discard-snapshot=off \
		pass-discard-other=on overlap-check=none overlap-check=all overlap-check.template=cached \
		overlap-check=all,overlap-check.template=all overlap-check.main-header=off \
		overlap-check=constant overlap-check=cached overlap-check.template=none \
		overlap-check.template=constant,overlap-check.active-l1=on,overlap-check.active-l2=off \
		overlap-check.refcount-table=on,overlap-check.refcount-block=off,overlap-check.snapshot-table=on \
		overlap-check.inactive-l1=on,overlap-check.inactive-l2=off,overlap-check.bitmap-directory=on; do
		yes $options
	done
	no lazy-refcounts=2 lazy-refcounts
	no overlap-check=some overlap-check
	no overlap-check=all,overlap-check.template=none contradict
	no overlap-check.other=on overlap-check.other
	no overlap-check.main-header=perhaps overlap-check.main-header
	no nonsense=1 nonsense qcow2
	no data-file.filename=x data-file.filename
	qimg create -q -f qcow2 -o compat=0.10 old 8M
	kept old qio -o lazy-refcounts=on -c 'read 0 1' old
	says 'version 3'
	kept old qio -o discard-no-unref=on -c 'read 0 1' old
	says 'version 3'
	qio -o lazy-refcounts=off,discard-no-unref=off -c 'read 0 1' old >/dev/null
}

@test "data-file.filename" {
	qimg create -q -f qcow2 -o data_file=data image 8M
	qio -c 'write -P 5 0 1M' image >/dev/null
	mv data other
	fails qio -r -c 'read -P 5 0 1M' image
	says data
	qimg info image >/dev/null
	qio -r -o data-file.filename=other -c 'read -P 5 0 1M' image >/dev/null
	qio -r -o data-file.filename=other,data-file.driver=file -c 'read -P 5 0 1M' image >/dev/null
	fails qio -r -o data-file.filename=other,data-file.driver=nbd -c 'read 0 1' image
	says data-file.driver
	for options in driver=file,data-file.filename=other driver=raw,data-file.file.filename=other \
		driver=raw,data-file.file.driver=file,data-file.file.filename=other file.filename=other \
		filename=other,data-file.locking=off,data-file.cache.direct=on filename=other,data-file.file.locking=off \
		filename=other,data-file.discard=ignore,data-file.node-name=n,data-file.read-only=on; do
		qio -r -o data-file.$options -c 'read -P 5 0 1M' image >/dev/null || fail "$options"
	done
	qio -r --image-opts -c 'read -P 5 0 1M' 'driver=qcow2,file.filename=image,data-file.driver=file,data-file.filename=other'
	qio -r -c 'read -P 5 0 1M' 'json:{"driver": "qcow2", "file.filename": "image", "data-file":
		{"driver": "raw", "file": {"driver": "file", "filename": "other"}}}'
	fails qio -r -o data-file.filename=other,data-file.nosuch=1 -c 'read 0 1' image
	says nosuch
	fails qio -r -o data-file.filename=other,data-file.offset=512 -c 'read 0 1' image
	says offset
	fails qio -r -o data-file.filename=other,data-file.file.filename=data -c 'read 0 1' image
	says 'other'
	says "(data)"
	fails qio -o data-file.filename=other,data-file.read-only=on -c 'read 0 1' image
	says read-only
	# They are looked at also where the data file is not opened.
	fails qimg info --image-opts driver=qcow2,file.filename=image,data-file.nosuch=1
	says nosuch
	fails qio -r -o data-file.filename=image -c 'read 0 1' image
	says 'is the image itself'
	fails qio -r -o data-file.filename=nowhere -c 'read 0 1' image
	says nowhere
}

@test "an image that does not name its data file" {
	need python3 qemu-img
	qimg create -q -f qcow2 -o data_file=data image 8M
	qio -c 'write -P 5 0 1M' image >/dev/null
	# The extension comes first: an unknown one in its place.
	equal "$(peek image 112 8)" 4441544100000004
	poke image 112 12345678
	qimg info image >/dev/null
	fails qio -r -c 'read -P 5 0 1M' image
	says data-file.filename
	qio -r -o data-file.filename=data -c 'read -P 5 0 1M' image >/dev/null
}
