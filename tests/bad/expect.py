# SPDX-License-Identifier: BSD-2-Clause
"""Compares findings with what must and may be found.

A pattern is a finding (judge.py describes them) of which any part may be
missing; `kind` may be a list. leak, refcount and overlap are compared cluster by
cluster, so that it does not matter how runs of them are put together; any other
finding matches a pattern if it meets its place or what it points to."""
import re

CLUSTERS = ("leak", "refcount", "overlap")
# What a text must say for a detail of a pattern.
WORDS = {
    "unaligned": "align", "end": "beyond|end of|outside|within|can be there", "reserved": "reserved|offset 0",
    "both": "both", "nowhere": "without|no host|unallocated",
}


def kinds(pattern):
    return [pattern["kind"]] if isinstance(pattern["kind"], str) else list(pattern["kind"])


def meet(a, b):
    return a[0] < b[0] + max(b[1], 1) and b[0] < a[0] + max(a[1], 1)


def matches(pattern, got, cluster, words=False):
    if got["kind"] not in kinds(pattern):
        return False
    if pattern.get("host") and got.get("host"):
        places = [pattern["host"]] + ([[pattern["to"], cluster]] if pattern.get("to") is not None else [])
        if not any(meet(place, got["host"]) for place in places):
            return False
    if pattern.get("guest") and got.get("guest") and not meet(pattern["guest"], got["guest"]):
        return False
    if pattern.get("view") and got.get("view") and pattern["view"] != got["view"]:
        return False
    if pattern.get("detail") and got.get("detail"):
        if words:
            return bool(re.search(WORDS.get(pattern["detail"], ""), got["detail"], re.I))
        return pattern["detail"] == got["detail"]
    return True


def split(findings, cluster):
    """Runs of clusters as one finding each."""
    for f in findings:
        if f["kind"] in CLUSTERS and f.get("host"):
            off, n = f["host"]
            for at in range(off // cluster * cluster, off + n, cluster):
                yield {**f, "host": [at, cluster]}
        else:
            yield f


def differences(must, may, found, cluster, words=False):
    """Sentences that say what is missing and what is there too much."""
    found = list(split(found, cluster))
    wanted = [p for pattern in must for p in
              (split([pattern], cluster) if isinstance(pattern["kind"], str) else [pattern])]
    for p in wanted:
        if not any(matches(p, f, cluster, words) for f in found):
            yield f"missing: {p}"
    for f in found:
        if not any(matches(p, f, cluster, words) for p in wanted + may):
            yield f"not expected: {f}"
