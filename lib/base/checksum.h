/* SPDX-License-Identifier: BSD-2-Clause */
/* CRC-32, as of gzip. */
#ifndef BASE_CHECKSUM_H
#define BASE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/* start: 0, or the checksum of what comes before. */
uint32_t checksum(uint32_t start, const void *p, size_t n);

#endif
