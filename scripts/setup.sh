#!/bin/sh
# Builds the virtual environment: sh scripts/setup.sh .venv   (called by make; PYTHON and TORCH_INDEX as in the Makefile).
#
# Every failure is one sentence and a non-zero exit; what pip said is in .venv/setup.log. The stamp .venv/.ready is
# written last and removed first, so a set-up that was interrupted is built anew by the same command.
set -u
cd "$(dirname "$0")/.." || exit 1

VENV=${1:-.venv}
PYTHON=${PYTHON:-python3}
TORCH_INDEX=${TORCH_INDEX:-}
NEEDED_GIB=3
STAMP=$VENV/.ready # its text is the torch index it was built with
LOG=$VENV/setup.log

fail() {
    echo "recombine set-up: $1" >&2
    exit 1
}

# What "$1" says its version is, or nothing where it does not run.
version_of() { "$1" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null; }
new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

# A finished .venv is kept if the torch index and the Python are the same as then, or not named now.
same_python() { [ "$PYTHON" = python3 ] || [ "$(version_of "$PYTHON")" = "$(version_of "$VENV/bin/python")" ]; }
keep=no
if [ -f "$STAMP" ]; then
    last=$(cat "$STAMP")
    if { [ -z "$TORCH_INDEX" ] || [ "$TORCH_INDEX" = "$last" ]; } && same_python; then
        TORCH_INDEX=$last
        newer=$(find pyproject.toml constraints.txt scripts/setup.sh -newer "$STAMP")
        [ -z "$newer" ] && exit 0 # nothing has changed since
        keep=yes # pip brings it up to date
    fi
fi

# Python: the one asked for; only where that was left to us, others are tried.
candidates=$PYTHON
[ "$PYTHON" = python3 ] && candidates="python3 python3.13 python3.12 python3.11"
chosen=
for candidate in $candidates; do
    if new_enough "$candidate"; then chosen=$candidate && break; fi
done
if [ -z "$chosen" ]; then
    found=$(version_of "$PYTHON")
    fail "Python 3.11 or newer is needed, but ${PYTHON} is ${found:-not there or does not run}; install one and name it: make setup PYTHON=/path/to/python3.12"
fi
"$chosen" -c 'import venv, ensurepip' >/dev/null 2>&1 ||
    fail "${chosen} ($(version_of "$chosen")) has no venv module; install it (on Debian and Ubuntu: apt-get install python3-venv) or name another Python: make setup PYTHON=/path/to/python"

free_kib=$(df -Pk . | awk 'NR == 2 { print $4 }')
if [ "$free_kib" -lt $((NEEDED_GIB * 1024 * 1024)) ]; then
    fail "only $((free_kib / 1024)) MiB are free on this disk and the set-up needs ${NEEDED_GIB} GiB (10 GiB with the CUDA build of torch); free some space and run the same command again"
fi

if [ "$keep" = yes ] && new_enough "$VENV/bin/python"; then
    rm -f "$STAMP"
    : >"$LOG"
    echo "recombine set-up: bringing $VENV up to date (log: $LOG)"
else
    rm -rf "$VENV" && mkdir -p "$VENV" || fail "cannot write the folder $VENV; check its permissions"
    echo "recombine set-up: building $VENV with Python $(version_of "$chosen"); a few minutes, once (log: $LOG)"
    "$chosen" -m venv "$VENV" >"$LOG" 2>&1 ||
        fail "${chosen} -m venv did not work ($(tail -n 1 "$LOG")); on Debian and Ubuntu: apt-get install python3-venv"
fi

# Runs pip; where it fails, its log decides what the one sentence is.
pip_install() {
    "$VENV/bin/python" -m pip --disable-pip-version-check --no-input install --retries 2 -c constraints.txt "$@" \
        >>"$LOG" 2>&1 && return
    if grep -q 'No space left on device' "$LOG"; then
        fail "the disk is full; free 10 GiB (or choose the small CPU build of torch, see TORCH_INDEX in the Makefile) and run the same command again"
    elif grep -qE 'NewConnectionError|ConnectTimeout|ReadTimeout|Read timed out|Connection refused|ConnectionReset|Connection aborted|name resolution|Network is unreachable|Max retries exceeded|ProxyError|SSLError|connection broken' "$LOG"; then
        fail "the packages could not be fetched; check the network (or the proxy and index settings of pip) and run the same command again (log: $LOG)"
    fi
    reason=$(grep '^ERROR' "$LOG" | grep -v ResolutionImpossible | tail -n 1) # that one only names a help page
    fail "pip could not install for Python $(version_of "$VENV/bin/python"): ${reason#ERROR: } (log: $LOG)"
}

export PIP_USER=0 # a virtual environment refuses --user installs, which some machines configure
# An index of torch has torch and the libraries of its build, but hardly the pinned versions of everything else: torch is
# taken from it alone, and what torch needs comes with the rest, from the usual index or, where only that has it, from it.
if [ -n "$TORCH_INDEX" ]; then
    pip_install --no-deps --index-url "$TORCH_INDEX" torch
    set -- --extra-index-url "$TORCH_INDEX"
else
    set --
fi
pip_install setuptools # pinned like the rest, hence no isolated build below
pip_install "$@" --no-build-isolation -e '.[dev]'
printf '%s\n' "$TORCH_INDEX" >"$STAMP"
echo "recombine set-up: done"
