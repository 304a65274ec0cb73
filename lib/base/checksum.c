// SPDX-License-Identifier: BSD-2-Clause
/* CRC-32 by a library: ISA-L where it is there, which is some ten times faster, else zlib. */
#include "base/checksum.h"

#include "config.h"

#ifdef HAVE_ISAL
#include <isa-l.h>

uint32_t checksum(uint32_t start, const void *p, size_t n)
{
	return crc32_gzip_refl(start, p, n);
}
#else
#include <zlib.h>

uint32_t checksum(uint32_t start, const void *p, size_t n)
{
	return (uint32_t)crc32_z(start, p, n);
}
#endif
