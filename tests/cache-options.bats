#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# The options of the metadata caches have the effect that they have in the
# reference: seen in what each of them reads of the L2 tables, and when.

load helpers

# A disk whose clusters are all mapped, so that each read looks into a table.
mapped() { # SIZE [OPTIONS]
	need qemu-img
	qemu-img create -q -f qcow2 -o "preallocation=metadata${2:+,$2}" image "$1"
}

# loads PROGRAM OPTIONS OFFSET...: the sizes of the reads of metadata while the
# clusters at OFFSET... are read, a byte each, one after the other (of data a
# byte is read, of tables 512 or more). What leaves the cache is not kept.
loads() {
	local program=$1 options=$2 offset words=()
	shift 2
	for offset; do words+=(-c "read $offset 1"); done
	case $program in
	qio) strace -f -o log -e trace=pread64,preadv "$QIO" -r --image-opts "${words[@]}" \
		"driver=qcow2,l2-cache-compact=off,file.filename=image$options" >out 2>&1 ;;
	qemu) strace -f -o log -e trace=pread64,preadv qemu-io -r --image-opts "${words[@]}" \
		"driver=qcow2,file.filename=image$options" >out 2>&1 ;;
	esac || fail "$program $options: $(cat out)" || return
	# Opening reads the header (up to a cluster at 0) and L1 (at l1_offset), both before.
	awk -v at="$((16#$(peek image 40 8)))" '
		{ n = split($0, part, /[ ,()]+/) }
		/pread/ && / = [0-9]+$/ {
			offset = part[n - 2]; size = part[n]
			if (offset >= at + 65536 && size >= 512)
				print size
		}' log
}

# holds PROGRAM OPTIONS STEP COUNT: are COUNT entries, STEP bytes of disk
# each, still in memory after all of them have been read?
holds() {
	local program=$1 options=$2 step=$3 count=$4 once twice i offsets=()
	for ((i = 0; i < count; i++)); do offsets+=($((i * step))); done
	once=$(loads "$program" "$options" "${offsets[@]}" | wc -l) || return
	twice=$(loads "$program" "$options" "${offsets[@]}" "${offsets[@]}" | wc -l) || return
	[ "$once" -ge "$count" ] || fail "$program reads $once entries for $count" || return
	[ "$once" -eq "$twice" ]
}

# alike OPTIONS SIZE_OF_ENTRY COUNT: both programs load entries of that size and
# keep just COUNT of them (0: it is not looked how many)
alike() {
	local program step=$(($2 * 8192))
	for program in qio qemu; do
		equal "$(loads $program "${1:+,$1}" 0 1G | sort -u | tr '\n' ' ')" "$2 " "$program $1" || return
		[ "$3" -gt 0 ] || continue
		holds $program "${1:+,$1}" $step "$3" || fail "$program $1: less than $3 entries" || return
		if holds $program "${1:+,$1}" $step $(($3 + 1)); then
			fail "$program $1: more than $3 entries" || return
		fi
	done
}

needs() {
	need strace qemu-io
	need_plain
}

@test "sizes of entries and numbers of them are those of the reference" {
	needs
	mapped 4G	# 8 tables
	alike '' 65536 0
	alike l2-cache-size=512k 65536 0
	alike l2-cache-size=7E 65536 0
	alike l2-cache-size=0 4096 2
	alike l2-cache-size=11k 4096 2
	alike l2-cache-size=16k 4096 4
	alike l2-cache-size=128k,l2-cache-entry-size=64k 65536 2
	alike l2-cache-size=300k,l2-cache-entry-size=64k 65536 4
	alike l2-cache-size=5k,l2-cache-entry-size=1024 1024 5
	alike l2-cache-size=2k,l2-cache-entry-size=512 512 0
	alike l2-cache-entry-size=4k 4096 0
	alike cache-size=256k 4096 2
	alike cache-size=272k 4096 4
	alike cache-size=767k 4096 0
	alike cache-size=768k 65536 0
	alike cache-size=320k,l2-cache-size=20k 4096 5
	alike cache-size=320k,refcount-cache-size=300k 4096 5
	alike refcount-cache-size=1M 65536 0
}

@test "a cap of whole tables" {
	needs
	mapped 1280M	# 160 KiB of entries, 192 KiB of tables
	alike l2-cache-size=192k 65536 0
	alike l2-cache-size=191k 4096 0
	# Three tables stay in memory with it; with two the third turns one out.
	holds qio ,l2-cache-size=1G $((512 << 20)) 3
	holds qemu ,l2-cache-size=1G $((512 << 20)) 3
	holds qio '' $((512 << 20)) 3
	run holds qio ,l2-cache-size=128k,l2-cache-entry-size=64k $((512 << 20)) 3
	[ "$status" -ne 0 ]
}

@test "in a chain, options hold for the image they are given for" {
	needs
	# sizes PROGRAM NAME OPTIONS: what is read of each image's table for the second half of the disk
	sizes() {
		local program=$QIO file
		[ "$1" = qio ] || program=qemu-io
		strace -f -y -o log -e trace=pread64,preadv "$program" -r ${3:+--image-opts} -c 'read 1G 1' "$2$3" \
			>out 2>&1 || fail "$(cat out)" || return
		for file in top base; do
			awk -v name="/$file>" 'index($0, name) && / = [0-9]+$/ && $NF >= 512 {
				n = split($0, part, /[ ,()]+/)
				if (part[n - 2] >= 262144)
					printf "%s ", $NF
			}' log
		done
	}
	qemu-img create -q -f qcow2 -o preallocation=metadata base 2G
	qemu-img create -q -f qcow2 -b base -F qcow2 top 2G
	qemu-io -c 'write 1280M 1' top >out	# the table is there, and says nothing about 1G
	local program
	for program in qio qemu; do
		equal "$(sizes $program driver=qcow2,file.filename=top \
			,l2-cache-entry-size=1k,backing.l2-cache-entry-size=2k)" '1024 2048 '
		equal "$(sizes $program driver=qcow2,file.filename=top ,l2-cache-size=8k)" '4096 65536 '
		equal "$(sizes $program driver=qcow2,file.filename=top ,backing.l2-cache-size=0)" '65536 4096 '
		equal "$(sizes $program 'json:{"driver": "qcow2", "file": {"driver": "file", "filename": "top"},
			"l2-cache-entry-size": 1024, "backing": {"driver": "qcow2",
			"file": {"driver": "file", "filename": "base"}, "l2-cache-entry-size": 2048}}' '')" '1024 2048 '
		equal "$(sizes $program 'json:{"driver": "qcow2", "file.filename": "top",
			"backing.l2-cache-entry-size": 512}' '')" '65536 512 '
	done
	# A name in an image can have options, too.
	qimg create -q -u -f qcow2 -F qcow2 -b 'json:{"driver": "qcow2", "file.filename": "base",
		"l2-cache-entry-size": 8192}' top 2G || skip 'json: in an image is not taken'
}

@test "the rules of 2015" {
	needs
	mapped 20G	# 40 tables
	equal "$(loads qio ,cache-rule=2015 0 1G | tr '\n' ' ')" '65536 65536 '
	# 1 MiB, 1.5 MiB and 2 MiB hold 16, 24 and 32 of them.
	holds qio ,cache-rule=2015 $((512 << 20)) 16
	run holds qio ,cache-rule=2015 $((512 << 20)) 17
	[ "$status" -ne 0 ]
	holds qio ,cache-rule=2015,l2-cache-size=1.5M $((512 << 20)) 24
	run holds qio ,cache-rule=2015,refcount-cache-size=384k $((512 << 20)) 25
	[ "$status" -ne 0 ]
	holds qio ,cache-rule=2015,cache-size=2621440 $((512 << 20)) 32
	run holds qio ,cache-rule=2015,cache-size=2621440 $((512 << 20)) 33
	[ "$status" -ne 0 ]
	holds qio ,cache-rule=current $((512 << 20)) 40
}

@test "every command that opens an image takes them, and refuses what contradicts itself" {
	local bad=cache-size=64k,l2-cache-size=128k
	qimg create -q -f qcow2 image 64M
	qimg create -q -f qcow2 target 64M
	qimg info --image-opts driver=qcow2,file.filename=image,l2-cache-size=128k >out
	qimg info --backing-chain --image-opts driver=qcow2,file.filename=image,l2-cache-size=128k >out
	qimg info 'json:{"driver": "qcow2", "file.filename": "image", "l2-cache-size": 131072}' >out
	qimg convert --image-opts driver=qcow2,file.filename=image,l2-cache-size=128k,cache-clean-interval=1 out.raw
	qimg convert -n --target-image-opts image driver=qcow2,file.filename=target,l2-cache-size=128k
	fails qimg info --image-opts driver=qcow2,file.filename=image,$bad
	says 65536
	says 131072
	fails qimg info --backing-chain --image-opts driver=qcow2,file.filename=image,$bad
	says 131072
	fails qimg info 'json:{"driver": "qcow2", "file.filename": "image", "cache-size": 65536, "l2-cache-size": 131072}'
	says 131072
	refused none.raw qimg convert --image-opts driver=qcow2,file.filename=image,$bad none.raw
	says 131072
	kept target qimg convert -n --target-image-opts image driver=qcow2,file.filename=target,$bad
	says 131072
	qimg create -q -f qcow2 -b image -F qcow2 top
	fails qimg convert --image-opts driver=qcow2,file.filename=top,backing.cache-size=64k,backing.l2-cache-size=128k x.raw
	says 131072
	says image
	qimg bench -c 10 --image-opts driver=qcow2,file.filename=image,l2-cache-size=128k >out
	fails qimg bench -c 10 --image-opts driver=qcow2,file.filename=image,$bad
	says 131072
	# Raw images have no such caches.
	fails qimg info --image-opts driver=raw,file.filename=image,l2-cache-size=128k
	says l2-cache-size
}
