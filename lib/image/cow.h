/* SPDX-License-Identifier: BSD-2-Clause */
/* What belongs around the data of a write that gets a new place. */
#ifndef IMAGE_COW_H
#define IMAGE_COW_H

#include "image/request_priv.h"

/* Whether a side is to be filled, and with what. A step. */
int cow_decide(struct request *r, const struct writer *w, struct side *s);
/* Starts clearing the sides where that is the way to fill them. */
int cow_clear(struct request *r, const struct writer *w);
/* With nothing pending: the sides that were cleared need nothing any more. */
void cow_cleared(const struct request *r, struct writer *w);

#endif
