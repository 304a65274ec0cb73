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

#define BENCH_DEFAULT UINT64_MAX	/* a size that is not given */
#define BENCH_UNKNOWN UINT64_MAX	/* a number that the system does not tell */

/* An image that bench makes for itself and removes again. */
struct bench_scratch {
	const char *folder;		/* NULL: where temporary files belong */
	const char *format;		/* "qcow2", "raw" */
	uint64_t size;			/* of the disk, in bytes */
	uint64_t cluster_size;		/* 0: the format's default */
	const char *preallocation;	/* NULL: off */
	const char *preallocated_by;	/* the call that does so, NULL: not known; tells, asks for nothing */
	uint64_t extent_size_hint;	/* BENCH_DEFAULT: the format's default; what is asked for */
	const char *more;		/* creation options "a=b,c=d", or NULL */
};

/* What tells rows apart, as columns of a table. Word columns come behind those of numbers. */
enum bench_field {
	BENCH_LABEL, BENCH_CLUSTER, BENCH_HINT, BENCH_L2, BENCH_ENTRY, BENCH_REFCOUNT, BENCH_DEPTH,
	BENCH_METADATA_DEPTH, BENCH_FORMAT, BENCH_PREALLOCATION, BENCH_AIO, BENCH_OPTIONS, BENCH_FIELDS,
};

struct bench_case {
	const char *preset;		/* the name of the preset it belongs to, or NULL */
	const char *label;		/* what a preset calls this row, or NULL */
	double published;		/* requests a second that a thread tells, 0: none */
	const char *file;		/* the image; NULL: scratch is made */
	struct bench_scratch scratch;
	struct open_how how;
	const char *aio;		/* engine: "threads", "model=ssd-2015", ...; NULL: as opened */
	/* Open options; sizes in bytes, BENCH_DEFAULT: not given. */
	uint64_t l2_cache_size, l2_cache_entry_size, refcount_cache_size;
	unsigned metadata_depth;	/* 0: not given */
	const char *writeback;		/* metadata-writeback, or NULL */
	const char *more;		/* further open options "a=b,c=d", or NULL */
	bool cold;			/* the page cache has nothing of the image at first */
	struct qimg_workload work;	/* without image, progress, warmed, trace */
	bool keep;			/* runs that write share a scratch image, and alike cases, too */
	bool fill;			/* the whole disk is written first */
	const char *trace;		/* a file for the requests of the first run, or NULL */
	unsigned swept;			/* bits of fields: a list has several values of them */
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
	const char *format;
	const char *file_system;	/* that the image is on, "ext4"; NULL: not known */
	uint64_t size;			/* of the disk */
	uint32_t cluster_size;		/* 0: the format has none */
	uint64_t extent_size_hint;	/* of a scratch image's file; BENCH_DEFAULT: it has none */
	/* What the options came to; 0 where there is none. */
	uint64_t l2_cache_size, l2_cache_entry_size, refcount_cache_size;
	struct bench_cache *image;	/* top first */
	unsigned images;
	uint64_t resident;		/* bytes of memory that the process has */
	/* In the page cache behind the run, or BENCH_UNKNOWN; 0 where there is no such file. */
	uint64_t image_cached;		/* bytes of the image files */
	uint64_t cache_file_cached;	/* and of the second levels' */
	uint64_t cached_before;		/* of the image files when the warm-up had ended, or BENCH_UNKNOWN */
	uint64_t disk_read;		/* by this process since then, or BENCH_UNKNOWN */
	unsigned unallocated;		/* per cent of what is read that no disk is asked for */
	bool page_cache;		/* a warning: the page cache answered */
};

/* A case in which everything is as it is without options: the caller sets file, or scratch.size. */
void bench_case_init(struct bench_case *c);
/* Makes, fills, opens, warms up, runs, closes, removes. -1 after a message, with nothing left behind. */
int bench_measure(const struct bench_case *c, struct bench_row *row);
void bench_row_free(struct bench_row *row);
/* Says why there is no scratch image. name: NULL: it has not even a name. */
void bench_scratch_failed(const char *name, const struct qimg_error *e);

/* Measures case after case, says on a terminal how far it is. *done: rows filled, also on failure. */
int bench_measure_all(const struct bench_case *c, struct bench_row *row, unsigned n, unsigned *done);

/* Sums over the images of a row. */
uint64_t bench_metadata_reads(const struct bench_row *row);	/* from image files */
uint64_t bench_metadata_writes(const struct bench_row *row);
uint64_t bench_evictions(const struct bench_row *row);
uint64_t bench_cache_memory(const struct bench_row *row);	/* bytes in memory, of all caches */
bool bench_timed(const struct bench_row *row);			/* a device was asked: there are times */
double bench_hit_ratio(const struct bench_row *row);		/* L2 lookups that memory answers; below 0: none */
const char *bench_rw(const struct bench_case *c);		/* "randread", ... */

enum bench_form { BENCH_HUMAN, BENCH_JSON, BENCH_CSV };

/* What is sent, before it is. */
void bench_print_plan(const struct qimg_workload *w);
/* One row in sentences, several as a table; then warnings. */
void bench_report(const struct bench_row *rows, unsigned n, enum bench_form form);

/* Draws at least two rows. title: NULL: what was sent. -1 after a message. */
int bench_plot(const char *path, const char *title, const struct bench_row *rows, unsigned n);

#endif
