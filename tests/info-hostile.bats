#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# info answers or refuses whatever file it is given, within 1 GiB of address
# space and two seconds of processor time, and opens no file but that one.

load helpers

seeds() {
	qimg create -q -f qcow2 -o cluster_size=4k a.qcow2 4M
	qio -f qcow2 -c 'write -P 3 0 100k' -c 'write -P 4 2M 64k' a.qcow2 >/dev/null
	qimg create -q -f qcow2 -b a.qcow2 -F qcow2 b.qcow2
	qimg create -q -f qcow2 -o compat=0.10,cluster_size=512 c.qcow2 1M
	qimg create -q -f qcow2 -o extended_l2=on,lazy_refcounts=on,refcount_bits=1 d.qcow2 1M
}

@test 'damaged headers, tables and cut files' {
	need python3
	seeds
	python3 - "$QIMG" "$VARIANT" <<'END'
import random, resource, subprocess, sys
prog, variant = sys.argv[1:3]
sanitized = any(s in variant for s in ("address", "undefined", "thread"))
seeds = [open(n, "rb").read() for n in ("a.qcow2", "b.qcow2", "c.qcow2", "d.qcow2")]
wide = (8, 24, 40, 48, 64, 72, 80, 88)
fields = wide + (4, 16, 20, 32, 36, 56, 60, 96, 100, 104)

def limits():
    if not sanitized:
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
        resource.setrlimit(resource.RLIMIT_CPU, (2, 2))

def damage(r, b):
    kind = r.random()
    if kind < .6:
        at = r.choice(fields)
        n = 8 if at in wide else 4
        v = r.choice((0, 1, 2, r.getrandbits(8), r.getrandbits(8 * n), (1 << 8 * n) - 1,
                      1 << (8 * n - 1), 0x1ff, 0x10000, len(b), len(b) & ~511))
        b[at:at + n] = (v & ((1 << 8 * n) - 1)).to_bytes(n, "big")
    elif kind < .8:
        at = r.randrange(104, 512)
        b[at:at + 4] = r.getrandbits(32).to_bytes(4, "big")
    elif kind < .95:
        at = r.randrange(len(b) - 8) & ~7
        b[at:at + 8] = r.getrandbits(64).to_bytes(8, "big")
    else:
        del b[r.randrange(1, len(b)):]
        b.extend(bytes(max(0, 1024 - len(b))))

bad = 0
for seed in range(200):
    r = random.Random(seed)
    b = bytearray(r.choice(seeds))
    for _ in range(r.choice((1, 1, 2, 4))):
        damage(r, b)
    open("x.qcow2", "wb").write(b)
    for args in (["-f", "qcow2", "--output=json"], ["--backing-chain"]):
        p = subprocess.run([prog, "info"] + args + ["x.qcow2"], preexec_fn=limits,
                           stdin=subprocess.DEVNULL, capture_output=True, timeout=30)
        if p.returncode not in (0, 1) or (p.returncode == 1 and not p.stderr):
            print("seed", seed, args, "status", p.returncode, p.stderr.decode(errors="replace"))
            bad += 1
sys.exit(bad > 0)
END
}

@test 'files that are no image at all' {
	local file
	: >empty
	head -c 100 /dev/urandom >short
	printf 'QFI\373' >magic
	printf 'QFI\373\0\0\0\3' >version
	for file in empty short magic version; do
		run "$QIMG" info "$file"
		[ "$status" -le 1 ]
		[ -n "$output" ]
		run "$QIMG" info -f qcow2 "$file"
		equal "$status" 1 "$file"
		contains "$output" "$file"
	done
	for file in . /dev/null missing ''; do
		run "$QIMG" info "$file"
		equal "$status" 1 "'$file'"
		[ -n "$output" ]
	done
	mkfifo pipe
	run timeout 5 "$QIMG" info pipe
	equal "$status" 1
}

@test 'no file that the image names is opened' {
	need strace qemu-img
	need_no_sanitizer
	head -c 65536 /dev/zero >secret.raw
	qemu-img create -q -u -f qcow2 -b "$PWD/secret.raw" -F raw abs.qcow2 1M
	qemu-img create -q -u -f qcow2 -b "json:{\"driver\":\"raw\",\"file.filename\":\"$PWD/secret.raw\"}" \
		-F raw js.qcow2 1M
	qemu-img create -q -f qcow2 -o data_file="$PWD/secret.dat" df.qcow2 1M
	for file in abs js df; do
		strace -f -o log -e trace=file "$QIMG" info --output=json $file.qcow2 >info.json
		contains "$(cat log)" $file.qcow2
		lacks "$(grep -v 'execve(' log)" secret
		contains "$(cat info.json)" secret
	done
}
