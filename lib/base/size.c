// SPDX-License-Identifier: BSD-2-Clause
/*
 * Sizes as people type them: "64K", "1.5G", "0x200".
 *
 * All arithmetic is on integers: "1.5G" is exact and a long fraction can not round up to the next
 * unit. The code of the error is EINVAL when the text is no size and ERANGE when it is one, but
 * beyond 2^63-1: callers word the two differently.
 */
#include "qimg.h"

#include <errno.h>

#include "base/bytes.h"
#include "base/error.h"

/* As many digits of a fraction as can be held exactly; those behind are worth less than a byte. */
#define FRACTION_DIGITS 18

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static int hex_digit(char c)
{
	if (is_digit(c))
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* How far a suffix shifts; -1: not a suffix. */
static int suffix_shift(char c)
{
	switch (c) {
	case 'b': case 'B':
		return 0;
	case 'k': case 'K':
		return 10;
	case 'm': case 'M':
		return 20;
	case 'g': case 'G':
		return 30;
	case 't': case 'T':
		return 40;
	case 'p': case 'P':
		return 50;
	case 'e': case 'E':
		return 60;
	default:
		return -1;
	}
}

static int bad_size(const char *text, const char *at, struct qimg_error *e)
{
	unsigned char c = (unsigned char)*at;

	if (!*text)
		return error_set(e, EINVAL, "Invalid size '': it is empty");
	if (!c)
		return error_set(e, EINVAL, "Invalid size '%s': digits are missing at its end", text);
	if (c < 0x20 || c >= 0x7f)
		return error_set(e, EINVAL, "Invalid size '%s': byte 0x%02x does not belong there",
				 text, c);
	return error_set(e, EINVAL, "Invalid size '%s': '%c' at position %zu does not belong there "
			 "(a size is a number with at most one of the suffixes b, k, M, G, T, P and E)",
			 text, c, (size_t)(at - text) + 1);
}

static int too_large(const char *text, struct qimg_error *e)
{
	return error_set(e, ERANGE, "Invalid size '%s': sizes are between 0 and 9223372036854775807 "
			 "(2^63-1) bytes", text);
}

/* Reads digits of the base; *fits becomes false when they do not fit into 64 bits. */
static const char *read_number(const char *p, unsigned base, uint64_t *n, bool *fits)
{
	int digit;

	*n = 0;
	for (; (digit = hex_digit(*p)) >= 0 && (unsigned)digit < base; p++) {
		if (!mul_u64(*n, base, n) || !add_u64(*n, (uint64_t)digit, n))
			*fits = false;
	}
	return p;
}

int qimg_parse_size(const char *text, uint64_t *size, struct qimg_error *e)
{
	uint64_t n, fraction = 0, unit = 1, mul;
	const char *p = text, *digits;
	bool hex, fits = true, point = false;
	unsigned count = 0;
	int shift = 0;

	while (*p == ' ' || (*p >= '\t' && *p <= '\r'))
		p++;
	if (*p == '+')
		p++;
	hex = p[0] == '0' && (p[1] == 'x' || p[1] == 'X');
	if (hex)
		p += 2;
	digits = p;
	p = read_number(p, hex ? 16 : 10, &n, &fits);
	if (p == digits)
		return bad_size(text, p, e);

	if (*p == '.' && !hex) {
		const char *at = p;

		for (p++; is_digit(*p); p++) {
			if (count++ < FRACTION_DIGITS) {
				fraction = fraction * 10 + (uint64_t)(*p - '0');
				unit *= 10;
			}
			if (*p != '0')
				point = true;
		}
		/* "1.0" is whole; half a byte is not. */
		if (point && (!*p || suffix_shift(*p) == 0))
			return error_set(e, EINVAL, "Invalid size '%s': the fraction at position %zu "
					 "needs one of the suffixes k, M, G, T, P and E", text,
					 (size_t)(at - text) + 1);
	}
	if (*p) {
		shift = suffix_shift(*p);
		if (shift < 0 || p[1])
			return bad_size(text, shift < 0 ? p : p + 1, e);
		if (hex && shift)
			warn("Size '%s' is a hex number with a suffix, which is easily misread: write "
			     "it out", text);
	}

	mul = UINT64_C(1) << shift;
	if (!fits || !mul_u64(n, mul, &n) ||
	    !add_u64(n, (uint64_t)((unsigned __int128)fraction * mul / unit), &n) || n > INT64_MAX)
		return too_large(text, e);
	*size = n;
	return 0;
}
