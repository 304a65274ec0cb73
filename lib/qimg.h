/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The public interface of libqimg: open, read, write, create and convert disk images.
 *
 * Conventions, unless a call says otherwise:
 * - Offsets, lengths and sizes are in bytes. They need no alignment.
 * - Functions that return int return 0 for success and -1 for failure, and then fill *e, which must
 *   not be NULL. They print nothing.
 * - Strings given to a call are copied where they are kept. Pointers returned as const belong to
 *   the object they came from and live as long as it.
 * - An image and everything reached through it may be used by one thread at a time; two images are
 *   independent of each other.
 */
#ifndef QIMG_H
#define QIMG_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Why a call failed. `code` is an errno value, `msg` one sentence without a final dot. */
struct qimg_error {
	int code;
	char msg[1020];
};

/* The version of the library, for example "0.1.0". */
const char *qimg_version(void);

/*
 * Warnings that do not make a call fail go to this handler, one sentence without a final dot. There
 * is one handler for the process, to be set before other calls; none is set at start (warnings are
 * dropped).
 */
void qimg_set_warning_handler(void (*handler)(void *ctx, const char *msg), void *ctx);

/* ---- options ------------------------------------------------------------------------------- */

/* An ordered list of key=value pairs; a later value of the same key replaces the earlier one. */
struct qimg_opts;

struct qimg_opts *qimg_opts_new(void);			/* NULL: out of memory */
void qimg_opts_free(struct qimg_opts *o);		/* NULL is allowed */
int qimg_opts_set(struct qimg_opts *o, const char *key, const char *value, struct qimg_error *e);
/*
 * Adds "a=1,b=2,flag,noflag": ",," is a literal comma, a bare name means "on", a bare "noname" means
 * "off" for name. Empty lists, empty keys, leading and trailing commas are errors.
 */
int qimg_opts_parse(struct qimg_opts *o, const char *list, struct qimg_error *e);
const char *qimg_opts_get(const struct qimg_opts *o, const char *key);	/* NULL: not there */

/*
 * Parses a size as the command line takes it: decimal or 0x hex, suffixes k M G T P E (powers of
 * 1024, either case) and b; a fraction only together with a suffix above b. At most 2^63-1.
 */
int qimg_parse_size(const char *text, uint64_t *size, struct qimg_error *e);

/* ---- values: what info and other queries answer ---------------------------------------------- */

/* A tree with the shape of a JSON document. Objects keep the order in which keys were added. */
struct qimg_value;

enum qimg_type { QIMG_NULL, QIMG_BOOL, QIMG_INT, QIMG_STRING, QIMG_LIST, QIMG_OBJECT };

void qimg_value_free(struct qimg_value *v);		/* the whole tree; NULL is allowed */
enum qimg_type qimg_value_type(const struct qimg_value *v);
bool qimg_value_bool(const struct qimg_value *v);	/* false for other types */
int64_t qimg_value_int(const struct qimg_value *v);	/* 0 for other types */
const char *qimg_value_string(const struct qimg_value *v);	/* "" for other types */
size_t qimg_value_count(const struct qimg_value *v);	/* members of a list or object, else 0 */
/* The i-th member of a list or object, and its key (NULL in lists). NULL beyond the end. */
const struct qimg_value *qimg_value_at(const struct qimg_value *v, size_t i, const char **key);
/* The member of an object with that key, or NULL (also when v is NULL or no object). */
const struct qimg_value *qimg_value_get(const struct qimg_value *v, const char *key);
/*
 * The tree as JSON text, indented by 4 spaces a level, one key a line, no newline at the end. The
 * caller frees it with free(). NULL: out of memory.
 */
char *qimg_value_json(const struct qimg_value *v);

/* ---- images ---------------------------------------------------------------------------------- */

struct qimg_image;

enum {					/* flags of qimg_open */
	QIMG_OPEN_WRITE = 1 << 0,	/* read and write; without it nothing is ever changed */
	QIMG_OPEN_SHARE = 1 << 1,	/* take no locks and ignore those of others; not with WRITE */
	QIMG_OPEN_NO_BACKING = 1 << 2,	/* leave the backing file alone; its data reads as zeros */
	QIMG_OPEN_HEADER_ONLY = 1 << 3,	/* for qimg_info: open no file that the image names */
	QIMG_OPEN_DIRECT = 1 << 4,	/* bypass the page cache (O_DIRECT) where the file system can */
	QIMG_OPEN_WRITETHROUGH = 1 << 5,	/* flush after every write */
	QIMG_OPEN_NO_FLUSH = 1 << 6,	/* ignore flushes ("unsafe") */
	QIMG_OPEN_UNMAP = 1 << 7,	/* pass discards on to the host ("discard=unmap") */
	QIMG_OPEN_CHECK = 1 << 8,	/* also open images marked corrupt or dirty for writing */
	QIMG_OPEN_EXTERNAL = 1 << 9,	/* follow json: and protocol references stored in images */
	QIMG_OPEN_ONCE = 1 << 10,	/* the disk is gone through once, in order: caches stay small */
};

/*
 * Opens the image `name` (a file or block device; "file:NAME" and "json:{...}" are understood too)
 * with its whole backing chain. `format` NULL means: probe. `opts` (or NULL) holds open options of the
 * format, with dots for nesting ("backing.driver"). With a name of NULL they name the file, as
 * "file.filename", and may name the format, as "driver". On success *img is to be closed with
 * qimg_close.
 */
int qimg_open(struct qimg_image **img, const char *name, const char *format,
	      const struct qimg_opts *opts, unsigned flags, struct qimg_error *e);
/* Flushes (when opened for writing), unlocks and frees, also when the flush fails. NULL is allowed. */
int qimg_close(struct qimg_image *img, struct qimg_error *e);
/*
 * Translates a cache mode ("none", "writeback", "writethrough", "directsync", "unsafe") into the
 * flags above. -1: unknown mode.
 */
int qimg_cache_flags(const char *mode, unsigned *flags);

const char *qimg_name(const struct qimg_image *img);	/* as given at open */
const char *qimg_format(const struct qimg_image *img);	/* "raw", "qcow2" */
bool qimg_was_probed(const struct qimg_image *img);	/* the format was not given */
uint64_t qimg_size(const struct qimg_image *img);	/* virtual size, a multiple of 512 */
uint32_t qimg_cluster_size(const struct qimg_image *img);	/* 0: the format has none */
/* The next lower image of the chain, owned by img, or NULL. */
struct qimg_image *qimg_backing(const struct qimg_image *img);
/* 1 when both are, or one's chain contains, the same host file (by device and inode), else 0. */
int qimg_same_file(const struct qimg_image *chain, const char *path);

/* Transfers of whole ranges; ranges beyond the end of the image are errors. */
int qimg_read(struct qimg_image *img, uint64_t off, void *buf, size_t len, struct qimg_error *e);
int qimg_write(struct qimg_image *img, uint64_t off, const void *buf, size_t len,
	       struct qimg_error *e);
/* Compresses and stores one cluster (off aligned; len a cluster, or up to the end of the image). */
int qimg_write_compressed(struct qimg_image *img, uint64_t off, const void *buf, size_t len,
			  struct qimg_error *e);

enum { QIMG_ZERO_UNMAP = 1 << 0 };	/* flag of qimg_zero: space may be given back */
int qimg_zero(struct qimg_image *img, uint64_t off, uint64_t len, unsigned flags,
	      struct qimg_error *e);
/* A hint: without QIMG_OPEN_UNMAP it does nothing. Ends are rounded inwards to whole clusters. */
int qimg_discard(struct qimg_image *img, uint64_t off, uint64_t len, struct qimg_error *e);
/* When it returns 0, all that was written before is on stable storage. */
int qimg_flush(struct qimg_image *img, struct qimg_error *e);
/* preallocation: "off", "metadata", "falloc" or "full"; only for growing. */
int qimg_resize(struct qimg_image *img, uint64_t size, const char *preallocation,
		struct qimg_error *e);

/* ---- asynchronous requests -------------------------------------------------------------------- */

enum qimg_io_op {
	QIMG_IO_READ,
	QIMG_IO_WRITE,
	QIMG_IO_WRITE_COMPRESSED,	/* as qimg_write_compressed */
	QIMG_IO_ZERO,			/* flags: QIMG_ZERO_UNMAP */
	QIMG_IO_DISCARD,
	QIMG_IO_FLUSH,			/* covers what completed before it was submitted */
};

/* One request. The caller fills the first part and keeps it, and buf, alive until done is called. */
struct qimg_io {
	enum qimg_io_op op;
	unsigned flags;
	uint64_t off, len;
	void *buf;
	/* Called from qimg_poll (or a blocking call on the image); may submit again. May be NULL. */
	void (*done)(struct qimg_io *io);
	void *user;			/* the caller's */

	/* Filled when done is called: 0, or an errno value and the error. */
	int code;
	struct qimg_error error;
	void *request;			/* the library's */
};

/* Starts a request; failures, too, arrive with done. Overlapping requests may complete in any order. */
void qimg_submit(struct qimg_image *img, struct qimg_io *io);
/*
 * Makes progress and calls done for what has completed. wait: blocks until something completes, if
 * anything is in flight. Returns the number of requests still in flight.
 */
unsigned qimg_poll(struct qimg_image *img, bool wait);
/* For an event loop: readable when qimg_poll has work. -1: requests complete at once, just poll. */
int qimg_poll_fd(struct qimg_image *img);
/* Milliseconds until qimg_poll wants to be called for a timer; -1: no timer. */
int qimg_poll_timeout(struct qimg_image *img);
/*
 * Asks for a request to be given up; done is called all the same, with ECANCELED if it was in time. A
 * write that was given up may have been carried out in part.
 */
void qimg_cancel(struct qimg_image *img, struct qimg_io *io);

enum qimg_kind { QIMG_HOLE, QIMG_ZERO, QIMG_DATA, QIMG_PACKED };

/* One run of a map: the longest that is alike from `start`, within what was asked. */
struct qimg_extent {
	uint64_t start, len;		/* guest range */
	enum qimg_kind kind;		/* HOLE: no image of the chain allocates it, reads zero */
	unsigned depth;			/* which image answers: 0 is the top */
	bool present;			/* some image of the chain allocates it */
	bool host_valid;		/* `host` says where the bytes are, or have their space reserved */
	bool plain;			/* with that: neither compressed nor encrypted */
	bool sparse;			/* DATA that was preallocated only: the file has a hole there */
	uint64_t host;			/* offset in the file `path` */
	const char *path;		/* NULL when host_valid is false */
};

/* Describes the run at `off`, at most `len` bytes long, through the whole chain. */
int qimg_map(struct qimg_image *img, uint64_t off, uint64_t len, struct qimg_extent *x,
	     struct qimg_error *e);

/*
 * What `info` shows: an object with the JSON keys of qemu-img's info. The caller frees it with
 * qimg_value_free.
 */
int qimg_info(struct qimg_image *img, struct qimg_value **info, struct qimg_error *e);
/*
 * A list of such objects, the top image (named as for qimg_open) first, each opened on its own and
 * closed again, so that a long chain needs few file descriptors. Loops and missing files are errors.
 */
int qimg_info_chain(const char *name, const char *format, const struct qimg_opts *opts,
		    unsigned flags, struct qimg_value **list, struct qimg_error *e);
/*
 * Makes a read-only image show the content of an internal snapshot: "NAME_OR_ID", or
 * "snapshot.id=ID,snapshot.name=NAME" (either or both). The size may change.
 */
int qimg_load_snapshot(struct qimg_image *img, const char *spec, struct qimg_error *e);

/* ---- metadata caches ------------------------------------------------------------------------- */

/* L2 caches whose size is not given have this much together, in each chain. */
#define QIMG_SHARED_CACHE (UINT64_C(32) << 20)

/*
 * How large the caches of a qcow2 image become by the open options, and what that covers. The caller
 * describes the image; all sizes are in bytes.
 */
struct qimg_cache_sizes {
	uint64_t size;			/* of the disk */
	uint32_t cluster_size;
	bool extended_l2;		/* L2 entries of 16 bytes instead of 8 */
	unsigned refcount_bits;		/* 1 to 64 */

	/* Filled in: what the image needs. */
	uint64_t l2_tables;		/* L2 tables, a cluster each, that the whole disk has */
	uint64_t l2_full;		/* all of them */
	uint64_t table_cover;		/* of the disk, by one table; a last, partial one counts whole */
	/* And what it gets. */
	uint64_t l2_size, l2_entry_size;	/* the first is a multiple of the second */
	uint64_t refcount_size;
	uint64_t l2_cover;		/* of the disk, at most all of it */
	uint64_t refcount_cover;	/* of the image file; INT64_MAX at most */
};

/*
 * opts (or NULL): l2-cache-size, l2-cache-entry-size, refcount-cache-size, cache-size, cache-rule; others
 * are not looked at.
 */
int qimg_cache_sizes(struct qimg_cache_sizes *s, const struct qimg_opts *opts, struct qimg_error *e);
/*
 * What the caches of one image are, what they cover and which options would be good: an object with the
 * keys of `qimg info --cache --output=json`, see qimg-info(1). Formats without caches have only
 * filename, format and virtual-size. An image that is open in full has also l2-cache-counters and, for
 * writing, refcount-cache-counters, with the names of struct qimg_cache_stats. The caller frees it with
 * qimg_value_free.
 */
int qimg_cache_info(struct qimg_image *img, struct qimg_value **info, struct qimg_error *e);
/* That of a chain, as qimg_info_chain. */
int qimg_cache_info_chain(const char *name, const char *format, const struct qimg_opts *opts,
			  unsigned flags, struct qimg_value **list, struct qimg_error *e);

enum qimg_cache { QIMG_CACHE_L2, QIMG_CACHE_REFCOUNT };

/* What a cache of metadata has done since its image was opened, and what it has now. */
struct qimg_cache_stats {
	uint64_t lookups;		/* hits and misses; a request may look more than once */
	uint64_t hits, misses;
	uint64_t loads;			/* misses of the same piece at the same time share one */
	uint64_t evictions;		/* pieces that made room for others */
	uint64_t expired;		/* pieces dropped by cache-clean-interval */
	uint64_t writebacks;
	uint64_t second_hits;		/* loads that the second level had (l2-cache-file) */
	uint64_t compact_hits;		/* misses without a load: memory had a compact form (l2-cache-compact) */
	uint64_t ram_bytes;		/* in memory now, pieces on their way included */
	uint64_t file_bytes;		/* in the second level now */
};

/*
 * The counters of one image; those of its chain are asked for with qimg_backing. false, and all 0, where
 * there is no such cache: other formats, refcounts of an image that is only read.
 */
bool qimg_cache_stats(struct qimg_image *img, enum qimg_cache which, struct qimg_cache_stats *s);

/* ---- long operations -------------------------------------------------------------------------- */

/* How a long operation reports and is stopped; each may be left out (NULL). */
struct qimg_progress {
	void (*report)(void *ctx, uint64_t done, uint64_t total);
	void *ctx;
	const volatile sig_atomic_t *cancel;	/* non-zero: stop, clean up, fail with ECANCELED */
	/* A part of the work begins ("copy", "sync", "verify"); what is reported counts anew. */
	void (*phase)(void *ctx, const char *phase);
	/* How the work is done, where that is not obvious: one sentence without a final dot. */
	void (*note)(void *ctx, const char *text);
};

/* ---- checking ---------------------------------------------------------------------------------- */

/* What can be wrong with an image. */
enum qimg_fault {
	QIMG_FAULT_LEAK,		/* a refcount above the number of references: lost space */
	QIMG_FAULT_REFCOUNT,		/* one below it: the cluster may be given away while it is used */
	QIMG_FAULT_OVERLAP,		/* metadata where other metadata is, or data */
	QIMG_FAULT_COPIED,		/* the COPIED bit of an entry does not go with the refcount */
	QIMG_FAULT_HEADER,		/* what the header refers to is not there */
	QIMG_FAULT_L1_ENTRY,
	QIMG_FAULT_L2_ENTRY,
	QIMG_FAULT_SUBCLUSTERS,		/* bitmaps of an extended L2 entry contradict themselves */
	QIMG_FAULT_PACKED,		/* a compressed cluster where none can be */
	QIMG_FAULT_DATA_FILE,		/* an offset in an external data file that is not the guest's */
	QIMG_FAULT_REFCOUNT_ENTRY,	/* of the refcount table */
	QIMG_FAULT_SNAPSHOT_TABLE,
	QIMG_FAULT_SNAPSHOT_L1,
	QIMG_FAULT_BITMAP_DIRECTORY,
	QIMG_FAULT_BITMAP_ENTRY,	/* of the table of a bitmap */
	QIMG_FAULT_CRYPT_HEADER,
	QIMG_FAULT_INFLATE,		/* QIMG_CHECK_DEEP: a compressed cluster that is none */
	QIMG_FAULT_DATA,		/* QIMG_CHECK_DEEP: a cluster that cannot be read */
	QIMG_FAULT_ORPHAN,		/* fixing leaks: one that looks like a lost L2 table, which is kept */
	QIMG_FAULT_UNREAD,		/* metadata that cannot be read: the check is not complete */
	QIMG_FAULTS
};

/* "leak", "l2-entry", ... */
const char *qimg_fault_name(enum qimg_fault fault);

struct qimg_finding {
	enum qimg_fault fault;
	bool has_host, has_guest;	/* whether these are known */
	uint64_t host, host_len;	/* in the image file */
	uint64_t guest, guest_len;	/* of the disk: what it touches (first) */
	const char *snapshot;		/* whose disk that is, NULL: the active one */
	uint64_t clusters;		/* LEAK, REFCOUNT: so many from host on, all with */
	uint64_t refcount, references;	/* these */
	bool fixed;			/* it is being mended */
	const char *text;		/* one sentence without a final dot; it lives until the call returns */
};

enum {					/* flags of struct qimg_check */
	QIMG_CHECK_DEEP = 1 << 0,	/* also reads all data and inflates what is compressed */
	/* The image is open for writing: mends refcounts that are too high, or also all else that can be. */
	QIMG_CHECK_FIX_LEAKS = 1 << 1,
	QIMG_CHECK_FIX_ALL = 1 << 2,
	/* With one of these: leaked clusters that look like lost L2 tables, and what they refer to, are freed, too. */
	QIMG_CHECK_DROP_ORPHANS = 1 << 3,
	/*
	 * With one of these: nothing is written. The repair is done all the same, in a temporary file that lies
	 * over the image until that is closed: a second check then finds what a repair would leave.
	 */
	QIMG_CHECK_DRY_RUN = 1 << 4,
};

struct qimg_check {
	unsigned flags;
	uint64_t memory;		/* for counting references, in bytes; 0: 512 MiB */
	/* Called for each finding, max_findings times for a kind; others are only counted. May be NULL. */
	void (*finding)(void *ctx, const struct qimg_finding *f);
	void *ctx;
	uint64_t max_findings;
	const struct qimg_progress *progress;	/* or NULL; in bytes of metadata (DEEP: and data) */
	const char *backup;		/* a file to be made, for qimg_check_undo; NULL: none */
};

struct qimg_check_result {
	uint64_t found[QIMG_FAULTS];	/* how often; leaks and refcounts by clusters */
	uint64_t corruptions, leaks;	/* sums: of all but LEAK, ORPHAN, UNREAD; LEAK */
	uint64_t errors;		/* UNREAD, and faults of a header for which the image does not open otherwise */
	uint64_t corruptions_fixed, leaks_fixed;	/* how many of these were mended */
	uint64_t leaked_bytes;
	uint64_t total_clusters;	/* of the disk */
	uint64_t allocated, fragmented, compressed;	/* of these: by the active tables */
	uint64_t image_end;		/* behind the last cluster in use, in bytes */
	unsigned passes;		/* over the tables: more than 1 where memory was too small for one */
	const char *leaks_held;		/* fixing: why leaked clusters are not freed, or NULL */
};

/*
 * Checks the metadata of an image, which should have been opened with QIMG_OPEN_CHECK; nothing is written but
 * for what is to be mended. After that, caches of the image may be out of date: close it, and check again.
 * Fails when it could not be carried out at all: ENOTSUP, the format has nothing to check.
 */
int qimg_check_run(struct qimg_image *img, const struct qimg_check *c, struct qimg_check_result *r,
		   struct qimg_error *e);
/*
 * Takes a repair back that was made with `backup`: the file of the image, which should have been opened with
 * QIMG_OPEN_CHECK and for writing, becomes what it was, byte by byte and in its length. *places: so many places were
 * put back. Refused where something else has changed the image since. When it fails half way, it can be done again. To
 * be closed afterwards: caches are out of date.
 */
int qimg_check_undo(struct qimg_image *img, const char *backup, uint64_t *places, struct qimg_error *e);

/* ---- creating --------------------------------------------------------------------------------- */

/* One creation option of a format, for -o help and completion. */
struct qimg_option {
	const char *name;
	const char *type;		/* "str", "size", "num", "bool (on/off)" */
	const char *help;		/* one line; NULL: known only to be refused by name */
	const char *values;		/* "a b c" where only these are allowed, else NULL */
};

/* The names of all formats, ended by NULL. */
const char *const *qimg_formats(void);
/* The creation options of a format, ended by a name of NULL; NULL: no such format. */
const struct qimg_option *qimg_create_options(const char *format);

enum {					/* flags of qimg_create_prepare */
	QIMG_CREATE_UNSAFE = 1 << 0,	/* do not open the backing file; the size must be given */
	QIMG_CREATE_NO_CLOBBER = 1 << 1,	/* an existing target is an error */
	QIMG_CREATE_NO_SYNC = 1 << 2,	/* do not wait for stable storage */
};

/* A checked plan for a new image. */
struct qimg_creation;

/*
 * Checks everything about a new image without touching the target: format, options (size included,
 * as "size"; "backing_file", "backing_fmt" too), backing file, target. When the backing format is
 * missing, the error names the one that was detected.
 */
int qimg_create_prepare(struct qimg_creation **c, const char *name, const char *format,
			const struct qimg_opts *opts, unsigned flags, struct qimg_error *e);
/* "fmt=qcow2 cluster_size=65536 ...": all options as resolved, in a fixed order. */
const char *qimg_create_summary(const struct qimg_creation *c);
/*
 * Writes the image: beside the target first, under its name only when complete (block devices: in
 * place). p may be NULL.
 */
int qimg_create_run(struct qimg_creation *c, const struct qimg_progress *p, struct qimg_error *e);
void qimg_create_free(struct qimg_creation *c);

/* ---- converting ------------------------------------------------------------------------------- */

enum {					/* flags of struct qimg_convert */
	QIMG_CONVERT_NO_CREATE = 1 << 0,	/* write into the existing target */
	QIMG_CONVERT_TARGET_IS_ZERO = 1 << 1,	/* with NO_CREATE: the target reads as zeros */
	QIMG_CONVERT_COMPRESS = 1 << 2,
	QIMG_CONVERT_NO_SYNC = 1 << 3,	/* do not wait for stable storage */
	QIMG_CONVERT_NO_CLOBBER = 1 << 4,	/* an existing target is an error */
	QIMG_CONVERT_ANY_ORDER = 1 << 5,	/* the layout may differ from run to run */
	QIMG_CONVERT_SALVAGE = 1 << 6,	/* sectors that can't be read become zeros */
	QIMG_CONVERT_HOST_COPY = 1 << 7,	/* have the host copy; blocks are shared without it, too */
	QIMG_CONVERT_VERIFY = 1 << 8,	/* read the target again and compare before it counts */
	QIMG_CONVERT_BITMAPS = 1 << 9,	/* the persistent bitmaps of the (only) source, too */
	QIMG_CONVERT_SKIP_BROKEN_BITMAPS = 1 << 10,	/* of those leave out what was not written back */
};

struct qimg_convert {
	struct qimg_image *const *sources;	/* concatenated; opened and closed by the caller */
	size_t source_count;
	const char *target;			/* NULL with NO_CREATE: open_opts have file.filename */
	const char *target_format;		/* NULL: "raw"; with NO_CREATE NULL means probe */
	const struct qimg_opts *create_opts;	/* or NULL; backing_file and backing_fmt in there */
	const struct qimg_opts *open_opts;	/* of the target, or NULL */
	unsigned target_flags;			/* QIMG_OPEN_* cache flags */
	unsigned flags;
	uint64_t sparse_size;			/* runs of zeros this long become holes; 0: none */
	uint64_t rate;				/* bytes written in a second at most; 0: no limit */
	unsigned parallel;			/* requests and workers at a time; 0: as suits the machine */
	int compression_level;			/* zlib: 1 to 9, zstd: 1 to 19; 0: the default */
	const struct qimg_progress *progress;	/* or NULL */
};

/* Fills in the defaults (sparse_size 4096). */
void qimg_convert_init(struct qimg_convert *c);
/*
 * Copies the sources into the target. The target gets its name only when it is complete and (without
 * NO_SYNC) on stable storage; on failure the old target, or none, is left.
 */
int qimg_convert(const struct qimg_convert *c, struct qimg_error *e);

/* ---- comparing -------------------------------------------------------------------------------- */

struct qimg_compare {
	struct qimg_image *a, *b;	/* two, though they may be of one file; nothing may be in flight on them */
	/* Their sizes, and which parts are allocated or known to be zeros, have to be alike, too. */
	bool strict;
	/*
	 * Called for each run of sectors of 512 bytes that differ, in their order: bytes of the disk. NULL: the
	 * comparison ends with the first.
	 */
	void (*differs)(void *ctx, uint64_t off, uint64_t len);
	void *ctx;
	const struct qimg_progress *progress;	/* or NULL; in bytes of the longer disk */
};

enum qimg_compare_verdict {
	QIMG_COMPARE_SAME,		/* a longer disk may go on with zeros, unless it is strict */
	QIMG_COMPARE_SIZE,		/* strict */
	QIMG_COMPARE_STATUS,		/* strict */
	QIMG_COMPARE_CONTENT,
};

/* What a comparison could not be carried out for. */
enum qimg_compare_failed {
	QIMG_COMPARE_OTHER, QIMG_COMPARE_MAP_A, QIMG_COMPARE_MAP_B, QIMG_COMPARE_READ_A, QIMG_COMPARE_READ_B,
};

struct qimg_compare_result {
	enum qimg_compare_verdict verdict;
	uint64_t offset;		/* STATUS: of the run; CONTENT: of the first byte that differs */
	bool sizes_differ;
	uint64_t compared;		/* bytes that were read from both: the others are equal as the metadata says */
	uint64_t differing;		/* with `differs`: bytes in all these sectors */
	enum qimg_compare_failed failed;
};

/* Compares what two disks read as. Fails when that could not be done: r->failed says where. */
int qimg_compare(const struct qimg_compare *how, struct qimg_compare_result *r, struct qimg_error *e);

/* ---- workloads -------------------------------------------------------------------------------- */

/*
 * Requests that something else has made, to be made again. A file has one of these forms, found by content:
 * - lines "OFFSET LENGTH", or all of them "OFFSET LENGTH r" or "... w": decimal or 0x hex, in bytes; empty
 *   lines and lines that start with # count for nothing;
 * - the iolog of fio, version 2 or 3: its lines "read" and "write";
 * - what blkparse prints: reads and writes. Of the events about one request one kind counts: those that
 *   queue it (Q) where there are any, else those that issue it (D), else those that complete it (C).
 * Takes 16 bytes of memory a request.
 */
struct qimg_recording;

struct qimg_recorded {
	uint64_t off, len;			/* in bytes; len is from 1 to QIMG_RECORDED_LONGEST */
	enum { QIMG_RECORDED_EITHER, QIMG_RECORDED_READ, QIMG_RECORDED_WRITE } op;	/* EITHER: not said */
};

#define QIMG_RECORDED_LONGEST (UINT64_C(64) << 20)
#define QIMG_RECORDED_MOST (UINT64_C(1) << 26)		/* requests in one recording */

struct qimg_recording_info {
	const char *form;			/* "list", "fio-2", "fio-3", "blkparse" */
	uint64_t requests;			/* at least 1 */
	uint64_t reads, writes;			/* of these; both 0: all are EITHER */
	uint64_t bytes;				/* sum of the lengths */
	uint64_t longest;			/* of one request */
	uint64_t end;				/* behind the request that ends last on the disk */
	uint64_t end_line;			/* of the file, where the first of these is */
};

/* Errors name the file, the line and what is wrong with it. Files without any request are errors, too. */
int qimg_recording_load(struct qimg_recording **r, const char *path, struct qimg_error *e);
void qimg_recording_free(struct qimg_recording *r);	/* NULL is allowed */
const struct qimg_recording_info *qimg_recording_info(const struct qimg_recording *r);
/* The i-th request; i is below the number of requests. */
void qimg_recording_get(const struct qimg_recording *r, uint64_t i, struct qimg_recorded *q);
/* That all of it is within a disk of so many bytes. The error names the line. */
int qimg_recording_fits(const struct qimg_recording *r, uint64_t size, struct qimg_error *e);

/*
 * Where the requests of a workload go. For AT_RANDOM and ZIPF the disk from `offset` on is divided into blocks
 * of `size` bytes; what is left behind the last whole one is never used.
 */
enum qimg_order {
	QIMG_IN_STEPS,			/* each `step` bytes behind the one before */
	QIMG_AT_RANDOM,			/* any block, all equally likely */
	/*
	 * The block that is k-th in popularity, from 1 on, with a probability proportional to k^-theta. Which
	 * block is which is a permutation of the blocks made from the seed, so that popular ones are
	 * neither neighbours nor at the start.
	 */
	QIMG_ZIPF,
	QIMG_RECORDED,			/* as `recording` says, which begins anew after its end */
};

/*
 * Requests on one image, `depth` of them in flight all the time: what `bench` measures.
 *
 * With a warm-up the first requests do not count: those that are so many, and those that are sent while so
 * much time has not passed. It is over when all of them have ended; `count` and `run_ns` begin there, with
 * requests that are sent from then on.
 *
 * What is requested depends on this struct and the size of the disk alone, not on how long things take.
 *
 * Time is that of the clock of this machine, or, when the image was opened with aio=model=NAME, that
 * of the model: then all times here and in the result are times that the model's device would have taken.
 */
struct qimg_workload {
	struct qimg_image *image;		/* opened and closed by the caller; nothing in flight */
	enum qimg_order order;
	unsigned write_percent;			/* 0: reads, 100: writes, else a mixture */
	uint64_t count;				/* requests; 0: none, unless run_ns is given */
	uint64_t run_ns;			/* starts none after this time; 0: no limit */
	uint64_t warm_count, warm_ns;		/* the warm-up's, which are sent before; both 0: none */
	unsigned depth;				/* >= 1 */
	uint64_t size;				/* of a request, in bytes, >= 1, not above the image's; not
						   for RECORDED */
	uint64_t step;				/* IN_STEPS: a request that would cross the end is at 0 */
	uint64_t offset;			/* of the first one; AT_RANDOM, ZIPF: nothing before it */
	uint64_t seed;				/* not IN_STEPS; mixtures: the same seed, the same requests */
	double theta;				/* ZIPF: > 0, at most 10; 1 is Zipf's law itself */
	const struct qimg_recording *recording;	/* RECORDED; where that does not say, write_percent does */
	uint8_t pattern;			/* what writes consist of */
	uint64_t flush_interval;		/* a flush after so many requests; 0: none */
	bool no_drain;				/* flushes do not wait until nothing is in flight */
	const struct qimg_progress *progress;	/* or NULL; report counts requests (or ns) */
	/*
	 * Each may be NULL. Called once, when all requests of the warm-up have ended and before any other is
	 * sent: what is known of the image may be looked at, and nothing else be done with it.
	 */
	void (*warmed)(void *ctx);
	/* For each request, of the warm-up, too, when it is submitted and in this order. */
	void (*trace)(void *ctx, uint64_t off, uint64_t len, bool write);
	void *ctx;
};

/*
 * Of the requests that were sent after the last one of the warm-up had ended: count of them, or those of run_ns.
 * Latencies are from the call of qimg_submit until done, in ns.
 */
struct qimg_workload_result {
	uint64_t requests, bytes;		/* that have completed */
	uint64_t ns;				/* from the end of the warm-up to the last one's end */
	uint64_t cpu_ns;			/* of the process, user and system, meanwhile */
	uint64_t mean, p50, p95, p99, p999, max;	/* percentiles exact to 2 % */
	uint64_t writes;			/* of the requests */
	uint64_t warm_requests, warm_ns;	/* what the warm-up has been */
	bool virtual_time;			/* a model's: all but cpu_ns */
};

/* Runs it. Fails with the first request that does, when all others have ended. */
int qimg_workload_run(const struct qimg_workload *w, struct qimg_workload_result *r,
		      struct qimg_error *e);

/* ---- what measuring needs to know of the host ------------------------------------------------- */

/*
 * What the open option "aio" may be, by number: "threads", "native", "io_uring", "sync" and models
 * ("model=NAME"), which do the I/O at once and count the time that another device would take; *source tells
 * what a model is made after, and is NULL for others. NULL behind the last one.
 */
const char *qimg_aio(unsigned i, const char **source);
/* Who a read of a byte would ask. */
enum qimg_source {
	QIMG_SOURCE_NONE,		/* nobody: metadata says that it is zero */
	QIMG_SOURCE_HOLE,		/* a file, which has a hole there, or reserved space without content */
	QIMG_SOURCE_DISK,
};

/* For the byte at off. What a file system does not tell counts as DISK. */
int qimg_source(struct qimg_image *img, uint64_t off, enum qimg_source *source, struct qimg_error *e);
/* Bytes of memory that this process has in use; 0: unknown. */
uint64_t qimg_resident(void);

enum qimg_file { QIMG_FILE_IMAGE, QIMG_FILE_CACHE };

/*
 * Bytes in the page cache of one image's own files (its data file included), or of the file of its second
 * level (l2-cache-file). false, and 0: there is no such file, or the system does not tell.
 */
bool qimg_cached(struct qimg_image *img, enum qimg_file which, uint64_t *bytes);
/* Bytes that this process has had read from disks so far, for files of any kind; false: not known. */
bool qimg_disk_read(uint64_t *bytes);
/* What of the image's own files is on stable storage need not be in the page cache any longer. */
void qimg_drop_cached(struct qimg_image *img);
/*
 * The name of a new, empty file that nobody else uses, in the folder (NULL: $TMPDIR, else /var/tmp); an image
 * can be created in its place. The caller frees it. NULL: error.
 */
char *qimg_scratch_new(const char *folder, const char *suffix, struct qimg_error *e);
void qimg_scratch_remove(const char *name);	/* errors are ignored */

/* The kind of file system that a file or folder is on: "ext4", "xfs". NULL: not known. */
const char *qimg_file_system(const char *path);

/* What a folder's file system does for new files. */
struct qimg_abilities {
	const char *file_system;	/* or NULL */
	bool reserves;			/* space, by fallocate: without it preallocation=falloc writes zeros */
	bool extent_size_hints;		/* such as XFS has */
	bool direct;			/* O_DIRECT; where it is missing a warning says so */
	const char *zeroes;		/* by what call, "FALLOC_FL_ZERO_RANGE", or "writing zeros" */
};

/* Finds out with a small file that is removed again; folder as for qimg_scratch_new. */
int qimg_abilities(const char *folder, struct qimg_abilities *x, struct qimg_error *e);

/* ---- how large an L2 cache has to be ----------------------------------------------------------- */

/*
 * How often L2 caches of each size would have had what the requests of a workload need: worked out without
 * an image and without I/O, from the numbers of the image and the requests alone. A request needs each slice
 * (entry of the cache) that its range touches once. That is what an image answers for reads one after the
 * other when all of its L2 tables exist; where some do not, less is looked up. Forms of tables that are kept
 * beside the cache (l2-cache-compact) are not part of it.
 *
 * A cache that drops what was not used for longest has all that was used again within as many different
 * slices as it has room for: that gives all sizes at once. The caches here use a clock instead, which comes
 * near to that but not always; caches of up to 64 sizes are followed to the letter in the same pass,
 * and then, in further passes, those around the sizes that qimg_reuse_need answers for 900, 950, 990 and
 * 1000. Between sizes that were followed the difference is interpolated.
 */
struct qimg_reuse;

struct qimg_reuse_info {
	uint64_t requests;			/* after the warm-up, as all that follows */
	uint64_t lookups;			/* of slices */
	uint64_t cold;				/* of these the first of a slice: no cache has it then */
	uint64_t touched;			/* different slices, of the warm-up, too: more room is no use */
	uint64_t slices;			/* that the disk has */
	uint64_t slice_size, slice_cover;	/* of one: in the cache, and of the disk */
};

/*
 * s is as qimg_cache_sizes leaves it; of its results l2_entry_size alone is used. Of w the image, depth,
 * run_ns, warm_ns and what concerns writes are not. count must not be 0.
 */
int qimg_reuse_new(struct qimg_reuse **r, const struct qimg_cache_sizes *s,
		   const struct qimg_workload *w, struct qimg_error *e);
void qimg_reuse_free(struct qimg_reuse *r);	/* NULL is allowed */
const struct qimg_reuse_info *qimg_reuse_info(const struct qimg_reuse *r);
/* Lookups that are hits with room for so many slices. *exact (or NULL): that size was followed. */
uint64_t qimg_reuse_hits(const struct qimg_reuse *r, uint64_t slices, bool *exact);
/* The same for a cache that drops what was not used for longest; always exact. */
uint64_t qimg_reuse_lru_hits(const struct qimg_reuse *r, uint64_t slices);
/*
 * The smallest number of slices, of those followed, with so many of a thousand of the hits that are possible
 * (lookups - cold), at least 2.
 */
uint64_t qimg_reuse_need(const struct qimg_reuse *r, unsigned per_mille);

/* ---- other files ------------------------------------------------------------------------------ */

/*
 * Writes a file that is no image: beside an old one first, under its name only when it is complete and on
 * stable storage. Block devices are refused.
 */
int qimg_save_file(const char *path, const void *data, size_t len, struct qimg_error *e);

#ifdef __cplusplus
}
#endif
#endif
