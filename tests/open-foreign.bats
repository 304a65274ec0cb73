#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# Images of formats that qimg does not know, opened without a format.

load helpers

@test "containers of formats that are not supported are not taken for disks" {
	local head
	for head in 'QFI\373\0\0\0\1' 'QED\0' KDMV COWD '# Disk DescriptorFile' vhdxfile conectix \
		    WithoutFreeSpace WithouFreSpacExt; do
		# shellcheck disable=SC2059
		printf "$head" >x
		truncate -s 1M x
		refused out qimg convert x out
		says 'not supported'
		says raw
		fails qimg info x
		qimg convert -f raw x out
		rm out
	done
	truncate -s 0 x
	truncate -s 1M x
	poke x 64 7f10dabe
	refused out qimg convert x out
	says "'vdi'"
	# no more than that makes a disk of it
	printf 'QED!' >x
	truncate -s 1M x
	qimg convert x out
}
