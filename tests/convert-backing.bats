#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# convert reads through backing chains, and -B puts the target on one.

load helpers

setup() {
	helpers_setup
	need qemu-img qemu-io
}

new() { # NAME SIZE [BACKING]
	qemu-img create -q -f qcow2 ${3:+-b "$3" -F qcow2} "$1" "$2"
}

fill() { # IMAGE COMMAND...
	local image=$1 args=()
	shift
	for c; do args+=(-c "$c"); done
	qemu-io -f qcow2 "${args[@]}" "$image" >/dev/null
}

flat() { # IMAGE: qimg and the reference read the same from it
	qimg convert -O raw "$1" "$1.ours"
	qemu-img convert -O raw "$1" "$1.theirs"
	cmp "$1.ours" "$1.theirs"
}

@test 'a chain with a shorter and a longer backing file' {
	new short.qcow2 1M
	fill short.qcow2 'write -P 1 0 1M'
	new mid.qcow2 3M short.qcow2
	fill mid.qcow2 'write -P 2 512k 64k' 'write -P 3 2M 1M'
	new top.qcow2 2M mid.qcow2
	fill top.qcow2 'write -P 4 100k 8k' 'write -z 1M 128k'
	flat top.qcow2
	new wide.qcow2 5000192 mid.qcow2
	fill wide.qcow2 'write -P 5 4800k 8k'
	flat wide.qcow2
	qimg convert -O qcow2 wide.qcow2 out.qcow2
	is_clean out.qcow2
	same qcow2 wide.qcow2 qcow2 out.qcow2
}

@test 'a chain in other folders, seen from any folder' {
	mkdir d other
	new d/base.qcow2 1M
	fill d/base.qcow2 'write -P 0x31 0 1M'
	(cd d && new top.qcow2 1M base.qcow2)
	here=$PWD
	for dir in . d other; do
		(cd "$dir" && qimg convert -O raw "$here/d/top.qcow2" "$here/out.raw")
		equal "$(tr -d 1 <out.raw | wc -c)" 0
		rm out.raw
	done
}

@test 'a chain of 300 images' {
	new i0.qcow2 1M
	fill i0.qcow2 'write -P 1 0 1M'
	local i
	for i in $(seq 300); do
		qemu-img create -q -u -f qcow2 -b i$((i - 1)).qcow2 -F qcow2 "i$i.qcow2" 1M
	done
	(
		ulimit -Sn 256
		qimg convert -O raw i300.qcow2 out.raw
	)
	equal "$(tr -d '\001' <out.raw | wc -c)" 0
}

@test 'a missing backing file is refused' {
	new base.qcow2 1M
	new top.qcow2 1M base.qcow2
	rm base.qcow2
	refused out.raw qimg convert -O raw top.qcow2 out.raw
	says base.qcow2
}

@test '-B leaves out what the source has from its backing file' {
	new base.qcow2 4M
	fill base.qcow2 'write -P 1 0 2M'
	new top.qcow2 4M base.qcow2
	fill top.qcow2 'write -P 2 1M 64k' 'write -P 3 3M 64k' 'write -z 256k 64k'
	qimg convert -B base.qcow2 -F qcow2 -O qcow2 top.qcow2 out.qcow2
	is_clean out.qcow2
	same qcow2 top.qcow2 qcow2 out.qcow2
	contains "$(qemu-img check out.qcow2)" '2/64 = '
	equal "$(qemu-img info --output=json out.qcow2 | json - 'd["backing-filename"]')" base.qcow2
	# another cluster size: parts of larger clusters are filled from below
	qimg convert -B base.qcow2 -F qcow2 -O qcow2 -o cluster_size=256k top.qcow2 out.qcow2
	is_clean out.qcow2
	same qcow2 top.qcow2 qcow2 out.qcow2
	qimg convert -c -B base.qcow2 -F qcow2 -O qcow2 top.qcow2 out.qcow2
	is_clean out.qcow2
	same qcow2 top.qcow2 qcow2 out.qcow2
	qimg convert -S 0 -B base.qcow2 -F qcow2 -O qcow2 top.qcow2 out.qcow2
	is_clean out.qcow2
	same qcow2 top.qcow2 qcow2 out.qcow2
}

@test '-B with a file deep in the chain takes what is above it' {
	new base.qcow2 4M
	fill base.qcow2 'write -P 1 0 2M'
	new mid.qcow2 4M base.qcow2
	fill mid.qcow2 'write -P 2 1M 128k' 'write -z 0 64k'
	new top.qcow2 4M mid.qcow2
	fill top.qcow2 'write -P 3 3M 64k'
	qimg convert -B base.qcow2 -F qcow2 -O qcow2 top.qcow2 out.qcow2
	is_clean out.qcow2
	same qcow2 top.qcow2 qcow2 out.qcow2
	contains "$(qemu-img check out.qcow2)" '3/64 = '
	qimg convert -B mid.qcow2 -F qcow2 -O qcow2 top.qcow2 out.qcow2
	same qcow2 top.qcow2 qcow2 out.qcow2
	contains "$(qemu-img check out.qcow2)" '1/64 = '
}

@test '-B with a source that has no backing file writes everything' {
	new base.qcow2 4M
	fill base.qcow2 'write -P 1 0 4M'
	new s.qcow2 4M
	fill s.qcow2 'write -P 2 1M 64k'
	qimg convert -B base.qcow2 -F qcow2 -O qcow2 s.qcow2 out.qcow2
	is_clean out.qcow2
	same qcow2 s.qcow2 qcow2 out.qcow2
}

@test '-B with a backing file that is longer or shorter than the source' {
	new base.qcow2 4M
	fill base.qcow2 'write -P 1 0 4M'
	new top.qcow2 2M base.qcow2
	fill top.qcow2 'write -P 2 1M 64k'
	qimg convert -B base.qcow2 -F qcow2 -O qcow2 top.qcow2 out.qcow2
	same qcow2 top.qcow2 qcow2 out.qcow2
	# grown: what lies beyond the source is zero, not the longer backing file
	qimg convert -B base.qcow2 -F qcow2 -O qcow2 -o size=3M top.qcow2 out.qcow2
	is_clean out.qcow2
	qemu-io -r -c 'read -P 0 2M 1M' out.qcow2
	new short.qcow2 1M
	fill short.qcow2 'write -P 1 0 1M'
	new top.qcow2 2M short.qcow2
	fill top.qcow2 'write -P 2 512k 64k'
	qimg convert -B short.qcow2 -F qcow2 -O qcow2 top.qcow2 out.qcow2
	is_clean out.qcow2
	same qcow2 top.qcow2 qcow2 out.qcow2
	# a chain whose middle is shorter than its base
	new mid.qcow2 1M base.qcow2
	new top.qcow2 4M mid.qcow2
	fill top.qcow2 'write -P 2 512k 64k'
	qimg convert -B base.qcow2 -F qcow2 -O qcow2 top.qcow2 out.qcow2
	is_clean out.qcow2
	same qcow2 top.qcow2 qcow2 out.qcow2
}

@test '-B is refused without a format, with several sources, with a missing file' {
	new base.qcow2 1M
	new a.qcow2 1M
	refused out.qcow2 qimg convert -B base.qcow2 -O qcow2 a.qcow2 out.qcow2
	says qcow2
	refused out.qcow2 qimg convert -B base.qcow2 -F qcow2 -O qcow2 a.qcow2 a.qcow2 out.qcow2
	refused out.qcow2 qimg convert -B none.qcow2 -F qcow2 -O qcow2 a.qcow2 out.qcow2
	refused out.raw qimg convert -B base.qcow2 -F qcow2 -O raw a.qcow2 out.raw
	kept base.qcow2 qimg convert -B base.qcow2 -F qcow2 -O qcow2 a.qcow2 base.qcow2
	new top.qcow2 1M base.qcow2
	kept base.qcow2 qimg convert -B top.qcow2 -F qcow2 -O qcow2 a.qcow2 base.qcow2
}

@test 'a stored json: reference is not followed' {
	pattern_file secret.raw 1M
	qemu-img create -q -u -f qcow2 -F raw \
		-b 'json:{"driver":"raw","file":{"driver":"file","filename":"secret.raw"}}' js.qcow2 1M
	refused out.raw qimg convert -O raw js.qcow2 out.raw
	# nor does convert make an image that it could not read
	refused out.qcow2 qimg convert -f raw -O qcow2 -F raw \
		-B 'json:{"driver":"raw","file":{"driver":"file","filename":"secret.raw"}}' secret.raw out.qcow2
}
