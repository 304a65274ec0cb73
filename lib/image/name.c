// SPDX-License-Identifier: BSD-2-Clause
/*
 * Names that are stored in images. They come from whoever made the image, so they are taken for plain
 * files, relative to the folder of the image, and nothing else: what is meant as an address of
 * another kind is recognised here only to be refused with a clear error.
 */
#include "image/image.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"

static bool is_word(const char *s, size_t n)
{
	if (n == 0)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)s[i]) && !strchr("+-._", s[i]))
			return false;
	return true;
}

static bool is_number(const char *s)
{
	return *s && s[strspn(s, "0123456789")] == 0;
}

/* Schemes without "//": each with what has to follow to make a reference of it. */
static bool is_known_scheme(const char *s)
{
	static const char *const nested[] = { "blkdebug:", "blkverify:", "blkreplay:", "host_device:",
					      "host_cdrom:", "fat:", "rbd:", "sheepdog:" };
	const char *port;

	if (!strncmp(s, "nbd:", 4)) {
		port = strrchr(s + 4, ':');
		return !strncmp(s + 4, "unix:", 5) || !strncmp(s + 4, "exportname=", 11) ||
		       (port && is_number(port + 1)) || strstr(s + 4, ":exportname=");
	}
	if (!strncmp(s, "fd:", 3))
		return is_number(s + 3);
	for (size_t i = 0; i < ARRAY_SIZE(nested); i++) {
		size_t n = strlen(nested[i]);

		/* A path or a further scheme behind it; "rbd:x.qcow2" is as plain as "a:b.qcow2". */
		if (!strncmp(s, nested[i], n))
			return strpbrk(s + n, ":/") != NULL;
	}
	return false;
}

bool name_is_reference(const char *stored)
{
	const char *colon = strchr(stored, ':');

	if (!colon)
		return false;
	if (!strncmp(stored, "json:", 5)) {
		stored += 5;
		return stored[strspn(stored, " \t\r\n")] == '{';
	}
	if (!strncmp(stored, "file:", 5))
		return false;
	if (!strncmp(colon, "://", 3) && is_word(stored, colon - stored))
		return true;
	return is_known_scheme(stored);
}

const char *name_plain(const char *name)
{
	return strncmp(name, "file:", 5) ? name : name + 5;
}

char *name_resolve(const char *base, const char *stored, bool external, struct qimg_error *e)
{
	const char *slash;

	if (name_is_reference(stored)) {
		if (external)
			return mem_strdup(stored, e);
		error_set(e, EPERM, "'%s' stores the reference '%s', which is no plain file name; such "
			  "references are followed only when that is asked for", base, stored);
		return NULL;
	}
	stored = name_plain(stored);
	if (*stored == 0) {
		error_set(e, EINVAL, "'%s' stores an empty file name", base);
		return NULL;
	}
	slash = strrchr(base, '/');
	/* What is left of "file:json:{...}" must stay the plain name that it is. */
	if (!slash && (!strncmp(stored, "json:", 5) || !strncmp(stored, "file:", 5)))
		return mem_printf(e, "./%s", stored);
	if (*stored == '/' || !slash)
		return mem_strdup(stored, e);
	return mem_printf(e, "%.*s/%s", (int)(slash - base), base, stored);
}
