// SPDX-License-Identifier: BSD-2-Clause
/*
 * Recorded requests.
 *
 * The share of writes is for all who want to know whether there are some; which requests write is the
 * recording's to say, unless it says it of none.
 */
#include "bench_replay.h"

#include "ui.h"

#define DEFAULT_SIZE (UINT64_C(1) << 30)
#define MIB (UINT64_C(1) << 20)

int bench_replay(const char *path, bool rw, struct qimg_workload *w)
{
	const struct qimg_recording_info *info;
	struct qimg_recording *r;
	struct qimg_error e;

	if (qimg_recording_load(&r, path, &e)) {
		ui_error("%s", e.msg);
		return -1;
	}
	w->order = QIMG_RECORDED;
	w->recording = r;
	info = qimg_recording_info(r);
	if (!info->reads && !info->writes)
		return 0;
	if (rw) {
		ui_error("'%s' says which requests are reads and which are writes: --rw is of no use", path);
		return -1;
	}
	w->write_percent = (unsigned)(100 * info->writes / info->requests);
	if (!w->write_percent && info->writes)
		w->write_percent = 1;
	return 0;
}

void bench_replay_free(struct qimg_workload *w)
{
	qimg_recording_free((struct qimg_recording *)w->recording);
	w->recording = NULL;
}

uint64_t bench_replay_size(const struct qimg_workload *w)
{
	uint64_t end = w->order == QIMG_RECORDED ? qimg_recording_info(w->recording)->end : 0;

	return end > DEFAULT_SIZE ? (end - 1) / MIB * MIB + MIB : DEFAULT_SIZE;
}
