// SPDX-License-Identifier: BSD-2-Clause
/* Names of files. */
#include "io/file_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"

void file_remove(const char *path)
{
	unlink(path);
}

int file_sync_name(const struct file *f, struct qimg_error *e)
{
	const char *slash = strrchr(f->path, '/');
	char *folder = slash ? mem_strndup(f->path, slash == f->path ? 1 : (size_t)(slash - f->path), e) :
			       mem_strdup(".", e);
	int fd, code = 0;

	if (!folder)
		return -1;
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/* A folder that may not be read can only be synced with all others; some file systems have no need of it. */
	if (fd < 0 ? syncfs(f->fd) : fsync(fd))
		code = errno;
	if (fd >= 0)
		close(fd);
	free(folder);
	if (code && code != EINVAL && code != EOPNOTSUPP && code != ENOSYS)
		return error_errno(e, code, "The name '%s' could not be brought to stable storage", f->path);
	return 0;
}
