// SPDX-License-Identifier: BSD-2-Clause
/* The formats there are, by name and by content. */
#include "image/image.h"

#include <errno.h>
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

/* Formats that are known only so that nobody takes their containers for the disk in them. */
static const char *foreign_format(const uint8_t *head, size_t n)
{
	static const struct {
		const char *name;
		unsigned offset, len;
		const char *bytes;
	} list[] = {
		{ "qcow", 0, 8, "QFI\xfb\0\0\0\1" },
		{ "qed", 0, 4, "QED" },		/* with the 0 behind it */
		{ "vmdk", 0, 4, "KDMV" },
		{ "vmdk", 0, 4, "COWD" },
		{ "vmdk", 0, 21, "# Disk DescriptorFile" },
		{ "vhdx", 0, 8, "vhdxfile" },
		{ "vpc", 0, 8, "conectix" },
		{ "vdi", 64, 4, "\x7f\x10\xda\xbe" },
		{ "parallels", 0, 16, "WithoutFreeSpace" },
		{ "parallels", 0, 16, "WithouFreSpacExt" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(list); i++)
		if (n >= list[i].offset + list[i].len &&
		    !memcmp(head + list[i].offset, list[i].bytes, list[i].len))
			return list[i].name;
	return NULL;
}

const struct driver *registry_probe(struct file *f, struct qimg_error *e)
{
	const char *foreign;
	size_t n;
	const struct driver *d = NULL;
	uint8_t *head = mem_buffer(PROBE_BYTES, e);

	if (!head)
		return NULL;
	if (file_read(f, 0, head, PROBE_BYTES, e) < 0)
		goto out;
	n = min_u64(PROBE_BYTES, file_size(f));
	d = registry_probe_head(head, n, file_size(f));
	foreign = d == &raw_driver ? foreign_format(head, n) : NULL;
	if (foreign) {
		error_set(e, ENOTSUP, "It looks like an image of format '%s', which is not supported; give "
			  "the format 'raw' to take its bytes as they are", foreign);
		d = NULL;
	}
out:
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
