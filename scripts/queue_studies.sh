#!/usr/bin/env bash
# Studies one after another on a machine that is lent for a while:
#
#     bash scripts/queue_studies.sh 3600 loud jepa-published my-study.yaml
#
# The queue works in the background and outlives the command, which waits for at most so many seconds, packs what is
# finished into $PACKED (default: packed/) and says how far it is: an archive per study (of one that is not finished, with
# the arms that are), and store.tar.gz, the store without weights. Given again, the same command waits on, or begins where
# the queue was stopped (to stop it: kill -- -$(cat runs/queue/pid)). On a new machine, put store.tar.gz back into packed/
# first: what it holds is not made again. Arms of generators that results/ has, in whole studies or in parts of some, are
# not either. It ends with 1 where a study failed, which is in its log in runs/queue.
#
# With LANES=2 two are at work at a time, each taking the next that waits: a study leaves a large GPU partly idle, where
# its kernels are small and while it judges (benchmarks/LOG.md says what that gains). On an NVIDIA GPU they take turns,
# unless its multi-process service is at work (`nvidia-cuda-mps-control -d`, which this script does not start, but says
# whether it is; give the same CUDA_MPS_PIPE_DIRECTORY to both, or none). The cores are divided between lanes
# (OMP_NUM_THREADS, where it is not set). A study given twice is shared out: two lanes take its arms in turn, and the
# second writes into runs/also, which is packed while the first has not finished. A lane with nothing left to take of a
# study does not wait for the other while another study waits: it takes that one, and comes back later.
#
# Run it in the root of the project, or of a copy without its history (then set RECOMBINE_COMMIT to the commit).
set -u
cd "$(dirname "$0")/.." || exit 1
if [ -z "${PYTHON:-}" ]; then # that of `make setup`, where it was made
    PYTHON=python3 && if [ -x .venv/bin/python ]; then PYTHON=$PWD/.venv/bin/python; fi
fi
LANES=${LANES:-1}
if [ $# -lt 2 ] || ! [ "$1" -ge 0 ] 2>/dev/null || ! [ "$LANES" -ge 1 ] 2>/dev/null; then
    echo "usage: [LANES=N] bash scripts/queue_studies.sh SECONDS STUDY... (a study is a name or a file; the same command goes on)" >&2
    exit 2
fi
wait_for=$1 && shift
if twice=$(printf '%s\n' "$@" | sort -u | sed 's|.*/||; s|\.yaml$||' | sort | uniq -d) && [ -n "$twice" ]; then
    echo "several of the studies are named $twice, and would be written into one folder: rename a file." >&2
    exit 2
fi
export PACKED=${PACKED:-packed} PYTHONPATH="$PWD/src" PYTHONUNBUFFERED=1
ends=$(($(date +%s) + wait_for))
mkdir -p runs/queue "$PACKED"

at_work() { # whether any process of its group is there, and is not one that has ended and waits to be collected
    local group
    [ -f runs/queue/pid ] && group=$(cat runs/queue/pid) && kill -0 -- "-$group" 2>/dev/null || return 1
    [ -r /proc/self/stat ] || return 0
    cat /proc/[0-9]*/stat 2>/dev/null | sed 's/^.*) //' | # state, parent, group
        awk -v group="$group" '$3 == group && $1 != "Z" { found = 1 } END { exit !found }'
}

next() { # the first study that waits, taken off the list; nothing when none does
    flock runs/queue/list.lock sh -c 'head -n 1 runs/queue/waiting && sed -i 1d runs/queue/waiting'
}

put_back() { flock runs/queue/list.lock sh -c 'echo "$1" >>runs/queue/waiting' put_back "$1"; }

lane() { # one study after another; each has a log, and a line in done.txt
    local study name out began code said n leave left=$'\n' reuse=()
    if compgen -G 'results/*/study.json' >/dev/null; then reuse=(--reuse results); fi
    while study=$(next) && [ -n "$study" ]; do
        grep -qxF "$study" runs/queue/whole && continue # finished in its own folder, by another lane
        name=$(basename "${study%.yaml}") out=runs/$name began=$(date +%s) n=1
        exec {held}>"runs/queue/$name.lock" # closed, and so let go of, when this lane is done with it
        until flock -n "$held"; do
            exec {held}>&-
            n=$((n + 1))
            exec {held}>"runs/queue/$name-$n.lock"
        done
        if [ $n -gt 1 ]; then out=runs/also/$name-$n name=$name-$n; fi
        leave=() # once per study and lane: with nothing else to do, it waits
        if [[ $left != *$'\n'"$study"$'\n'* ]] && grep -qvxF "$study" runs/queue/waiting; then leave=(--no-wait); fi
        "$PYTHON" -m recombine.cli run "$study" --out "$out" --store runs/store "${reuse[@]}" "${leave[@]}" \
            >>"runs/queue/$name.log" 2>&1
        code=$?
        exec {held}>&-
        case $code in
            0) said=finished && if [ $n -eq 1 ]; then echo "$study" >>runs/queue/whole; fi ;;
            75) said="left to another lane for now" && left+=$study$'\n' && put_back "$study" ;;
            *) said="stopped with code $code" && echo "$study" >>runs/queue/failed ;;
        esac
        echo "$name: $said after $(($(date +%s) - began)) s" >>runs/queue/done.txt
    done
}

work() { # all lanes, until no study waits
    for _ in $(seq "$LANES"); do lane & done
    wait
}

left() { sort -u runs/queue/given | grep -vxFf runs/queue/whole | grep -vxFf runs/queue/failed; }

start() {
    if [ ! -d runs/store ] && [ -f "$PACKED/store.tar.gz" ]; then tar xzf "$PACKED/store.tar.gz" -C runs || exit 1; fi
    : >runs/queue/done.txt && : >runs/queue/whole && : >runs/queue/failed
    printf '%s\n' "$@" | tee runs/queue/given >runs/queue/waiting
    if [ "$LANES" -gt 1 ] && [ -z "${OMP_NUM_THREADS:-}" ]; then
        cores=$(($(nproc) / LANES))
        export OMP_NUM_THREADS=$((cores > 0 ? cores : 1))
    fi
    export -f next put_back lane work
    export PYTHON LANES
    # A session of its own, so that it outlives this command and the shell that gave it.
    setsid nohup bash -c work >runs/queue/queue.log 2>&1 &
    echo $! >runs/queue/pid
    sleep 1
}

if at_work; then
    if [ "$(printf '%s\n' "$@")" != "$(cat runs/queue/given)" ]; then
        echo "a queue is at work on $(paste -sd' ' runs/queue/given): give these to wait for it, or stop it first" \
            "(kill -- -$(cat runs/queue/pid))." >&2
        exit 2
    fi
    for _ in 1 2 3; do # one that was just stopped needs a moment to end, and is then begun again
        if at_work && [ "$(date +%s)" -lt "$ends" ]; then sleep 1; fi
    done
    if ! at_work && [ -n "$(left)" ]; then start "$@"; fi
else
    start "$@"
fi
while at_work && [ "$(date +%s)" -lt "$ends" ]; do sleep 1; done

how_lanes_share() { # one sentence, where there is such a service
    command -v nvidia-cuda-mps-control >/dev/null || return
    if echo get_server_list | nvidia-cuda-mps-control 2>/dev/null | grep -qE '^ *[0-9]+'; then
        echo "The lanes use the GPU at the same time (multi-process service)."
    else
        echo "The lanes take turns on the GPU: nvidia-cuda-mps-control -d, given before the queue, lets them use it at the same time."
    fi
}

arms_of() { grep -c '"members_at_once"' "$@"; } # finished ones: each has this line in study.json
# Whole or not at all: an archive that a kill cut short must not replace a good one. tar ends with 1 where a folder changed
# while it was read, as the store's does when a lane saves an arm; each file in it appears whole or not at all.
pack() {
    tar czf "$PACKED/.$1.partial" "${@:2}" || [ $? -eq 1 ] || { rm -f "$PACKED/.$1.partial" && return 1; }
    mv "$PACKED/.$1.partial" "$PACKED/$1.tar.gz"
}
[ -d runs/store ] && pack store --exclude='weights-*' --exclude='*.work' --exclude='.*' -C runs store
while read -r study; do
    name=$(basename "${study%.yaml}") && from=""
    for facts in "runs/$name/study.json" "runs/also/$name"-*/study.json; do # a second lane may finish it, or have more
        folder=$(dirname "$facts") && copy=${folder##*/}
        if [ "$folder" != "runs/$name" ] && ! [[ ${copy#"$name-"} =~ ^[0-9]+$ ]]; then continue; fi
        [ -f "$facts" ] || continue
        if [ -z "$from" ] || [ "$(arms_of "$facts")" -gt "$(arms_of "$from/study.json")" ]; then from=$folder; fi
    done
    [ -n "$from" ] || continue
    # study.json first: of a study at work the tables may then have more arms than it names, and never fewer.
    as_own=$(mktemp -d) && mkdir "$as_own/$name" && cp "$from/study.json" "$as_own/$name" &&
        (set -o pipefail && tar c -C "$from" --exclude=./study.json --exclude=./report.html --exclude=./store \
            --exclude='*.partial' . | tar x -C "$as_own/$name")
    copied=$? packed=$(tar xzOf "$PACKED/$name.tar.gz" "$name/study.json" 2>/dev/null | arms_of)
    if [ $copied -ne 0 ]; then
        echo "$name: could not be copied to be packed" >&2
    elif [ "$(arms_of "$as_own/$name/study.json")" -ge "$packed" ]; then # an earlier queue may have packed more
        pack "$name" -C "$as_own" "$name"
    fi
    rm -rf "$as_own"
done < <(sort -u runs/queue/given)
pack logs -C runs queue
cat runs/queue/done.txt
if at_work && [ "$LANES" -gt 1 ]; then how_lanes_share; fi
failed=$(sed -n 's/: stopped with code .*//p' runs/queue/done.txt | sort -u)
for name in $failed $(ls -t runs/queue/*.log | head -n "$LANES" | sed 's|.*/||; s|\.log$||'); do
    echo "--- runs/queue/$name.log" && tail -n 12 "runs/queue/$name.log"
done
if at_work; then echo "The queue goes on; the same command waits for it." && exit 0; fi
if [ -n "$(left)" ]; then
    echo "The queue was stopped; not finished: $(left | paste -sd' '). The same command goes on." && exit 1
fi
if [ -n "$failed" ]; then echo "The queue is done, but for what failed: $(paste -sd' ' <<<"$failed")." && exit 1; fi
echo "The queue is done."
