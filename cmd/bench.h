/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the parts of `qimg bench` have in common.
 *
 * A case says what is to be measured, a row what was seen. A sweep makes cases out of lists, a preset out of
 * a published table; both give them to bench_measure, and the rows to a report or a plot.
 */
#ifndef CMD_BENCH_H
#define CMD_BENCH_H

#include "open.h"

/* An image that bench makes for itself and removes again. */
struct bench_scratch {
	const char *folder;		/* NULL: where temporary files belong */
	const char *format;		/* "qcow2", "raw" */
	uint64_t size;			/* of the disk, in bytes */
	uint64_t cluster_size;		/* 0: the format's default */
	const char *preallocation;	/* NULL: off */
	uint64_t extent_size_hint;	/* BENCH_DEFAULT: the format's default */
	const char *more;		/* creation options "a=b,c=d", or NULL */
};

#define BENCH_DEFAULT UINT64_MAX	/* a size that is not given */

struct bench_case {
	const char *preset;		/* the name of the preset it belongs to, or NULL */
	const char *label;		/* what a preset calls this row, or NULL */
	const char *file;		/* the image; NULL: scratch is made */
	struct bench_scratch scratch;
	struct open_how how;
	const char *aio;		/* engine: "threads", "model=ssd-2015", ...; NULL: as opened */
	/* Open options; sizes in bytes, BENCH_DEFAULT: not given. */
	uint64_t l2_cache_size, l2_cache_entry_size, refcount_cache_size;
	unsigned metadata_depth;	/* 0: not given */
	const char *more;		/* further open options "a=b,c=d", or NULL */
	struct qimg_workload work;	/* without image and progress */
	bool fill;			/* the whole disk is written first */
	unsigned runs;			/* at least 1; the row is that of the median */
};

struct bench_cache {			/* of one image, since the end of the warm-up */
	bool has_l2, has_refcount;
	struct qimg_cache_stats l2, refcount;
};

struct bench_row {
	struct bench_case c;
	struct qimg_workload_result result;	/* of the run with the median of requests a second */
	double iops, iops_least, iops_most;	/* median and spread of the runs */
	/* What the options came to; 0 where there is none. */
	uint64_t l2_cache_size, l2_cache_entry_size, refcount_cache_size;
	struct bench_cache *image;	/* top first */
	unsigned images;
	uint64_t resident;		/* bytes of memory that the process has */
	uint64_t image_cached;		/* bytes of the image files in the page cache */
	uint64_t cache_file_cached;	/* and of the second level's file */
	bool unallocated;		/* a warning: much of what was read is not there */
	bool page_cache;		/* a warning: the page cache answered */
};

/* Makes, fills, opens, warms up, runs, closes, removes. -1 after a message, with nothing left behind. */
int bench_measure(const struct bench_case *c, struct bench_row *row);
void bench_row_free(struct bench_row *row);

#endif
