// SPDX-License-Identifier: BSD-2-Clause
/*
 * The engine that does the I/O at once and keeps a clock that says how long a device of another kind
 * would have taken. Requests end in the order in which that device would have ended them. The clock moves on
 * when the owner waits for the next one, or asks for it again without having started anything meanwhile.
 *
 * The devices are made so that they explain figures that others have published, where that is their
 * source. In such figures guest data often costs a fixed time of the thread that runs the image, while
 * other requests hide what the device takes; loading a table is not hidden. So:
 *
 * - The owner does one thing at a time. Where a device says what a unit of guest data costs him, he is busy
 *   for so long, and whatever comes next starts behind it; nothing else that the processor does takes time.
 * - A table that he is to be told about (a request to the queue) is the device's work meanwhile.
 * - What is done to a file without the queue is metadata, too, and he waits for it: from the first
 *   request for a file on, a meter counts that.
 * - A sync takes its time also where FILE_NO_SYNC saves this machine the work.
 * - Files without a name (unnamed.h) are on a device of their own, a fast one, or in the page cache unless
 *   they are to pass by it.
 */
#include "io/ioq_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"

#define UNIT 4096
#define MOST_CHANNELS 16
#define BUFFERED 2

struct medium {
	unsigned channels;		/* requests that it works on at the same time */
	uint64_t access;		/* ns before a transfer that does not go on where the last one ended */
	uint64_t follow;		/* ns before one that does */
	uint64_t rate;			/* bytes a second and channel */
	uint64_t flush;			/* ns for a sync, in which nothing else is done */
	uint64_t again;			/* ns to read what was used just before; 0: like anything else */
};

struct device {
	const char *name;		/* of the engine */
	const char *source;
	uint64_t data;			/* ns of the owner's time for a unit of guest data; 0: the medium's */
	struct medium medium;
};

/* Where files without a name are. Nobody has published figures: an ordinary SSD of those years, and memory. */
static const struct medium fast = {
	.channels = 8, .access = 100000, .follow = 100000, .rate = 500000000,
}, memory = {
	.channels = MOST_CHANNELS, .access = 4000, .follow = 4000, .rate = UINT64_C(3276800000),
};

/* Figures about reading say nothing about flushes: there they are guesses. */
static const struct device devices[] = {
	{
		.name = "model=thin-2019",
		.source = "'qcow2: Fix the calculation of the maximum L2 cache size', qemu-block, July 2019: "
			  "500 and 16,000 random writes a second with two and three L2 tables; the parts "
			  "of the 6.6 ms of a miss are guesses",
		.data = 62500,
		.medium = { .channels = 8, .access = 50000, .follow = 50000, .rate = 260600000,
			    .flush = 6000000 },
	}, {
		.name = "model=ssd-2015",
		.source = "'Improving disk I/O performance in QEMU 2.5 with the qcow2 L2 cache': 5,100 to 63,600 "
			  "random reads a second by cache size, tables of 64 KiB",
		.data = 15720,
		.medium = { .channels = 8, .access = 53500, .follow = 53500, .rate = 260600000,
			    .flush = 1000000 },
	}, {
		.name = "model=ssd-2018",
		.source = "'qcow2: Default to 4KB for the qcow2 cache entry size', QEMU commit af39bd0d9a88: "
			  "2,718 to 57,355 random reads a second by cache size and by cache entry size, 40 GB",
		.data = 17900,
		.medium = { .channels = 8, .access = 147000, .follow = 147000, .rate = 225000000,
			    .flush = 1000000 },
	}, {
		.name = "model=hdd-2016",
		.source = "'Allow storing the qcow2 L2 cache in disk', qemu-devel, December 2016: 99 random and "
			  "21,000 sequential reads a second with all tables at hand, 49 and 14,000 with none",
		.medium = { .channels = 1, .access = 10052400, .follow = 0, .rate = 86050000,
			    .flush = 10000000, .again = 24000 },
	},
};

struct place {
	const struct file *file;
	uint64_t from, to;
};

struct ioq_meter {
	unsigned users;			/* files, and the model while there is one */
	struct model *model;		/* NULL: it is gone */
};

struct station {			/* a medium at work */
	const struct medium *medium;
	uint64_t channel[MOST_CHANNELS];	/* when each is free */
	struct place last;		/* the last transfer */
	struct place buffer[BUFFERED];	/* the last different ones, newest first */
};

struct model {
	const struct device *device;
	struct ioq_meter *meter;
	bool performing;		/* what the meter sees is a request's */
	bool asked;			/* in vain, and nothing was started since */
	uint64_t now;
	uint64_t owner;			/* until when the owner is busy */
	struct station station, fast, memory;
	struct ioq_io *first;		/* what runs, by due */
};

const char *ioq_model(unsigned i, const char **source)
{
	if (i >= ARRAY_SIZE(devices))
		return NULL;
	*source = devices[i].source;
	return devices[i].name;
}

static int model_open(struct ioq *q, const char *arg, struct qimg_error *e)
{
	struct model *m;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(devices); i++) {
		if (!strcmp(strchr(devices[i].name, '=') + 1, arg))
			break;
	}
	if (i == ARRAY_SIZE(devices))
		return error_set(e, EINVAL, "There is no model of a device '%s'", arg);
	m = mem_zalloc(sizeof(*m), e);
	if (!m)
		return -1;
	m->meter = mem_zalloc(sizeof(*m->meter), e);
	if (!m->meter) {
		free(m);
		return -1;
	}
	m->meter->users = 1;
	m->meter->model = m;
	m->device = &devices[i];
	m->station.medium = &m->device->medium;
	m->fast.medium = &fast;
	m->memory.medium = &memory;
	q->name = devices[i].name;
	q->state = m;
	return 0;
}

void ioq_meter_put(struct ioq_meter *meter)
{
	if (meter && !--meter->users)
		free(meter);
}

/* Puts the meter on a file, in the place of another model's. */
static void watch(struct model *m, struct file *f)
{
	if (f->meter == m->meter)
		return;
	ioq_meter_put(f->meter);
	f->meter = m->meter;
	m->meter->users++;
}

static void model_close(struct ioq *q)
{
	struct model *m = q->state;

	m->meter->model = NULL;
	ioq_meter_put(m->meter);
	free(m);
}

static struct station *station_of(struct model *m, const struct file *f)
{
	if (!f->unnamed)
		return &m->station;
	return f->flags & FILE_DIRECT ? &m->fast : &m->memory;
}

/* When what the owner starts now starts. */
static uint64_t start_time(const struct model *m)
{
	return max_u64(m->now, m->owner);
}

/* Whether the buffer has all of it. What is used moves to its front. */
static bool use_buffer(struct station *s, const struct place *p)
{
	unsigned i;
	bool has;

	for (i = 0; i < BUFFERED - 1; i++) {
		if (s->buffer[i].file == p->file && s->buffer[i].from <= p->from && p->to <= s->buffer[i].to)
			break;
	}
	has = s->buffer[i].file == p->file && s->buffer[i].from <= p->from && p->to <= s->buffer[i].to;
	memmove(&s->buffer[1], &s->buffer[0], i * sizeof(s->buffer[0]));
	s->buffer[0] = *p;
	return has;
}

/* Work of so many ns for the channel that is free first: when it ends. */
static uint64_t use_channel(const struct model *m, struct station *s, uint64_t ns)
{
	uint64_t *c = &s->channel[0];
	unsigned i;

	for (i = 1; i < s->medium->channels; i++) {
		if (s->channel[i] < *c)
			c = &s->channel[i];
	}
	*c = max_u64(*c, start_time(m)) + ns;
	return *c;
}

static uint64_t due_sync(const struct model *m, struct station *s)
{
	uint64_t end = start_time(m);
	unsigned i;

	for (i = 0; i < s->medium->channels; i++)
		end = max_u64(end, s->channel[i]);
	end += s->medium->flush;
	for (i = 0; i < s->medium->channels; i++)
		s->channel[i] = end;
	return end;
}

static uint64_t due_transfer(struct model *m, struct station *s, const struct ioq_req *r)
{
	const struct medium *d = s->medium;
	struct place p = { r->file, r->off, r->off + r->len };
	uint64_t ns = (uint64_t)((double)r->len * 1e9 / (double)d->rate);

	if (m->device->data && !(r->flags & IOQ_METADATA)) {
		m->owner = start_time(m) + m->device->data * div_up(r->len, UNIT);
		return m->owner;
	}
	if (d->again && use_buffer(s, &p) && r->op == IOQ_READ)
		return use_channel(m, s, d->again);
	ns += s->last.file == p.file && s->last.to == p.from ? d->follow : d->access;
	s->last = p;
	return use_channel(m, s, ns);
}

static uint64_t due(struct model *m, const struct ioq_req *r)
{
	struct station *s = station_of(m, r->file);

	switch (r->op) {
	case IOQ_READ:
	case IOQ_WRITE:
		return due_transfer(m, s, r);
	case IOQ_SYNC:
		return due_sync(m, s);
	case IOQ_ZERO:
	case IOQ_DISCARD:
		return use_channel(m, s, s->medium->access);
	}
	return m->now;
}

void ioq_meter_charge(struct ioq_meter *meter, struct file *f, enum file_op op, uint64_t off,
		      uint64_t len)
{
	static const enum ioq_op ops[] = {
		[FILE_OP_READ] = IOQ_READ,	[FILE_OP_WRITE] = IOQ_WRITE,
		[FILE_OP_ZERO] = IOQ_ZERO,	[FILE_OP_ALLOCATE] = IOQ_ZERO,
		[FILE_OP_PUNCH] = IOQ_DISCARD,	[FILE_OP_TRUNCATE] = IOQ_ZERO,
		[FILE_OP_SYNC] = IOQ_SYNC,
	};
	struct ioq_req r = { .op = ops[op], .file = f, .off = off, .len = len,
			     .flags = IOQ_METADATA };
	struct model *m = meter->model;

	if (!m || m->performing)
		return;
	m->now = m->owner = max_u64(start_time(m), due(m, &r));
}

static bool model_start(struct ioq *q, struct ioq_io *io)
{
	struct model *m = q->state;
	struct ioq_io **p = &m->first;

	m->asked = false;
	watch(m, io->req->file);
	m->performing = true;
	ioq_perform(io->req);
	m->performing = false;
	io->due = io->req->code ? m->now : due(m, io->req);
	while (*p && (*p)->due <= io->due)
		p = &(*p)->next;
	io->next = *p;
	*p = io;
	return true;
}

static void model_poll(struct ioq *q, bool wait)
{
	struct model *m = q->state;
	struct ioq_io *io = m->first;

	/* Who does not wait may have more to start at this time. */
	if (!wait && io->due > m->now && !m->asked) {
		m->asked = true;
		return;
	}
	m->asked = false;
	m->first = io->next;
	m->now = max_u64(m->now, io->due);
	ioq_finish(q, io);
}

const struct ioq_engine ioq_model_engine = {
	.name = "model=",
	.whole = true,
	.open = model_open,
	.close = model_close,
	.start = model_start,
	.poll = model_poll,
};

bool ioq_is_model(const struct ioq *q)
{
	return q->engine == &ioq_model_engine;
}

uint64_t ioq_model_now(const struct ioq *q)
{
	return ioq_is_model(q) ? ((struct model *)q->state)->now : 0;
}
