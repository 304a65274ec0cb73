/* SPDX-License-Identifier: BSD-2-Clause */
/* Writing the metadata of a new image, all of it at once and in large pieces. */
#ifndef QCOW2_FILL_H
#define QCOW2_FILL_H

#include <stdint.h>

struct file;
struct header;
struct layout;
struct qimg_error;
struct qimg_progress;

enum fill_mode { FILL_OFF, FILL_METADATA, FILL_FALLOC, FILL_FULL };

/*
 * Writes header and tables as l says into f, which is empty (or a device, whose content is replaced as
 * far as it could show). mode: what becomes of the data clusters that l maps. p may be NULL.
 */
int fill_write(struct file *f, const struct header *h, const struct layout *l, enum fill_mode mode,
	       const struct qimg_progress *p, struct qimg_error *e);
/* Makes f, which is empty, `size` bytes long, with space as mode says. Devices keep their size. */
int fill_data_file(struct file *f, uint64_t size, enum fill_mode mode, const struct qimg_progress *p,
		   struct qimg_error *e);

#endif
