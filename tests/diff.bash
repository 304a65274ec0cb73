# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
#
# What the diff-*.bats files share: they compare qimg with the reference on
# random images of all kinds. `load helpers` comes first.

# kinds CLUSTER: -o options, a line for each kind of qcow2 image with that
# cluster size
kinds() {
	local extended refcount codec
	echo "cluster_size=$1,compat=0.10"
	for extended in off on; do
		[ $extended = off ] || [ "$1" -ge 16384 ] || continue
		for refcount in 1 16 64; do
			for codec in zlib zstd; do
				echo "cluster_size=$1,compat=1.1,refcount_bits=$refcount,extended_l2=$extended,compression_type=$codec"
			done
		done
	done
}

# image_size CLUSTER: some clusters and a part of one
image_size() {
	case $1 in
	512 | 4096) echo $((600 * 1024 + 1536)) ;;
	2097152) echo $(($1 * 5 + 1536)) ;;
	*) echo $(($1 * 12 + 1536)) ;;
	esac
}

# commands write|read SEED SIZE CLUSTER [COUNT] [packed|packed-first]
commands() {
	need python3
	python3 "$SRCDIR/tests/diff-commands.py" "$@"
}

# qio_run FILE COMMANDS [OPTION...], qemu_run FILE COMMANDS [OPTION...]: all
# commands of the file must succeed. qemu_plain is qemu_run that compresses
# nothing: the reference does not compress over what is allocated.
qio_run() {
	local image=$1 list=$2
	shift 2
	"$QIO" -f qcow2 "$@" "$image" <"$list" >run.out 2>&1 || fail "qio: $(grep -v ' ops$' run.out | tail -3)"
}

qemu_run() {
	local image=$1 list=$2
	shift 2
	qemu-io -t unsafe -f qcow2 "$@" "$image" <"$list" >run.out 2>&1 || fail "qemu-io: $(tail -3 run.out)"
}

qemu_plain() {
	sed 's/^write -c/write/' "$2" >plain
	qemu_run "$1" plain "${@:3}"
}

# same_dumps FILE COMMANDS: read commands print the same with both
same_dumps() {
	"$QIO" -r -f qcow2 "$1" <"$2" 2>&1 | grep -v ' ops' >dump.qio
	qemu-io -r -f qcow2 "$1" <"$2" 2>&1 | sed 's/^\(qemu-io> \)*//' | grep -v ' ops\|^$' >dump.qemu
	[ -s dump.qio ] || fail "no dump of $1" || return
	cmp dump.qio dump.qemu || fail "$(diff dump.qio dump.qemu | head -5)"
}

# reads_same FILE: qimg and the reference convert it to the same raw image
reads_same() {
	rm -f got.raw want.raw
	qemu-img convert -t unsafe -f qcow2 -O raw "$1" want.raw &&
		"$QIMG" convert -f qcow2 -O raw "$1" got.raw || fail "converting $1" || return
	cmp got.raw want.raw
}
