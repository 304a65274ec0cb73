/* SPDX-License-Identifier: BSD-2-Clause */
/* What the LUKS header of an encrypted image says about itself. No key is needed to see it. */
#ifndef QCOW2_LUKS_H
#define QCOW2_LUKS_H

struct qcow2;
struct qimg_error;
struct qimg_value;

/* Adds the members that info shows to `encrypt`, an object. */
int luks_info(struct qcow2 *q, struct qimg_value *encrypt, struct qimg_error *e);

#endif
