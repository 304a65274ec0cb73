/* SPDX-License-Identifier: BSD-2-Clause */
/* What a subcluster of an L2 entry is. */
#ifndef QCOW2_MAP_H
#define QCOW2_MAP_H

#include "image/driver.h"
#include "qcow2/entry.h"

struct qcow2;

/* sub: 0..31 with extended L2 entries, else 0. */
enum extent_kind map_sub_kind(const struct qcow2 *q, const struct entry *en, unsigned sub);

#endif
