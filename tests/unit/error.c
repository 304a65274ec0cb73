// SPDX-License-Identifier: BSD-2-Clause
/* Messages and warnings: what is put in, and what is cut where it does not fit. */
#include "base/error.h"

#include <errno.h>

#include "tap.h"

static char warned[2048];

static void keep(void *ctx, const char *msg)
{
	*(unsigned *)ctx += 1;
	snprintf(warned, sizeof(warned), "%s", msg);
}

int main(void)
{
	struct qimg_error e;
	char longer[1500];
	unsigned count = 0, i;

	is_i64(error_set(&e, EINVAL, "Field '%s' is %d", "x", 5), -1, "error_set returns -1");
	is_i64(e.code, EINVAL, "the code");
	is_str(e.msg, "Field 'x' is 5", "the message");
	is_i64(error_errno(&e, ENOENT, "Could not open '%s'", "f"), -1, "error_errno returns -1");
	is_str(e.msg, "Could not open 'f': No such file or directory", "the reason is added");
	is_i64(error_prefix(&e, "Image %d", 3), -1, "error_prefix returns -1");
	is_str(e.msg, "Image 3: Could not open 'f': No such file or directory", "in front");
	is_i64(e.code, ENOENT, "the code stays");
	error_prefix(&e, "again (%s)", e.msg);
	is_str(e.msg, "again (Image 3: Could not open 'f': No such file or directory): Image 3: Could not "
	       "open 'f': No such file or directory", "the message as its own argument");
	is_i64(error_nomem(&e), -1, "error_nomem returns -1");
	ok(e.code == ENOMEM && !strcmp(e.msg, "Out of memory"), "and says so");

	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	error_set(&e, 1, "%s", longer);
	is_u64(strlen(e.msg), sizeof(e.msg) - 1, "a long message is cut");
	error_errno(&e, EIO, "%s", longer);
	is_u64(strlen(e.msg), sizeof(e.msg) - 1, "with a reason, too");
	error_prefix(&e, "%s", longer);
	is_u64(strlen(e.msg), sizeof(e.msg) - 1, "with a prefix, too");
	/* Characters of 1 to 4 bytes that begin just before the end are left out whole. */
	for (i = 0; i < 8; i++) {
		static const char *const chars[] = { "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80" };
		unsigned k, n = (unsigned)sizeof(e.msg) - 1 - i;

		for (k = 0; k < 3; k++) {
			error_set(&e, 1, "%.*s%s%s%s", (int)n, longer, chars[k], chars[k], chars[k]);
			ok((strlen(e.msg) - n) % strlen(chars[k]) == 0 && strlen(e.msg) + strlen(chars[k]) > n + i,
			   "%u bytes left, characters of %zu", i, strlen(chars[k]));
		}
	}

	warn("nobody hears this");
	qimg_set_warning_handler(keep, &count);
	warn("Size '%s'", "x");
	is_str(warned, "Size 'x'", "a warning");
	warn("%s", longer);
	is_u64(count, 2, "each goes to the handler");
	qimg_set_warning_handler(NULL, NULL);
	warn("nor this");
	is_u64(count, 2, "until there is none");
	return done_testing();
}
