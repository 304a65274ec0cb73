// SPDX-License-Identifier: BSD-2-Clause
/* The formats there are, by name and by content. */
#include "image/image.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "io/file.h"

enum { PROBE_BYTES = 4096 };

static const struct driver *const drivers[] = { &raw_driver, &qcow2_driver };
static const char *const names[] = { "raw", "qcow2", NULL };

/* Names of what lies below a format stand for the bytes as they are. */
static const char *const raw_aliases[] = { "file", "host_device" };

const struct driver *registry_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(drivers); i++)
		if (!strcmp(drivers[i]->name, name))
			return drivers[i];
	for (size_t i = 0; i < ARRAY_SIZE(raw_aliases); i++)
		if (!strcmp(raw_aliases[i], name))
			return &raw_driver;
	return NULL;
}

const struct driver *registry_probe_head(const uint8_t *head, size_t n, uint64_t size)
{
	const struct driver *best = &raw_driver;
	int score = 0;

	for (size_t i = 0; i < ARRAY_SIZE(drivers); i++) {
		int s = drivers[i]->probe ? drivers[i]->probe(head, n, size) : 0;

		if (s > score) {
			score = s;
			best = drivers[i];
		}
	}
	return best;
}

const struct driver *registry_probe(struct file *f, struct qimg_error *e)
{
	const struct driver *d = NULL;
	uint8_t *head = mem_buffer(PROBE_BYTES, e);

	if (!head)
		return NULL;
	if (file_read(f, 0, head, PROBE_BYTES, e) == 0)
		d = registry_probe_head(head, min_u64(PROBE_BYTES, file_size(f)), file_size(f));
	free(head);
	return d;
}

const char *const *qimg_formats(void)
{
	return names;
}

const struct qimg_option *qimg_create_options(const char *format)
{
	const struct driver *d = registry_find(format);

	return d ? d->create_options : NULL;
}
