// SPDX-License-Identifier: BSD-2-Clause
/* Transfers of guest data and jobs for the CPU workers, as parts of a request. */
#include "image/request_priv.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/mem.h"

struct transfer {
	struct loop_io io;
	struct request *r;
	unsigned *grace;
	bool attempt;
};

unsigned *transfer_grace(struct qimg_image *img)
{
	unsigned *active = &img->grace.active[img->grace.parity];

	++*active;
	return active;
}

static void transfer_ended(struct loop_io *io)
{
	struct transfer *t = container(io, struct transfer, io);
	struct request *r = t->r;

	if (t->grace)
		--*t->grace;
	if (t->attempt && io->req.code == ENOTSUP)
		r->unsupported = true;
	else if (io->req.code)
		request_fail(r, &io->error);
	free(t);
	request_part_ended(r);
}

int transfer_start(struct request *r, const struct transfer_spec *s)
{
	struct transfer *t = mem_alloc(sizeof(*t), &r->io->error);

	if (!t)
		return -1;
	t->io.req = (struct ioq_req){ .op = s->op, .file = s->file, .off = s->off, .buf = s->buf,
				      .len = s->len, .flags = s->flags };
	t->io.done = transfer_ended;
	t->io.error.code = 0;
	t->r = r;
	t->grace = s->grace ? transfer_grace(s->grace) : NULL;
	t->attempt = s->attempt;
	request_part(r);
	loop_io(r->rs->loop, &t->io);
	return 0;
}

void transfer_job(struct request *r, struct loop_job *job)
{
	struct qimg_error ignored;
	bool alone = r->blocking && r->rs->count == 1;

	if (!r->rs->in_place && !alone && loop_job(r->rs->loop, job, &ignored) == 0)
		return;
	job->job.run(&job->job, JOB_OWNER);
	job->done(job);
}
