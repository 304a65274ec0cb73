// SPDX-License-Identifier: BSD-2-Clause
/* qimg_parse_size: the whole grammar of sizes. */
#include <errno.h>

#include "base/error.h"
#include "tap.h"

static unsigned warnings;

static void count_warning(void *ctx, const char *msg)
{
	(void)ctx;
	(void)msg;
	warnings++;
}

static const struct {
	const char *text;
	uint64_t size;
} good[] = {
	{ "0", 0 }, { "1", 1 }, { "513", 513 }, { "010", 10 }, { "1024b", 1024 }, { "1024B", 1024 },
	{ "1k", 1024 }, { "1K", 1024 }, { "10m", 10485760 }, { "10M", 10485760 },
	{ "3g", UINT64_C(3) << 30 }, { "3G", UINT64_C(3) << 30 }, { "2t", UINT64_C(2) << 40 },
	{ "2T", UINT64_C(2) << 40 }, { "2p", UINT64_C(2) << 50 }, { "2P", UINT64_C(2) << 50 },
	{ "7e", UINT64_C(7) << 60 }, { "7E", UINT64_C(7) << 60 }, { "1.5G", 1610612736 },
	{ "0.3k", 307 }, { "1.5M", 1572864 }, { "1.0", 1 }, { "1.", 1 }, { "1.G", 1073741824 },
	{ "1.0b", 1 }, { "0.0009765625k", 1 }, { "0.0009k", 0 },
	{ "1.99999999999999999999999k", 2047 }, { "1.000000000000000000000001k", 1024 },
	{ "0x10", 16 }, { "0X1f", 31 }, { "0x200", 512 }, { "0x1b", 27 }, { "0x1E", 30 },
	{ "0x7fffffffffffffff", INT64_MAX }, { "9223372036854775807", INT64_MAX },
	{ "9223372036854775807b", INT64_MAX }, { "7.5E", UINT64_C(15) << 59 }, { " 1", 1 }, { "+1", 1 },
};

static const struct {
	const char *text;
	int code;
	const char *says;		/* a part of the message */
} bad[] = {
	{ "30GG", EINVAL, "'G' at position 4" }, { "93.1", EINVAL, "fraction" },
	{ "10MB", EINVAL, "'B' at position 4" }, { "1e3", EINVAL, "'3' at position 3" },
	{ "-1", EINVAL, "'-'" }, { "", EINVAL, "empty" }, { "1GiB", EINVAL, "'i' at position 3" },
	{ "18446744073709551615", ERANGE, "2^63-1" }, { "8E", ERANGE, "2^63-1" },
	{ " ", EINVAL, "missing" }, { "x", EINVAL, "'x'" }, { "9223372036854775808", ERANGE, "2^63-1" },
	{ "99999999999999999999999999", ERANGE, "2^63-1" }, { "0x8000000000000000", ERANGE, "2^63-1" },
	{ "0x10000000000000000", ERANGE, "2^63-1" }, { "7.9999999999999999999E1", EINVAL, "'1'" },
	{ "1 ", EINVAL, "' '" }, { "1 k", EINVAL, "' '" }, { "0x", EINVAL, "missing" },
	{ "0xg", EINVAL, "'g'" }, { "0x1.8k", EINVAL, "'.'" }, { ".5k", EINVAL, "'.'" },
	{ "1.5", EINVAL, "fraction" }, { "1.5b", EINVAL, "fraction" }, { "1..5k", EINVAL, "'.'" },
	{ "1,5k", EINVAL, "','" }, { "inf", EINVAL, "'i'" }, { "nan", EINVAL, "'n'" },
	{ "1kb", EINVAL, "'b'" }, { "k", EINVAL, "'k'" }, { "+", EINVAL, "missing" },
	{ "+-1", EINVAL, "'-'" }, { "1\n", EINVAL, "0x0a" }, { "1\xc2\xb5", EINVAL, "0xc2" },
	{ "9999999999999E", ERANGE, "2^63-1" },
};

int main(void)
{
	struct qimg_error e;
	uint64_t size;
	size_t i;

	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		size = 12345;
		ok(!qimg_parse_size(good[i].text, &size, &e), "'%s' is a size", good[i].text);
		is_u64(size, good[i].size, "'%s' has its value", good[i].text);
	}
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		size = 12345;
		is_i64(qimg_parse_size(bad[i].text, &size, &e), -1, "case %zu is refused", i);
		is_i64(e.code, bad[i].code, "case %zu has its code", i);
		if (!ok(strstr(e.msg, bad[i].says), "case %zu says '%s'", i, bad[i].says))
			diag("%s", e.msg);
		is_u64(size, 12345, "case %zu leaves the size alone", i);
	}
	qimg_set_warning_handler(count_warning, NULL);
	ok(!qimg_parse_size("0x10k", &size, &e) && size == 16384, "hex with a suffix works");
	is_u64(warnings, 1, "with a warning");
	return done_testing();
}
