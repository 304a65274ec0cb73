/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Repairing an image: clusters that one entry too many refers to. Each of these entries gets a copy of its own, so
 * that what it stands for reads as before.
 */
#ifndef QCOW2_REPAIR_APART_H
#define QCOW2_REPAIR_APART_H

#include <stdbool.h>
#include <stdint.h>

struct check;
struct check_table;
struct qimg_error;
struct repair_plan;

/* Whether guest data can be copied to another place, as it can not where its encryption depends on that. */
bool repair_can_copy(const struct check *c);
/* When refcounts were compared: what is to be copied. check_tables.c gives it the tables, one after the other. */
int repair_plan_begin(struct check *c, struct qimg_error *e);
int repair_plan_table(struct check *c, const struct check_table *t, const uint8_t *data, struct qimg_error *e);
void repair_plan_free(struct repair_plan *p);	/* NULL is allowed */
bool repair_has_plan(const struct check *c);
/* So many clusters are needed for it. */
uint64_t repair_apart_need(const struct check *c);
int repair_apart(struct check *c, struct qimg_error *e);

#endif
