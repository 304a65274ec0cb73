#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# convert -n writes into an image that is there.

load helpers

# 4 MiB: data, nothing, zeros, data
source_image() {
	need qemu-img qemu-io
	qemu-img create -q -f qcow2 s.qcow2 4M
	qemu-io -c 'write -P 0x41 0 1M' -c 'write -z 2M 64k' -c 'write -P 0x42 3M 512k' s.qcow2 >/dev/null
	qemu-img convert -O raw s.qcow2 s.raw
}

filled() { # FILE BYTES: of 0xff
	head -c "$2" /dev/zero | tr '\0' '\377' >"$1"
}

@test 'a larger raw target: zeros are written, the rest stays' {
	source_image
	filled t.raw 8M
	qimg convert -n -O raw s.qcow2 t.raw
	cmp -n 4194304 s.raw t.raw
	equal "$(stat -c %s t.raw)" $((8 << 20))
	equal "$(tail -c 4M t.raw | tr -d '\377' | wc -c)" 0
}

@test 'a smaller target is refused with both sizes and untouched' {
	source_image
	filled t.raw 1M
	kept t.raw qimg convert -n -O raw s.qcow2 t.raw
	says 4194304
	says 1048576
	qemu-img create -q -f qcow2 t.qcow2 1M
	kept t.qcow2 qimg convert -n -O qcow2 s.qcow2 t.qcow2
	says 4194304
}

@test 'a missing target is refused' {
	source_image
	refused none.raw qimg convert -n -O raw s.qcow2 none.raw
	no_litter . s.qcow2 s.raw
}

@test '--target-is-zero leaves out zeros' {
	source_image
	filled t.raw 4M
	qimg convert -n --target-is-zero -O raw s.qcow2 t.raw
	qemu-io -r -f raw -c 'read -P 0x41 0 1M' -c 'read -P 0xff 1M 2M' -c 'read -P 0x42 3M 512k' \
		-c 'read -P 0xff 3584k 512k' t.raw
}

@test 'a used qcow2 target' {
	source_image
	qemu-img create -q -f qcow2 t.qcow2 5M
	qemu-io -c 'write -P 0x99 0 5M' t.qcow2 >/dev/null
	qimg convert -n -O qcow2 s.qcow2 t.qcow2
	is_clean t.qcow2
	qemu-io -r -c 'read -P 0x41 0 1M' -c 'read -P 0 1M 2M' -c 'read -P 0x42 3M 512k' \
		-c 'read -P 0 3584k 512k' -c 'read -P 0x99 4M 1M' t.qcow2
}

@test 'space of a used target that becomes zeros is given back' {
	truncate -s 8M zeros.raw
	qimg create -q -f qcow2 t.qcow2 8M
	qio -c 'write -P 1 0 8M' t.qcow2 >/dev/null
	qimg convert -n -f raw -O qcow2 zeros.raw t.qcow2
	[ "$(allocated t.qcow2)" -lt 1048576 ] || fail "$(allocated t.qcow2) allocated"
	same raw zeros.raw qcow2 t.qcow2
	is_clean t.qcow2
}

@test 'a target with a snapshot keeps the snapshot' {
	source_image
	qemu-img create -q -f qcow2 t.qcow2 4M
	qemu-io -c 'write -P 0x99 0 4M' t.qcow2 >/dev/null
	qemu-img snapshot -c keep t.qcow2
	qimg convert -n -O qcow2 s.qcow2 t.qcow2
	is_clean t.qcow2
	same qcow2 s.qcow2 qcow2 t.qcow2
	qemu-img convert -l keep -O raw t.qcow2 keep.raw
	equal "$(tr -d '\231' <keep.raw | wc -c)" 0
}

@test 'a target with a backing file hides what shines through' {
	source_image
	filled base.raw 5M
	qemu-img create -q -f qcow2 -b base.raw -F raw t.qcow2 5M
	qimg convert -n -O qcow2 s.qcow2 t.qcow2
	is_clean t.qcow2
	qemu-img convert -O raw t.qcow2 t.raw
	cmp -n 4194304 s.raw t.raw
	equal "$(tail -c 1M t.raw | tr -d '\377' | wc -c)" 0
	equal "$(hash base.raw)" "$(filled again.raw 5M && hash again.raw)"
}

@test '-c into a used target' {
	source_image
	qemu-img create -q -f qcow2 t.qcow2 4M
	qemu-io -c 'write -P 0x99 0 4M' t.qcow2 >/dev/null
	qimg convert -n -c -O qcow2 s.qcow2 t.qcow2
	is_clean t.qcow2
	same qcow2 s.qcow2 qcow2 t.qcow2
}

@test '-c onto an image with a data file is refused with the reason' {
	source_image
	qemu-img create -q -f qcow2 -o data_file=d.raw t.qcow2 4M
	kept t.qcow2 qimg convert -n -c -O qcow2 s.qcow2 t.qcow2
	says 'data file'
	qimg convert -n -O qcow2 s.qcow2 t.qcow2
	is_clean t.qcow2
	same qcow2 s.qcow2 qcow2 t.qcow2
}

@test 'sizes that end inside a cluster' {
	need qemu-img qemu-io
	pattern_file s.raw 1000448
	qemu-img create -q -f qcow2 t.qcow2 2M
	qemu-io -c 'write -P 0x99 0 2M' t.qcow2 >/dev/null
	for flag in -q -c; do
		qimg convert -n $flag -f raw -O qcow2 s.raw t.qcow2
		is_clean t.qcow2
		qemu-img convert -O raw t.qcow2 t.raw
		cmp -n 1000448 s.raw t.raw
		equal "$(tail -c $((2097152 - 1000448)) t.raw | tr -d '\231' | wc -c)" 0
	done
	truncate -s 900000 s.raw
	truncate -s 1000448 s.raw
	qimg convert -n -f raw -O qcow2 s.raw t.qcow2
	qemu-img convert -O raw t.qcow2 t.raw
	cmp -n 1000448 s.raw t.raw
	equal "$(tail -c $((2097152 - 1000448)) t.raw | tr -d '\231' | wc -c)" 0
}

@test 'an empty target of 16 TiB is not zeroed piece by piece' {
	need qemu-img
	need_no_sanitizer
	qemu-img create -q -f qcow2 s.qcow2 16T
	qemu-img create -q -f qcow2 t.qcow2 16T
	timeout 5 "$QIMG" convert -n -O qcow2 s.qcow2 t.qcow2
	is_clean t.qcow2
	[ "$(stat -c %s t.qcow2)" -le 1000000 ]
}

@test '-n -B leaves out what both have from the backing file' {
	need qemu-img qemu-io
	qemu-img create -q -f qcow2 base.qcow2 4M
	qemu-io -c 'write -P 0x11 0 2M' base.qcow2 >/dev/null
	qemu-img create -q -f qcow2 -b base.qcow2 -F qcow2 s.qcow2
	qemu-io -c 'write -P 0x22 1M 64k' s.qcow2 >/dev/null
	qemu-img create -q -f qcow2 -b base.qcow2 -F qcow2 t.qcow2
	qimg convert -n -B base.qcow2 -F qcow2 -O qcow2 s.qcow2 t.qcow2
	is_clean t.qcow2
	same qcow2 s.qcow2 qcow2 t.qcow2
	contains "$(qemu-img check t.qcow2)" '1/64 = '
	# and a target that stands on something else is no such target
	qemu-img create -q -f qcow2 other.qcow2 4M
	qemu-img create -q -f qcow2 -b other.qcow2 -F qcow2 u.qcow2
	kept u.qcow2 qimg convert -n -B base.qcow2 -F qcow2 -O qcow2 s.qcow2 u.qcow2
	says 'base.qcow2'
}

@test '--image-opts and --target-image-opts' {
	source_image
	qemu-img create -q -f qcow2 t.qcow2 4M
	qimg convert -n --image-opts --target-image-opts driver=qcow2,file.filename=s.qcow2 \
		driver=qcow2,file.filename=t.qcow2,lazy-refcounts=on
	is_clean t.qcow2
	same qcow2 s.qcow2 qcow2 t.qcow2
	kept t.qcow2 qimg convert -n --target-image-opts t.qcow2 driver=qcow2,file.filename=t.qcow2
	kept t.qcow2 qimg convert -n -O qcow2 --target-image-opts s.qcow2 driver=qcow2,file.filename=t.qcow2
	kept t.qcow2 qimg convert --target-image-opts s.qcow2 driver=qcow2,file.filename=t.qcow2
	kept t.qcow2 qimg convert -n --target-image-opts s.qcow2 driver=qcow2
	says file.filename
	kept t.qcow2 qimg convert -n --target-image-opts s.qcow2 driver=qcow2,file.filename=t.qcow2,nonsense=1
	says nonsense
	# the name of the driver may be left out
	qimg convert -n --target-image-opts s.qcow2 file.filename=t.qcow2
	is_clean t.qcow2
	same qcow2 s.qcow2 qcow2 t.qcow2
}
