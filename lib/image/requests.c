// SPDX-License-Identifier: BSD-2-Clause
/*
 * What the images of a chain share for their requests: the loop, made when it is needed first, and the
 * lists. Event loops of users get at it with qimg_poll.
 */
#include "image/request_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"

enum { DEPTH = 256, PATIENCE = 16 };

static struct requests *make(struct qimg_image *img, struct qimg_error *e)
{
	const char *engine = img->aio ? img->aio : "sync";
	struct requests *rs = mem_zalloc(sizeof(*rs), e);

	if (!rs)
		return NULL;
	rs->loop = img->loop;
	rs->own_loop = !img->loop;
	if (rs->own_loop && loop_new(&rs->loop, engine, DEPTH, 0, e) < 0) {
		free(rs);
		return NULL;
	}
	rs->in_place = rs->own_loop && !strcmp(loop_engine(rs->loop), "sync");
	rs->ended_last = &rs->ended;
	rs->kick.call = turn_call;
	rs->deliver.call = request_deliver;
	rs->patience = PATIENCE;
	for (const struct qimg_image *i = img; i; i = i->backing)
		rs->patience += 2;
	return rs;
}

struct requests *requests_of(struct qimg_image *img, struct qimg_error *e)
{
	struct requests *rs = img->requests;

	image_tick(img);
	if (rs)
		return rs;
	for (struct qimg_image *i = img; i && !rs; i = i->backing)
		rs = i->requests;
	if (!rs)
		rs = make(img, e);
	for (struct qimg_image *i = img; rs && i && !i->requests; i = i->backing) {
		i->requests = rs;
		rs->refs++;
	}
	return rs;
}

static void drain(struct requests *rs)
{
	while (rs->count || rs->kicked || rs->delivering || rs->background)
		loop_step(rs->loop, true);
}

void requests_drain(struct qimg_image *img)
{
	for (; img; img = img->backing)
		if (img->requests)
			drain(img->requests);
}

void requests_put(struct qimg_image *img)
{
	struct requests *rs = img->requests;

	img->requests = NULL;
	if (!rs || --rs->refs)
		return;
	drain(rs);
	packed_free(rs);
	if (rs->own_loop)
		loop_free(rs->loop);
	free(rs);
}

struct loop *image_loop(struct qimg_image *img, struct qimg_error *e)
{
	struct requests *rs = requests_of(img, e);

	return rs ? rs->loop : NULL;
}

void image_set_loop(struct qimg_image *img, struct loop *l)
{
	for (struct qimg_image *i = img; i; i = i->backing) {
		struct requests *rs = i->requests;

		i->loop = l;
		if (!l)
			requests_put(i);
		if (!l || !rs || rs->loop == l)
			continue;
		drain(rs);
		if (rs->own_loop)
			loop_free(rs->loop);
		rs->loop = l;
		rs->own_loop = rs->in_place = false;
	}
}

unsigned request_count(const struct qimg_image *img)
{
	unsigned n = img->requests ? img->requests->count : 0;

	for (const struct qimg_io *io = img->failed; io; io = io->request)
		n++;
	return n;
}

/* Steps until nothing more is to be called, or something has completed. */
static void step(struct requests *rs, bool wait)
{
	uint64_t before = rs->delivered;

	while (rs->count && rs->delivered == before && loop_step(rs->loop, wait))
		;
	/* Nobody else looks at what has ended in the background. */
	if (!rs->count && rs->background)
		loop_step(rs->loop, false);
}

unsigned qimg_poll(struct qimg_image *img, bool wait)
{
	struct qimg_io *io;

	while ((io = img->failed)) {
		img->failed = io->request;
		io->request = NULL;
		wait = false;
		if (io->done)
			io->done(io);
	}
	image_tick(img);
	if (img->requests)
		step(img->requests, wait);
	return request_count(img);
}

int qimg_poll_fd(struct qimg_image *img)
{
	struct qimg_error ignored;
	struct loop *l = image_loop(img, &ignored);

	return l ? loop_fd(l) : -1;
}

int qimg_poll_timeout(struct qimg_image *img)
{
	const struct requests *rs = img->requests;

	if (img->failed || (rs && (rs->kicked || rs->delivering)))
		return 0;
	return image_tick_timeout(img);
}
