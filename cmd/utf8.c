// SPDX-License-Identifier: BSD-2-Clause
/* UTF-8, as far as telling it from other bytes. */
#include "utf8.h"

#include <stdint.h>

size_t utf8_length(const char *text)
{
	const unsigned char *p = (const unsigned char *)text;
	uint32_t c = *p;
	size_t n = c < 0x80 ? 1 : c >= 0xc2 && c < 0xe0 ? 2 : c >= 0xe0 && c < 0xf0 ? 3 :
		   c >= 0xf0 && c < 0xf5 ? 4 : 0;

	if (n > 1)
		c &= 0x7fu >> n;
	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (p[i] & 0x3f);
	}
	if ((n == 3 && c < 0x800) || (n == 4 && (c < 0x10000 || c > 0x10ffff)) || (c >= 0xd800 && c < 0xe000))
		return 0;
	return n;
}
