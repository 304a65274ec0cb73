#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# New images with an external data file.

load helpers

@test "an image with its data elsewhere" {
	need qemu-io
	qimg create -q -f qcow2 -o data_file=data image 10M
	equal "$(stat -c %s data)" 10485760
	equal "$(stat -c %s image)" 196616
	is_clean image
	qemu-io -c 'write -P 5 1M 1M' image >/dev/null
	is_clean image
	qimg convert -f qcow2 -O raw image out
	cmp out data
	qio -c 'write -P 6 3M 70000' image >/dev/null
	is_clean image
	qemu-io -r -f raw -c 'read -P 6 3M 70000' data >/dev/null
}

@test "raw data files: all is mapped, and both views agree" {
	need qemu-io
	for options in '' ,cluster_size=4k,refcount_bits=1 ,extended_l2=on ,preallocation=falloc ,preallocation=full; do
		rm -f image data
		qimg create -q -f qcow2 -o "data_file=data,data_file_raw=on$options" image 5000000
		is_clean image
		equal "$(stat -c %s data)" 5000192 "length with $options"
		equal "$(qimg info --output=json image | json - 'd["format-specific"]["data"]["data-file-raw"]')" true
		qio -c 'write -P 5 1M 1M' -c 'write -P 6 4999680 512' image >/dev/null
		is_clean image
		same raw data qcow2 image
	done
}

@test "the layout is that of the reference" {
	need qemu-img
	for options in '' ,data_file_raw=on ,preallocation=metadata; do
		rm -f image data
		qemu-img create -q -f qcow2 -o "data_file=data$options" image 10M
		mv image reference
		qimg create -q -f qcow2 -o "data_file=data$options" image 10M
		cmp image reference || fail "data_file=data$options"
	done
}

@test "relative names are taken relative to the image" {
	mkdir sub
	qimg create -q -f qcow2 -o data_file=data sub/image 1M 2>warning
	contains "$(cat warning)" "is 'sub/data'"
	[ -e sub/data ] && [ ! -e data ]
	equal "$(qimg info --output=json sub/image | json - 'd["format-specific"]["data"]["data-file"]')" data
	(cd sub && is_clean image)
	qimg convert -f qcow2 -O raw sub/image out
	qimg create -q -f qcow2 -o "data_file=$PWD/absolute" sub/image2 1M 2>warning
	equal "$(cat warning)" ''
	[ -e absolute ]
}

@test "what cannot be a data file" {
	truncate -s 1M base
	mkdir folder
	for name in image ./image folder/../image; do
		refused image qimg create -f qcow2 -o "data_file=$name" image 1M
		says 'is the image itself'
	done
	refused image qimg create -f qcow2 -o data_file=base -b base -F raw image
	says 'is the backing file'
	refused image qimg create -f qcow2 -o data_file= image 1M
	says data_file
	refused image qimg create -f qcow2 -o data_file=none/data image 1M
	says none
	refused image qimg create -f qcow2 -o data_file=folder image 1M
	says folder
	refused image qimg create -f qcow2 -o data_file=data,data_file_raw=on -b base -F raw image
	says 'exclude each other'
	refused image qimg create -f qcow2 -o 'data_file=nbd://host/x' image 1M
	no_litter . base folder
	equal "$(stat -c %s base)" 1048576
}

@test "an old data file is emptied, but not by what is refused" {
	pattern_file data 1M
	before=$(hash data)
	refused image qimg create -f qcow2 -o data_file=data,cluster_size=3000 image 1M
	equal "$(hash data)" "$before"
	qimg create -q -f qcow2 -o data_file=data image 2M
	equal "$(hash data)" "$(head -c 2M /dev/zero | sha256sum | cut -d' ' -f1)"
}

@test "keep_data_file takes it as it is" {
	pattern_file data 1M
	before=$(stat -c '%i %s %Y' data)-$(hash data)
	qimg create -q -f qcow2 -o data_file=data,data_file_raw=on,keep_data_file=on image 1M
	equal "$(stat -c '%i %s %Y' data)-$(hash data)" "$before"
	is_clean image
	same raw data qcow2 image
	refused image2 qimg create -f qcow2 -o data_file=none,keep_data_file=on image2 1M
	says 'does not exist'
	refused image2 qimg create -f qcow2 -o data_file=data,keep_data_file=on,preallocation=full image2 1M
	says 'exclude each other'
}

@test "a data file in use is not touched" {
	need qemu-io
	pattern_file data 1M
	before=$(hash data)
	mkfifo hold
	qemu-io -f raw data <hold >/dev/null 2>&1 &
	exec 7>hold
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		[ -n "$(find /proc/$!/fd -lname "$PWD/data" 2>/dev/null)" ] && break
		sleep 0.1
	done
	sleep 0.2
	refused image qimg create -f qcow2 -o data_file=data image 1M
	says lock
	exec 7>&-
	wait
	equal "$(hash data)" "$before"
}
