// SPDX-License-Identifier: BSD-2-Clause
/* A text file line by line: a buffer from which lines are handed out where they lie. */
#include "io/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"

enum { ROOM = 65536 };

struct lines {
	int fd;
	char *path;
	uint64_t number;
	size_t at, end;			/* what was read and not handed out */
	bool over;			/* the file has no more */
	char buf[ROOM + 1];
};

int lines_open(struct lines **out, const char *path, struct qimg_error *e)
{
	struct lines *l = mem_alloc(sizeof(*l), e);

	if (!l)
		return -1;
	l->number = l->at = l->end = 0;
	l->over = false;
	l->path = mem_strdup(path, e);
	if (!l->path) {
		free(l);
		return -1;
	}
	do
		l->fd = open(path, O_RDONLY | O_NOCTTY | O_CLOEXEC);
	while (l->fd < 0 && errno == EINTR);
	if (l->fd < 0) {
		error_errno(e, errno, "Could not open '%s'", path);
		free(l->path);
		free(l);
		return -1;
	}
	*out = l;
	return 0;
}

void lines_close(struct lines *l)
{
	if (!l)
		return;
	close(l->fd);
	free(l->path);
	free(l);
}

/* Reads more behind what is there. */
static int more(struct lines *l, struct qimg_error *e)
{
	ssize_t n;

	memmove(l->buf, l->buf + l->at, l->end - l->at);
	l->end -= l->at;
	l->at = 0;
	do
		n = read(l->fd, l->buf + l->end, ROOM - l->end);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return error_errno(e, errno, "Could not read '%s'", l->path);
	l->over = !n;
	l->end += (size_t)n;
	return 0;
}

int lines_next(struct lines *l, char **text, struct qimg_error *e)
{
	size_t seen = 0, len;
	char *end = NULL;

	for (;;) {
		end = memchr(l->buf + l->at + seen, '\n', l->end - l->at - seen);
		if (end || l->over || l->end - l->at > LINES_LONGEST + 2)
			break;
		seen = l->end - l->at;
		if (more(l, e) < 0)
			return -1;
	}
	if (!end && l->at == l->end)
		return 0;
	l->number++;
	*text = l->buf + l->at;
	len = end ? (size_t)(end - *text) : l->end - l->at;
	l->at += len + (end ? 1 : 0);
	if (len && (*text)[len - 1] == '\r')
		len--;
	if (len > LINES_LONGEST)
		return error_set(e, EINVAL, "Line %" PRIu64 " of '%s' is longer than %d bytes", l->number,
				 l->path, LINES_LONGEST);
	if (memchr(*text, 0, len))
		return error_set(e, EINVAL, "Line %" PRIu64 " of '%s' has a byte of 0, which no text has",
				 l->number, l->path);
	(*text)[len] = 0;
	return 1;
}

const char *lines_path(const struct lines *l)
{
	return l->path;
}

uint64_t lines_number(const struct lines *l)
{
	return l->number;
}
