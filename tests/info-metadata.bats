#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# What info reads besides the header: the bitmap directory and the LUKS header,
# as they should be and broken.

load helpers

data() {
	qimg info --output=json image | json - "d['format-specific']['data']$1"
}

# image with two bitmaps; their directory is at $dir, its size field at $ext + 16
bitmaps() {
	need qemu-img python3
	qemu-img create -q -f qcow2 image 4M
	qemu-img bitmap --add image zero
	qemu-img bitmap --add --disable -g 1M image one
	ext=496
	equal "$(peek image $ext 4)" 00000000 || return
	# The bitmaps extension follows the feature name table of 384 bytes.
	ext=$((112 + 8 + 384))
	equal "$(peek image $ext 8)" 2385287500000018 || return
	dir=$((0x$(peek image $((ext + 24)) 8)))
}

@test "bitmaps" {
	bitmaps
	equal "$(data '["bitmaps"]')" \
		'[{"flags": ["auto"], "name": "zero", "granularity": 65536}, {"flags": [], "name": "one", "granularity": 1048576}]'
	poke image $((dir + 12)) 00000003
	equal "$(data '["bitmaps"][0]["flags"]')" '["in-use", "auto"]'
	# not to be relied on without the autoclear bit
	poke image 88 0000000000000000
	equal "$(data '.get("bitmaps")')" null
}

@test "bitmap directories that are broken" {
	bitmaps
	truncate -s 1M image
	cp image good
	broken() {
		cp good image
		poke image "$1" "$2"
		fails qimg info image && says "$3" || return
		# Reading the disk does not need the bitmaps.
		[ -n "${4:-}" ] || qimg convert -f qcow2 -O raw image out
	}
	broken $((ext + 8)) 00000000 'allowed are 1 to 65535' header
	broken $((ext + 8)) 00010000 'allowed are 1 to 65535' header
	broken $((ext + 8)) 00000001 'the header counts 1 in 64 bytes'
	broken $((ext + 8)) 00000003 'for 3 bitmaps' header
	broken $((ext + 16)) 0000000000000038 'the header counts 2 in 56 bytes'
	broken $((ext + 16)) 0000000000001000 'the header counts 2 in 4096 bytes'
	broken $((ext + 16)) 0000000005000000 'between' header
	broken $((ext + 24)) 0000000000010001 'aligned' header
	broken $((ext + 24)) 0000010000000000 'does not lie within the file'
	broken $((dir + 16)) 02 'type 2'
	broken $((dir + 17)) 40 '2^64'
	broken $((dir + 18)) 0000 'take 56 bytes'
	broken $((dir + 18)) ffff 'reaches beyond'
	broken $((dir + 20)) ffffffff 'reaches beyond'
}

# image with data that is called encrypted. The header of LUKS, with the cipher, mode, hash and length
# of key given, is at $luks. (The reference takes seconds to derive keys.)
luks() {
	need python3
	rm -f image
	qimg create -q -f qcow2 image 4M
	qio -c 'write -P 5 0 64k' image >/dev/null
	luks=$((1 << 20))
	python3 - "$luks" "$@" <<-'PY'
	import struct, sys
	at, cipher, mode, hash, key = sys.argv[1:]
	slots = b"".join(
	    struct.pack(">II32sII", 0x00ac71f3 if i in (0, 3) else 0xdead, 1000 + i, b"s" * 32, 8 + 504 * i, 4000)
	    for i in range(8))
	luks = struct.pack(">6sH32s32s32sII20s32sI40s", b"LUKS\xba\xbe", 1, cipher.encode(), mode.encode(),
	                   hash.encode(), 4040, int(key), b"d" * 20, b"s" * 32, 11025,
	                   b"822c56e5-a12d-4117-bf39-540a0aa36b7b") + slots
	with open("image", "r+b") as f:
	    f.seek(int(at))
	    f.write(luks.ljust(4040 * 512, b"\0"))
	    f.seek(32)
	    f.write(struct.pack(">I", 2))
	    f.seek(112)
	    names = f.read(392)
	    f.seek(112)
	    f.write(struct.pack(">IIQQ", 0x0537be77, 16, int(at), 4040 * 512) + names)
	PY
}

@test "LUKS headers" {
	need qemu-img
	for set in 'aes xts-plain64 sha256 64' 'serpent cbc-essiv:sha256 sha1 16' 'twofish cbc-plain sha512 32'; do
		# shellcheck disable=SC2086
		luks $set
		qemu-img info image >theirs
		qimg info image >ours
		diff theirs ours || fail "$set"
		contains "$(cat ours)" 'ivgen alg: '
	done
}

@test "LUKS headers that are broken" {
	luks aes xts-plain64 sha256 64
	cp image good
	for change in "$luks:00" "$((luks + 6)):0002" "120:0000000000000000" "120:0000000000000001" "128:0000000000000010"; do
		cp good image
		poke image "${change%%:*}" "${change#*:}"
		fails qimg info image || fail "$change"
	done
	# Strings that fill their fields have no terminating zero.
	cp good image
	poke image $((luks + 8)) "$(printf '61%.0s' {1..32})"
	equal "$(data '["encrypt"]["cipher-alg"]')" "$(printf 'a%.0s' {1..32})-256"
}

@test "data of encrypted images is refused" {
	luks aes xts-plain64 sha256 64
	fails qimg convert -f qcow2 -O raw image out
	says 'ncrypt'
	kept image qio -c 'write 0 64k' image
	says 'ncrypt'
}
