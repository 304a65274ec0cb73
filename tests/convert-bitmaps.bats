#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# convert --bitmaps carries the persistent bitmaps of the source over: names,
# granularities, whether they are kept up to date, every bit.

load helpers

setup() {
	helpers_setup
	need qemu-img qemu-io python3
	qemu-img create -q -f qcow2 -o cluster_size=4k s.qcow2 64M
	qemu-img bitmap --add -g 4k s.qcow2 fine
	qemu-img bitmap --add s.qcow2 usual
	qemu-io -c 'write -P 1 1M 200k' -c 'write -P 2 40M 18M' -c 'write -P 3 63M 1000' s.qcow2 >/dev/null
	qemu-img bitmap --add --disable s.qcow2 off
	qemu-img bitmap --add -g 1M s.qcow2 'two words'
	qemu-io -c 'write -P 4 5M 4k' s.qcow2 >/dev/null
}

# bits FILE: name, granularity, flags of each bitmap and the runs of its bits,
# by a reader of its own
bits() {
	python3 - "$1" <<-'END'
	import struct, sys
	f = open(sys.argv[1], 'rb').read()
	cluster = 1 << struct.unpack('>I', f[20:24])[0]
	size, = struct.unpack('>Q', f[24:32])
	assert f[95] & 1, 'the bitmaps are not valid'
	at, = struct.unpack('>I', f[100:104])
	while True:
	    kind, length = struct.unpack('>II', f[at:at + 8])
	    if kind == 0x23852875:
	        break
	    assert kind, 'no bitmaps'
	    at += 8 + (length + 7) // 8 * 8
	count, _, total, entry = struct.unpack('>IIQQ', f[at + 8:at + 32])
	end = entry + total
	for _ in range(count):
	    table, n, flags, kind, bits, name, extra = struct.unpack('>QIIBBHI', f[entry:entry + 24])
	    assert kind == 1 and not extra
	    content = b''
	    for x in struct.unpack('>%dQ' % n, f[table:table + 8 * n]):
	        content += f[x:x + cluster].ljust(cluster, b'\0') if x > 1 else (b'\0', b'\xff')[x] * cluster
	    dirty, runs = (size + (1 << bits) - 1) >> bits, []
	    assert not content[(dirty + 7) // 8:].strip(b'\0'), 'bits behind the end'
	    for i in range(dirty):
	        if content[i // 8] >> i % 8 & 1:
	            runs[-1:] = [[runs[-1][0], i]] if runs and runs[-1][1] == i - 1 else runs[-1:] + [[i, i]]
	    print(f[entry + 24:entry + 24 + name].decode(), 1 << bits, flags, runs)
	    entry += (24 + name + 7) // 8 * 8
	assert entry == end
	END
}

@test 'every bit, with every cluster size' {
	local size
	bits s.qcow2 >want
	equal "$(wc -l <want)" 4
	grep -q '^fine 4096 2 \[\[256, 305\]' want || fail "$(cat want)"
	for size in 512 4k 64k 2M; do
		qimg convert --bitmaps -O qcow2 -o cluster_size=$size s.qcow2 out.qcow2
		bits out.qcow2 >got
		diff want got || fail "cluster_size=$size"
		same qcow2 s.qcow2 qcow2 out.qcow2
		is_clean out.qcow2
		# The reference takes them as its own.
		qemu-io -c 'write -P 9 10M 1M' out.qcow2 >/dev/null
		bits out.qcow2 | grep -q '^two words 1048576 2 .*\[10, 10\]' || fail 'it is not kept up to date'
		is_clean out.qcow2
	done
	qimg convert --bitmaps --verify -c -O qcow2 s.qcow2 out.qcow2
	bits out.qcow2 | diff want -
	qimg convert --bitmaps -O qcow2 -o refcount_bits=1,extended_l2=on,data_file=d.raw s.qcow2 out.qcow2
	bits out.qcow2 | diff want -
	is_clean out.qcow2
}

@test 'it is what the reference makes of them' {
	qemu-img convert --bitmaps -O qcow2 s.qcow2 theirs.qcow2
	qimg convert --bitmaps -O qcow2 s.qcow2 ours.qcow2
	bits theirs.qcow2 >theirs
	bits ours.qcow2 | diff theirs -
	equal "$(qimg info --output=json ours.qcow2 | json - 'd["format-specific"]["data"]["bitmaps"]')" \
		"$(qimg info --output=json theirs.qcow2 | json - 'd["format-specific"]["data"]["bitmaps"]')"
}

@test 'a larger target, and an existing one' {
	bits s.qcow2 >want
	qimg convert --bitmaps -O qcow2 -o size=1G s.qcow2 out.qcow2
	bits out.qcow2 | diff want -
	is_clean out.qcow2
	qimg create -q -f qcow2 n.qcow2 64M
	qimg convert --bitmaps -n -O qcow2 s.qcow2 n.qcow2
	bits n.qcow2 | diff want -
	kept n.qcow2 qimg convert --bitmaps -n -O qcow2 s.qcow2 n.qcow2
	says 'has bitmaps already'
}

@test 'without the option, and without bitmaps, there are none' {
	qimg convert -O qcow2 s.qcow2 out.qcow2
	qimg create -q -f qcow2 e.qcow2 1M
	qimg convert --bitmaps -O qcow2 e.qcow2 none.qcow2
	for file in out none; do
		equal "$(qimg info --output=json $file.qcow2 | json - '"bitmaps" in d["format-specific"]["data"]')" false
		is_clean $file.qcow2
	done
}

@test 'where they can not be, it is an error before anything is written' {
	truncate -s 1M r.raw
	refused out.qcow2 qimg convert --bitmaps -f raw -O qcow2 r.raw out.qcow2
	says 'Source lacks bitmap support'
	refused out.raw qimg convert --bitmaps -O raw s.qcow2 out.raw
	says "'raw' does not support bitmaps"
	refused out.qcow2 qimg convert --bitmaps -O qcow2 -o compat=0.10 s.qcow2 out.qcow2
	says 'version 2'
	refused out.qcow2 qimg convert --bitmaps -O qcow2 s.qcow2 s.qcow2 out.qcow2
	says 'single source'
	refused out.qcow2 qimg convert --skip-broken-bitmaps -O qcow2 s.qcow2 out.qcow2
	says 'requires --bitmaps'
}

@test 'one that was not written back is refused, or skipped with a warning' {
	{ qemu-io -c 'write -P 5 2M 1M' -c flush -c 'sigraise 9' s.qcow2 >/dev/null; } 2>/dev/null || true
	qemu-img bitmap --add s.qcow2 good
	refused out.qcow2 qimg convert --bitmaps -O qcow2 s.qcow2 out.qcow2
	says "'fine'"
	says '--skip-broken-bitmaps'
	qimg convert --bitmaps --skip-broken-bitmaps -O qcow2 s.qcow2 out.qcow2 2>err
	contains "$(cat err)" "'fine'"
	equal "$(bits out.qcow2 | cut -d' ' -f1 | tr '\n' ' ')" 'good '
	is_clean out.qcow2
}

@test 'a damaged one is an error, and there is no target' {
	local table
	# The table of the first bitmap gets an entry that can not be.
	table=$(python3 -c '
import struct
f = open("s.qcow2", "rb").read()
at = 104
while struct.unpack(">I", f[at:at+4])[0] != 0x23852875:
    at += 8 + (struct.unpack(">I", f[at+4:at+8])[0] + 7) // 8 * 8
print(struct.unpack(">Q", f[struct.unpack(">Q", f[at+24:at+32])[0]:][:8])[0])')
	poke s.qcow2 "$table" 7f00000000000003
	refused out.qcow2 qimg convert --bitmaps -O qcow2 s.qcow2 out.qcow2
	says "Bitmap 'fine'"
	qimg convert -O qcow2 s.qcow2 out.qcow2
}
