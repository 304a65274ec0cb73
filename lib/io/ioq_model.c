// SPDX-License-Identifier: BSD-2-Clause
/*
 * The engine that does the I/O at once and keeps a clock that says how long a device of another kind
 * would have taken. Requests end in the order in which that device would have ended them, and the clock
 * moves on with each one that is reaped; what the processor does takes no time.
 *
 * The devices are made so that they explain figures that others have published, where that is their
 * source. In such figures guest data often costs a fixed time of the thread that runs the image, while
 * other requests hide what the device takes; loading a table is not hidden.
 *
 * What is done to a file without the queue is metadata, and the owner waits for it: from the first
 * request for a file on, a meter counts that, too.
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

struct device {
	const char *name;		/* of the engine */
	const char *source;
	unsigned channels;		/* requests that it works on at the same time */
	uint64_t access;		/* ns before a transfer that does not go on where the last one ended */
	uint64_t follow;		/* ns before one that does */
	uint64_t rate;			/* bytes a second and channel */
	uint64_t flush;			/* ns for a sync, in which nothing else is done */
	uint64_t again;			/* ns to read what was used just before; 0: like anything else */
	uint64_t data;			/* ns of the owner's time for a unit of guest data; 0: see above */
};

/* Figures about reading say nothing about flushes: there they are guesses. */
static const struct device devices[] = {
	{
		.name = "model=thin-2019",
		.source = "'qcow2: Fix the calculation of the maximum L2 cache size', qemu-block, July 2019: "
			  "500 and 16,000 random writes a second with two and three L2 tables; the parts "
			  "of the 6.6 ms of a miss are guesses",
		.channels = 8, .access = 50000, .follow = 50000, .rate = 260600000, .flush = 6000000,
		.data = 62500,
	}, {
		.name = "model=ssd-2015",
		.source = "'Improving disk I/O performance in QEMU 2.5 with the qcow2 L2 cache': 5,100 to 63,600 "
			  "random reads a second by cache size, tables of 64 KiB",
		.channels = 8, .access = 53500, .follow = 53500, .rate = 260600000, .flush = 1000000,
		.data = 15720,
	}, {
		.name = "model=ssd-2018",
		.source = "2,718 to 57,355 random reads a second by cache size and by cache entry size, 40 GB",
		.channels = 8, .access = 147000, .follow = 147000, .rate = 225000000, .flush = 1000000,
		.data = 17900,
	}, {
		.name = "model=hdd-2016",
		.source = "'Allow storing the qcow2 L2 cache in disk', qemu-devel, December 2016: 99 random and "
			  "21,000 sequential reads a second with all tables at hand, 49 and 14,000 with none",
		.channels = 1, .access = 10052400, .follow = 0, .rate = 86050000, .flush = 10000000,
		.again = 24000,
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

struct model {
	const struct device *device;
	struct ioq_meter *meter;
	bool performing;		/* what the meter sees is a request's */
	uint64_t now;
	uint64_t owner;			/* until when the owner is busy */
	uint64_t channel[MOST_CHANNELS];
	struct place last;		/* the last transfer */
	struct place buffer[BUFFERED];	/* the last different ones, newest first */
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

/* Whether the buffer has all of it. What is used moves to its front. */
static bool use_buffer(struct model *m, const struct place *p)
{
	unsigned i;
	bool has;

	for (i = 0; i < BUFFERED - 1; i++) {
		if (m->buffer[i].file == p->file && m->buffer[i].from <= p->from && p->to <= m->buffer[i].to)
			break;
	}
	has = m->buffer[i].file == p->file && m->buffer[i].from <= p->from && p->to <= m->buffer[i].to;
	memmove(&m->buffer[1], &m->buffer[0], i * sizeof(m->buffer[0]));
	m->buffer[0] = *p;
	return has;
}

/* Work of so many ns for the channel that is free first: when it ends. */
static uint64_t use_channel(struct model *m, uint64_t ns)
{
	uint64_t *c = &m->channel[0];
	unsigned i;

	for (i = 1; i < m->device->channels; i++) {
		if (m->channel[i] < *c)
			c = &m->channel[i];
	}
	*c = max_u64(*c, m->now) + ns;
	return *c;
}

static uint64_t due_sync(struct model *m)
{
	uint64_t end = max_u64(m->now, m->owner);
	unsigned i;

	for (i = 0; i < m->device->channels; i++)
		end = max_u64(end, m->channel[i]);
	end += m->device->flush;
	for (i = 0; i < m->device->channels; i++)
		m->channel[i] = end;
	return end;
}

static uint64_t due_transfer(struct model *m, const struct ioq_req *r)
{
	const struct device *d = m->device;
	struct place p = { r->file, r->off, r->off + r->len };
	uint64_t ns = (uint64_t)((double)r->len * 1e9 / (double)d->rate);

	if (d->data && !(r->flags & IOQ_METADATA)) {
		m->owner = max_u64(m->owner, m->now) + d->data * div_up(r->len, UNIT);
		return m->owner;
	}
	if (d->again && use_buffer(m, &p) && r->op == IOQ_READ)
		return use_channel(m, d->again);
	ns += m->last.file == p.file && m->last.to == p.from ? d->follow : d->access;
	m->last = p;
	return use_channel(m, ns);
}

static uint64_t due(struct model *m, const struct ioq_req *r)
{
	switch (r->op) {
	case IOQ_READ:
	case IOQ_WRITE:
		return due_transfer(m, r);
	case IOQ_SYNC:
		return r->file->flags & FILE_NO_SYNC ? m->now : due_sync(m);
	case IOQ_ZERO:
	case IOQ_DISCARD:
		return use_channel(m, m->device->access);
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
	m->now = max_u64(m->now, due(m, &r));
	m->owner = max_u64(m->owner, m->now);
}

static bool model_start(struct ioq *q, struct ioq_io *io)
{
	struct model *m = q->state;
	struct ioq_io **p = &m->first;

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

	(void)wait;
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

uint64_t ioq_model_now(const struct ioq *q)
{
	return q->engine == &ioq_model_engine ? ((struct model *)q->state)->now : 0;
}
