// SPDX-License-Identifier: BSD-2-Clause
/*
 * Repairing an image: space for what is moved or written anew. A file is made longer, so that nothing that is in it
 * is overwritten, whoever may miss it; on a device what nothing refers to is used, from its end on.
 */
#include "qcow2/repair.h"

#include <errno.h>
#include <inttypes.h>

#include "base/bytes.h"
#include "base/error.h"
#include "io/file.h"
#include "qcow2/check.h"
#include "qcow2/qcow2.h"

static bool is_free(struct check *c, uint64_t cluster)
{
	uint64_t stored;
	struct qimg_error ignored;

	if (refmap_count(c->map, cluster) || refmap_is(c->map, REFMAP_ORPHAN, cluster))
		return false;
	/* What something that is lost may have owned counts as used. */
	return repair_frees(c) || (check_stored(c, cluster, &stored, &ignored) == 0 && !stored);
}

static int no_room(const struct check *c, uint64_t n, struct qimg_error *e)
{
	return error_set(e, ENOSPC, "'%s' has no room for %" PRIu64 " clusters in a row that the repair needs",
			 file_path(c->q->file), n);
}

/* The last place on the device that has `least` in a row; *n: how many there are, up to that. */
static int find_inside(struct check *c, uint64_t least, uint64_t *n, uint64_t *first, struct qimg_error *e)
{
	uint64_t whole = file_size(c->q->file) >> c->q->cluster_bits, run = 0, most = *n, skipped = 0;

	for (uint64_t at = min_u64(whole, c->space ? c->space : whole); at-- > 1; ) {
		bool free = is_free(c, at);

		run += free;
		if (free && run < most && at > 1)
			continue;
		if (run >= least) {
			*first = free ? at : at + 1;
			*n = run;
			/* Shorter pieces that were passed do for something else. */
			c->space = skipped ? skipped : *first;
			return 0;
		}
		if (run && !skipped)
			skipped = at + run + 1;
		run = 0;
	}
	return no_room(c, least, e);
}

/* Whether it can have refcounts: a refcount table has a largest size. */
static bool can_be_counted(const struct check *c, uint64_t end)
{
	return (end - 1) / repair_span(c) < HEADER_MAX_RT_BYTES / 8;
}

/* Where an entry points to what is missing, there will be nothing else: it would be read instead. */
static uint64_t behind_end(const struct check *c, uint64_t first, uint64_t n)
{
	for (uint64_t at = first; at < first + n && at < c->clusters + CHECK_BEHIND; at++)
		if (check_is_awaited(c, at))
			first = at + 1;
	return first;
}

static int find(struct check *c, uint64_t least, uint64_t *n, uint64_t *first, struct qimg_error *e)
{
	uint64_t end = max_u64(max_u64(c->clusters, refmap_end(c->map)), c->space);

	if (file_is_device(c->q->file) || !can_be_counted(c, end + *n)) {
		if (find_inside(c, least, n, first, e) < 0)
			return -1;
	} else {
		*first = behind_end(c, end, *n);
		c->space = *first + *n;
	}
	for (uint64_t at = *first; at < *first + *n; at = round_down(at, repair_span(c)) + repair_span(c))
		c->blockless |= !repair_has_block(c, at);
	return check_add(c, *first, *n, 1, e);
}

int repair_find(struct check *c, uint64_t n, uint64_t *first, struct qimg_error *e)
{
	return find(c, n, &n, first, e);
}

int repair_find_some(struct check *c, uint64_t *n, uint64_t *first, struct qimg_error *e)
{
	return find(c, 1, n, first, e);
}

int repair_reserve(struct check *c, struct qimg_error *e)
{
	return c->spare_left ? repair_find(c, c->spare_left, &c->spare, e) : 0;
}

int repair_take(struct check *c, uint64_t n, uint64_t *host, struct qimg_error *e)
{
	if (n > c->spare_left)
		return error_set(e, ENOSPC, "The repair of '%s' needs more clusters than were counted",
				 file_path(c->q->file));
	*host = c->spare << c->q->cluster_bits;
	c->spare += n;
	c->spare_left -= n;
	return 0;
}
