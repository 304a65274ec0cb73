#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
#
# convert -p, -q and SIGUSR1.

load helpers

setup() {
	helpers_setup
	pattern_file in.raw 8M
}

@test '-p shows lines that end in a carriage return' {
	qimg convert -p -f raw -O qcow2 in.raw out.qcow2 >log
	contains "$(tr '\r' '\n' <log)" '    (0.00/100%)'
	contains "$(tr '\r' '\n' <log)" '    (25.00/100%)'
	equal "$(tail -c 18 log)" "$(printf '    (100.00/100%%)\r\n' | tail -c 18)"
}

@test 'without -p, or with -q, nothing is printed' {
	equal "$(qimg convert -f raw -O qcow2 in.raw out.qcow2 2>&1)" ''
	equal "$(qimg convert -p -q -f raw -O qcow2 in.raw out.qcow2 2>&1)" ''
}

@test '--progress=json: lines that parse, never go back, and end with the result' {
	need python3
	cat >judge.py <<'END'
import json, sys
lines = [json.loads(l) for l in open(sys.argv[1])]
done = {}
for l in lines[:-1]:
    if l["phase"] == "note":
        assert l["text"]
        continue
    assert l["phase"] in ("copy", "sync", "verify"), l
    assert 0 <= l["done"] <= l["total"] == 8 << 20, l
    assert l["done"] >= done.get(l["phase"], 0), l
    assert l["rate"] >= 0 and (l["eta"] is None or l["eta"] >= 0), l
    done[l["phase"]] = l["done"]
last = lines[-1]
assert last["phase"] == "end" and last["result"] == sys.argv[2], last
if last["result"] == "ok":
    assert done["copy"] == last["done"] == last["total"]
else:
    assert last["error"]
print(" ".join(sorted(done)))
END
	qimg convert --progress=json -f raw -O qcow2 in.raw out.qcow2 >log
	equal "$(python3 judge.py log ok)" 'copy sync'
	qimg convert --progress=json:5 --verify --no-sync -q -f raw -O qcow2 in.raw out.qcow2 5>log >out
	equal "$(python3 judge.py log ok)" 'copy verify'
	equal "$(cat out)" ''
	qimg convert --progress=json -r 16M -f raw -O raw in.raw out.raw >log
	[ "$(grep -c '"copy"' log)" -ge 4 ]
	python3 judge.py log ok
	mount_fs tmpfs 4M small
	fails qimg convert --progress=json -f raw -O raw in.raw small/out.raw
	python3 judge.py "$BATS_TEST_TMPDIR/stdout" failed
	fails qimg convert --progress=json -f raw -O raw nothing.raw out.raw
	equal "$(wc -l <"$BATS_TEST_TMPDIR/stdout")" 1
	python3 judge.py "$BATS_TEST_TMPDIR/stdout" failed
}

@test '--progress: wrong forms and descriptors' {
	local spec
	for spec in xml json: json:x json:-1 json:99 jsonx json:1x; do
		refused out.qcow2 qimg convert --progress=$spec -f raw -O qcow2 in.raw out.qcow2
	done
	qimg convert --progress -f raw -O qcow2 in.raw out.qcow2 >log
	contains "$(tr '\r' '\n' <log)" '(100.00/100%)'
}

@test '--progress=json: a reader that goes away stops nothing' {
	qimg convert --progress=json -r 40M -f raw -O qcow2 in.raw out.qcow2 | head -1 >log
	[ "${PIPESTATUS[0]}" -eq 0 ]
	same raw in.raw qcow2 out.qcow2
}

@test '-p says how an existing target was zeroed' {
	pattern_file t.raw 8M 2
	truncate -s 8M zeros.raw
	qimg convert -p -n -f raw -O raw zeros.raw t.raw >log
	contains "$(cat log)" 'Zeroed by '
	cmp zeros.raw t.raw
}
