/* SPDX-License-Identifier: BSD-2-Clause */
/* The extension area of the header: a list of type, length, data behind the fixed fields. */
#ifndef QCOW2_EXTENSION_H
#define QCOW2_EXTENSION_H

#include <stddef.h>
#include <stdint.h>

struct header;
struct qimg_error;

/*
 * Decodes and checks the extensions in buf[from, to) into h, whose fixed fields are there already.
 * Extensions that are not known are kept in h->ext.
 */
int extension_decode(struct header *h, const uint8_t *buf, uint32_t from, uint32_t to,
		     struct qimg_error *e);
/* The bytes extension_encode writes, the end mark included. */
uint64_t extension_need(const struct header *h);
/* Writes all extensions of h and the end mark to buf, which has extension_need bytes of zeros. */
void extension_encode(const struct header *h, uint8_t *buf);
/*
 * Changes the bitmaps extension in buf[from, to) to what h says, or takes it out when h has none and it is the last.
 * Returns the bytes that changed, *len of them; 0: nothing has.
 */
uint8_t *extension_update_bitmaps(const struct header *h, uint8_t *buf, uint32_t from, uint32_t to, size_t *len);
/*
 * Fails, naming the incompatible features in `bits`: by the feature name table in buf[from, to) as far
 * as it knows them, the others as a number. The area need not be sound otherwise.
 */
int extension_unsupported(const uint8_t *buf, uint32_t from, uint32_t to, uint64_t bits,
			  struct qimg_error *e);

#endif
