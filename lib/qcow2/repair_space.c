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

static bool is_free(const struct check *c, uint64_t cluster)
{
	return !refmap_count(c->map, cluster) && !refmap_is(c->map, REFMAP_ORPHAN, cluster);
}

/* The last place on the device. */
static int find_on_device(struct check *c, uint64_t n, uint64_t *first, struct qimg_error *e)
{
	uint64_t run = 0, whole = file_size(c->q->file) >> c->q->cluster_bits;

	for (uint64_t at = min_u64(whole, c->space ? c->space : whole); at-- > 1; ) {
		run = is_free(c, at) ? run + 1 : 0;
		if (run == n) {
			*first = c->space = at;
			return 0;
		}
	}
	return error_set(e, ENOSPC, "'%s' has no room for %" PRIu64 " clusters in a row that the repair needs",
			 file_path(c->q->file), n);
}

int repair_find(struct check *c, uint64_t n, uint64_t *first, struct qimg_error *e)
{
	if (file_is_device(c->q->file)) {
		if (find_on_device(c, n, first, e) < 0)
			return -1;
	} else {
		*first = max_u64(max_u64(c->clusters, refmap_end(c->map)), c->space);
		c->space = *first + n;
	}
	return check_add(c, *first, n, 1, e);
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
