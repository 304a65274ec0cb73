// SPDX-License-Identifier: BSD-2-Clause
/* The name is chosen by the system, so that it belongs to nobody else. */
#include "io/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"

char *scratch_new(const char *folder, const char *suffix, struct qimg_error *e)
{
	const char *given = getenv("TMPDIR");
	char *name;
	int fd;

	if (!folder)
		folder = given && *given ? given : "/var/tmp";
	name = mem_printf(e, "%s/qimg-XXXXXX%s", folder, suffix);
	if (!name)
		return NULL;
	fd = mkostemps(name, (int)strlen(suffix), O_CLOEXEC);
	if (fd >= 0) {
		close(fd);
		return name;
	}
	error_errno(e, errno, "Could not make a file in '%s'", folder);
	free(name);
	return NULL;
}
