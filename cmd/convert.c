// SPDX-License-Identifier: BSD-2-Clause
/* `qimg convert`: copies images into a new or an existing one. */
#include "commands.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "createopts.h"
#include "jsonprogress.h"
#include "likesource.h"
#include "open.h"
#include "ui.h"

enum {
	TARGET_IS_ZERO = 256, NO_SYNC, NO_CLOBBER, SALVAGE, TARGET_IMAGE_OPTS, BITMAPS, SKIP_BROKEN_BITMAPS,
	LIKE_SOURCE, VERIFY, LEVEL,
};

static const struct opt options[] = {
	{ .id = 'f', .letter = 'f', .name = "source-format", .aliases = "format", .kind = OPT_FORMAT,
	  .arg = "FORMAT", .help = "Format of all sources (default: found by content)" },
	{ .id = 'O', .letter = 'O', .name = "target-format", .kind = OPT_FORMAT, .arg = "FORMAT",
	  .help = "Format of the target (default: raw)" },
	{ .id = 'o', .letter = 'o', .name = "target-format-options", .aliases = "options",
	  .kind = OPT_CREATE, .arg = "LIST",
	  .help = "Options of the target's format: KEY=VALUE,...\n'-o help' lists them" },
	{ .id = 'B', .letter = 'B', .name = "backing", .aliases = "b", .kind = OPT_FILE,
	  .arg = "BACKING",
	  .help = "Backing file of the target: what the source has from its own\n"
		  "backing file is left out" },
	{ .id = 'F', .letter = 'F', .name = "backing-format", .kind = OPT_FORMAT, .arg = "FORMAT",
	  .help = "Format of the backing file" },
	{ .id = 'l', .letter = 'l', .name = "snapshot", .kind = OPT_TEXT, .arg = "SNAPSHOT",
	  .help = "Take an internal snapshot of the source: its name or ID, or\n"
		  "snapshot.id=ID,snapshot.name=NAME" },
	{ .id = 'n', .letter = 'n', .name = "no-create",
	  .help = "Write into the existing TARGET" },
	{ .id = TARGET_IS_ZERO, .name = "target-is-zero",
	  .help = "With -n: the target reads as zeros, so none need to be written" },
	{ .id = NO_CLOBBER, .name = "no-clobber", .help = "Fail when TARGET exists" },
	{ .id = LIKE_SOURCE, .name = "like-source",
	  .help = "Keep cluster size, version, refcount width, subclusters and\n"
		  "compression type of the (first) source" },
	{ .id = 'c', .letter = 'c', .name = "compress", .help = "Compress the clusters of the target" },
	{ .id = LEVEL, .name = "compression-level", .kind = OPT_NUMBER, .arg = "N", .min = 1, .max = 19,
	  .help = "1 (fast) to 9 (small) for zlib, to 19 for zstd" },
	{ .id = 'S', .letter = 'S', .name = "sparse-size", .kind = OPT_SIZE, .arg = "SIZE",
	  .help = "Runs of zeros this long become holes (default: 4k); 0: none" },
	{ .id = 't', .letter = 't', .name = "target-cache", .kind = OPT_CACHE, .arg = "CACHE",
	  .help = "Cache mode of the target (default: unsafe; one sync at the end)" },
	{ .id = 'T', .letter = 'T', .name = "source-cache", .kind = OPT_CACHE, .arg = "CACHE",
	  .help = "Cache mode of the sources (default: writeback)" },
	OPEN_OPT_IMAGE_OPTS,
	{ .id = TARGET_IMAGE_OPTS, .name = "target-image-opts",
	  .help = "TARGET, too, is a list of open options; needs -n" },
	OPEN_OPT_SHARE,
	{ .id = SALVAGE, .name = "salvage", .help = "What cannot be read becomes zeros" },
	{ .id = BITMAPS, .name = "bitmaps", .help = "Copy the persistent bitmaps of the source, too" },
	{ .id = SKIP_BROKEN_BITMAPS, .name = "skip-broken-bitmaps",
	  .help = "With --bitmaps: leave out those that are broken" },
	{ .id = VERIFY, .name = "verify", .help = "Read the target again and compare with the sources" },
	{ .id = NO_SYNC, .name = "no-sync",
	  .help = "Do not wait until the target is on stable storage" },
	{ .id = 'm', .letter = 'm', .name = "parallel", .kind = OPT_NUMBER, .arg = "N",
	  .min = 1, .max = 16,
	  .help = "Requests, and workers that compress, at a time: 1 to 16\n(default: as suits the machine)" },
	{ .id = 'W', .letter = 'W', .name = "oob-writes",
	  .help = "Write what is ready first: the layout may differ from run to run" },
	{ .id = 'C', .letter = 'C', .name = "copy-range-offloading",
	  .help = "Let the host copy where it can; not with -S, -c or --salvage" },
	{ .id = 'r', .letter = 'r', .name = "rate-limit", .kind = OPT_SIZE, .arg = "RATE",
	  .help = "Bytes written in a second at most (default: 0, no limit)" },
	{ .id = 'p', .letter = 'p', .name = "progress", .arg = "json[:FD]", .values = "json",
	  .help = "Show the progress, or write it as JSON lines" },
	{ .id = 'q', .letter = 'q', .name = "quiet", .help = "No progress, no warnings about the sources" },
	{ 0 }
};

static int close_all(struct qimg_image **sources, size_t count)
{
	struct qimg_error e;
	int ret = 0;

	for (size_t i = 0; i < count; i++) {
		if (qimg_close(sources[i], &e)) {
			ui_error("%s", e.msg);
			ret = -1;
		}
	}
	return ret;
}

/* The snapshots of an image stay behind: better known now than missed later. */
static void mention_snapshots(struct qimg_image *img)
{
	const struct qimg_value *snapshots;
	struct qimg_value *info;
	struct qimg_error e;
	size_t n;

	if (qimg_info(img, &info, &e))
		return;
	snapshots = qimg_value_get(info, "snapshots");
	n = snapshots ? qimg_value_count(snapshots) : 0;
	if (n)
		ui_warning("'%s' has %zu internal snapshot%s, which convert does not copy; "
			   "-l NAME takes one of them as the source", qimg_name(img), n,
			   n == 1 ? "" : "s");
	qimg_value_free(info);
}

/* Opens the sources; *count is how many of them are open. */
static int open_sources(const struct args *a, struct qimg_image **sources, size_t *count)
{
	const char *snapshot = args_text(a, 'l');
	struct open_how how;
	struct qimg_error e;
	size_t n = a->operand_count - 1;

	if (open_how(a, 'T', &how))
		return -1;
	if (snapshot && n > 1) {
		ui_error("No support for concatenating multiple snapshots: -l takes one source");
		return -1;
	}
	for (*count = 0; *count < n; (*count)++)
		if (open_image(a->operands[*count], &how, &sources[*count]))
			return -1;
	if (snapshot && qimg_load_snapshot(sources[0], snapshot, &e)) {
		ui_error("Failed to load snapshot: %s", e.msg);
		return -1;
	}
	for (size_t i = 0; !snapshot && !args_has(a, 'q') && i < n; i++)
		mention_snapshots(sources[i]);
	return 0;
}

/* Options that exclude or need each other, as far as the library does not know of them. */
static int check_options(const struct args *a)
{
	static const struct {
		int id, other;		/* is refused together with `other` */
		bool missing;		/* is refused without `other` */
		const char *text;
	} rules[] = {
		{ 'C', 'S', false, "Cannot enable copy offloading when -S is used" },
		{ 'C', 'c', false, "Cannot enable copy offloading when -c is used" },
		{ 'C', SALVAGE, false, "Cannot enable copy offloading when --salvage is used" },
		{ 'F', 'B', true, "-F is the format of the backing file that -B names; give both" },
		{ 'n', 'o', false, "-o has no effect on an existing target: leave it out, or leave out -n" },
		{ 'n', LIKE_SOURCE, false, "--like-source has no effect on an existing target: leave it out, or "
		  "leave out -n" },
		{ TARGET_IMAGE_OPTS, 'n', true, "--target-image-opts requires use of -n flag" },
		{ TARGET_IMAGE_OPTS, 'O', false, "-O is for plain names of targets: with --target-image-opts, "
		  "say driver=FORMAT" },
		{ LEVEL, 'c', true, "--compression-level is about compressing: give -c, too" },
		{ SKIP_BROKEN_BITMAPS, BITMAPS, true, "Use of --skip-broken-bitmaps requires --bitmaps" },
	};

	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		if (!args_has(a, rules[i].id) || args_has(a, rules[i].other) == rules[i].missing)
			continue;
		ui_error("%s", rules[i].text);
		return -1;
	}
	return 0;
}

static unsigned convert_flags(const struct args *a)
{
	static const struct {
		int id;
		unsigned flag;
	} map[] = {
		{ 'n', QIMG_CONVERT_NO_CREATE },
		{ 'c', QIMG_CONVERT_COMPRESS },
		{ TARGET_IS_ZERO, QIMG_CONVERT_TARGET_IS_ZERO },
		{ NO_SYNC, QIMG_CONVERT_NO_SYNC },
		{ NO_CLOBBER, QIMG_CONVERT_NO_CLOBBER },
		{ 'W', QIMG_CONVERT_ANY_ORDER },
		{ SALVAGE, QIMG_CONVERT_SALVAGE },
		{ 'C', QIMG_CONVERT_HOST_COPY },
		{ VERIFY, QIMG_CONVERT_VERIFY },
		{ BITMAPS, QIMG_CONVERT_BITMAPS },
		{ SKIP_BROKEN_BITMAPS, QIMG_CONVERT_SKIP_BROKEN_BITMAPS },
	};
	unsigned flags = 0;

	for (size_t i = 0; i < sizeof(map) / sizeof(map[0]); i++)
		if (args_has(a, map[i].id))
			flags |= map[i].flag;
	return flags;
}

/* -p, --progress=json, -q. -1 after a message. */
static int progress_open(const struct args *a, struct qimg_progress *p)
{
	const char *form = args_text(a, 'p');

	*p = (struct qimg_progress){ .report = ui_progress_report, .phase = ui_progress_phase,
				     .note = ui_progress_note };
	return form ? jsonprogress_open(form, p) : 0;
}

static void set_numbers(const struct args *a, struct qimg_convert *c)
{
	if (args_has(a, 'S'))
		c->sparse_size = args_last(a, 'S')->number;
	if (args_has(a, 'r'))
		c->rate = args_last(a, 'r')->number;
	if (args_has(a, 'm'))
		c->parallel = (unsigned)args_last(a, 'm')->number;
	if (args_has(a, LEVEL))
		c->compression_level = (int)args_last(a, LEVEL)->number;
}

/* The target by name, or as a list of open options, which are left in *open_opts. */
static int set_target(const struct args *a, struct qimg_convert *c, struct qimg_opts **open_opts)
{
	const char *target = a->operands[a->operand_count - 1];
	struct qimg_error e;

	if (!args_has(a, TARGET_IMAGE_OPTS)) {
		c->target = target;
		c->target_format = args_has(a, 'O') ? args_text(a, 'O') : "raw";
		return 0;
	}
	*open_opts = open_options(target, &e);
	c->open_opts = *open_opts;
	if (!*open_opts)
		open_failed(target, &e);
	return *open_opts ? 0 : -1;
}

static int convert_opened(const struct args *a, struct qimg_opts *opts, struct qimg_convert *c)
{
	struct qimg_error e;
	int ret;

	if (args_has(a, LIKE_SOURCE) && likesource_add(c->sources[0], c->target_format, opts))
		return -1;
	ui_progress_start(args_has(a, 'p') && !args_text(a, 'p') && !args_has(a, 'q'));
	ret = qimg_convert(c, &e);
	ui_progress_end(!ret);
	jsonprogress_end(ret ? e.msg : NULL);
	if (ret) {
		ui_error("%s", e.msg);
		if (c->target)
			createopts_suggest_format(&convert_command, a, 'B', opts, c->target, &e);
	}
	return ret;
}

static int convert(const struct args *a, struct qimg_opts *opts, struct qimg_image **sources)
{
	const char *cache = args_text(a, 't');
	struct qimg_opts *open_opts = NULL;
	struct qimg_progress progress;
	struct qimg_convert c;
	size_t count = 0;
	int ret = -1;

	qimg_convert_init(&c);
	if (open_cache(cache ? cache : "unsafe", &c.target_flags) || progress_open(a, &progress) ||
	    set_target(a, &c, &open_opts))
		goto out;
	/* From here on there may be something to clean up: signals only set the flag. */
	progress.cancel = ui_cancel_flag();
	if (!open_sources(a, sources, &count)) {
		c.sources = sources;
		c.source_count = count;
		c.create_opts = opts;
		c.progress = &progress;
		c.flags = convert_flags(a);
		set_numbers(a, &c);
		ret = convert_opened(a, opts, &c);
	}
	if (close_all(sources, count))
		ret = -1;
out:
	/* Where nothing has said how it ended, it ended before it began. */
	jsonprogress_end("The images could not be opened");
	qimg_opts_free(open_opts);
	return ret;
}

static int run(const struct args *a)
{
	struct qimg_image **sources = NULL;
	struct qimg_opts *opts = NULL;
	int ret = createopts_read(a, 'o', &opts);

	if (ret > 0) {
		const char *format = args_text(a, 'O');

		ret = createopts_help(format ? format : "raw", a->operand_count > 0);
	} else if (!ret && a->operand_count < 2) {
		ui_error("Expecting the names of a source and a target");
		opt_see_help(&convert_command);
		ret = -1;
	} else if (!ret) {
		ret = check_options(a);
		if (!ret)
			ret = createopts_set(opts, "backing_file", args_text(a, 'B'));
		if (!ret)
			ret = createopts_set(opts, "backing_fmt", args_text(a, 'F'));
		sources = calloc(a->operand_count, sizeof(*sources));
		if (!ret && !sources) {
			ui_error("Out of memory");
			ret = -1;
		}
		if (!ret)
			ret = convert(a, opts, sources);
	}
	free(sources);
	qimg_opts_free(opts);
	return ret ? 1 : 0;
}

const struct command convert_command = {
	.name = "convert",
	.summary = "Copy images into another format or place",
	.operands = "SOURCE... TARGET",
	.notes = "Several sources are put one behind the other. The target gets its name only when it is\n"
		 "complete and on stable storage; a failed or interrupted convert leaves the old file, or\n"
		 "none. With -n, and on block devices, the target is written in place.",
	.options = options,
	.run = run,
};
