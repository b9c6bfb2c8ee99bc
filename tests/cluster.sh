#!/usr/bin/env bash
# Runs vit-embed --tar under real engines: Slurm (a controller and four nodes, all on this machine),
# Open MPI and GNU parallel. The test kills tasks and nodes while they work. The output must be
# complete, and must equal the output of a single process byte for byte.
#
#     bash tests/cluster.sh
#
# The script runs in its own namespaces. It therefore reaches only the loopback device, and its
# processes end when the script ends. The script needs root, and the packages of
# tools/install-packages.sh cluster.
cd "$(dirname "$0")/.." || exit 2
[ -n "${INSIDE-}" ] || INSIDE=1 exec timeout -k 5 "${LIMIT:-600}" \
    unshare --pid --net --uts --fork --kill-child --mount-proc bash "$0" "$@"
set -u
root=$PWD
export LC_ALL=C
. tests/built.sh tools/vit-embed tools/vit-search
. tests/checks.sh
hostname localhost
ip link set lo up
ip addr add 127.0.0.2/8 dev lo # without it, getaddrinfo refuses even 127.0.0.1
chmod 755 "$work"
: >"$work/out"
: >"$work/err"
cd "$work" || exit 2
shards=${SHARDS_COUNT:-200} tasks=4
export EMBED=$root/tools/vit-embed PARTS=$tasks
search=$root/tools/vit-search index=$root/examples/cluster/faiss_index.py
export SHARDS="$work/in/part-{00000..$(printf %05d $((shards - 1)))}.tar"

# --- shards of photos, one of them broken, and the output of one process --------------------------

room=$(($(stat -c %s "$root/examples/cat.ppm") - 6000))
mkdir in
for ((i = 0; i < shards; i++)); do
    mkdir s
    for k in 0 1 2 3 4 5 6 7; do # parts of the cat
        { echo 'P6 32 32 255' && tail -c +$((i * 1000 % room + k * 331 + 20)) \
            "$root/examples/cat.ppm" | head -c 3072; } >s/$k.ppm
        echo "photo $k of $i" >s/$k.txt
    done
    cp s/1.ppm s.ppm
    [ $((i % 10)) != 3 ] || echo broken >s/4.ppm
    tar --sort=name --mtime=@0 -cf "in/part-$(printf %05d "$i").tar" -C s .
    rm -r s
done
"$EMBED" --tar "$SHARDS" -o one 2>"$work/err" || fail "one process"
# Twice as many photos must take less than 1 MiB more at the peak. Both numbers of photos are large
# enough to fill the 2 MiB buffer of vectors and 500 KB of the buffer of metadata.
most_memory() { # ARCHIVE: prints the peak in KB
    local most=0 line
    "$EMBED" --tar "$1" -o memory --threads 2 2>/dev/null &
    while line=$(grep VmHWM "/proc/$!/status" 2>/dev/null); do
        most=${line//[!0-9]/}
        sleep 0.01
    done
    wait $! || fail "memory of $1"
    rm -r memory
    echo "$most"
}
mkdir m
size=$(stat -c %s s.ppm)
for ((i = 0; i < 14; i++)); do # 16,384 copies
    cat s.ppm s.ppm >more && mv more s.ppm
done
split -b "$size" -a 5 -d --additional-suffix=.ppm s.ppm m/
tar -cf many.tar -C m .
find m -name '*[13579].ppm' -delete
tar -cf few.tar -C m .
few=$(most_memory few.tar) many=$(most_memory many.tar)
echo "memory: $few KB for 8,192 photos, $many KB for 16,384"
if [ "$few" -gt 1000 ] && [ "$many" -lt $((few + 1024)) ]; then pass; else fail "memory grows"; fi
rm -r m s.ppm few.tar many.tar
same_as_one() { # FOLDER
    if "$EMBED" --collect "$1" "$SHARDS" >"$work/out" 2>"$work/err"; then pass; else fail "$1 is incomplete"; fi
    find "$1" -name '*.tmp-*' -delete # left by killed processes
    if diff -rq one/img_emb "$1/img_emb" >"$work/err" && diff -rq one/metadata "$1/metadata" >"$work/err"; then
        pass
    else fail "$1 has other bytes"; fi
}
done_in() { find "$1/stats" -name 'stats_*.json' 2>/dev/null | wc -l; }
wait_for() { # COUNT FOLDER: waits for COUNT shards
    for ((w = 0; w < 600; w++)); do
        [ "$(done_in "$2")" -lt "$1" ] || return 0
        sleep 0.05
    done
    fail "$(done_in "$2") shards in $2 after 30 s, expected $1"
}
# of VARIABLE: prints the ids of the processes whose environment contains this variable
of() { grep -lzs "$1" /proc/[0-9]*/environ | sed 's|/proc/||; s|/environ||'; }
embed_of() { # VARIABLE=VALUE: the first process; its decoders come later
    local pid
    for ((w = 0; w < 200; w++)); do
        for pid in $(of "$1" | sort -n); do
            [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = vit-embed ] && echo "$pid" && return
        done
        sleep 0.05
    done
}

# --- Slurm -----------------------------------------------------------------------------------------

mkdir -p state log spool/n{0,1,2,3}
export SLURM_CONF=$work/slurm.conf
cat >slurm.conf <<X
ClusterName=test
SlurmctldHost=localhost
SlurmctldPort=16817
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
AuthInfo=cred_expire=5
MailProg=/bin/true
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool/%n
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.%n.pid
SlurmctldLogFile=$work/log/slurmctld.log
SlurmdLogFile=$work/log/slurmd.%n.log
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
ReturnToService=2
KillWait=2
SlurmdTimeout=6
SchedulerParameters=batch_sched_delay=0,bf_interval=1,sched_interval=1
NodeName=n[0-3] NodeHostname=localhost NodeAddr=127.0.0.1 Port=17000-17003 CPUs=2
PartitionName=main Nodes=n[0-3] Default=YES MaxTime=INFINITE State=UP
X
slurmctld -D >/dev/null 2>&1 &
controller=$!
declare -a nodes
for i in 0 1 2 3; do
    slurmd -D -N n$i >/dev/null 2>&1 &
    nodes[i]=$!
done
for ((w = 0; w < 600; w++)); do
    [ "$(sinfo -h -t idle -o %D 2>/dev/null)" = 4 ] && break
    sleep 0.1
done
[ "$(sinfo -h -t idle -o %D 2>/dev/null)" = 4 ] || { fail 'Slurm is not up' && tail -n 20 log/*; }

submit() { # OPTION...: submits an array of all tasks, one per node
    OPTIONS='--threads 1' sbatch --parsable --mem-per-cpu=0 --exclusive --output="$work/task-%a.log" \
        "$@" "$root/examples/cluster/embed.sbatch"
}
until_idle() {
    for ((w = 0; w < 1800; w++)); do
        [ -n "$(squeue -h 2>/dev/null)" ] || return 0
        sleep 0.1
    done
    fail "the queue is not empty: $(squeue -h)"
}
signal() { # NAME: to all processes of the job
    local pid
    for pid in $(of "SLURM_ARRAY_JOB_ID=$job"); do kill -"$1" "$pid" 2>/dev/null; done
}
export OUT=$work/slurm
tried='sbatch'
job=$(submit --array=0-$((tasks - 1)))
wait_for 20 slurm
signal STOP # a stopped process cannot end before it is killed
kill -9 "$(embed_of SLURM_ARRAY_TASK_ID=2)" # a task: Slurm does not start it again
gone=$(embed_of SLURM_ARRAY_TASK_ID=1)
tr '\0' '\n' <"/proc/$gone/environ" >gone
node=$(sed -n 's/^SLURMD_NODENAME=n//p' gone)
# A whole node dies, and Slurm starts the task again on another node. The test kills slurmstepd
# first, because slurmstepd would report the end of the task.
for pid in $(pgrep -f "^slurmstepd: \\[$(sed -n 's/^SLURM_JOB_ID=//p' gone)\\.") "${nodes[$node]}"; do
    kill -9 "$pid"
done
for pid in $(of "SLURMD_NODENAME=n$node"); do kill -9 "$pid" 2>/dev/null; done
signal CONT
until_idle
if [ "$(done_in slurm)" -lt "$shards" ]; then pass; else fail 'nothing was missing: killed too late'; fi
if grep -q 'Restarts=[1-9]' <(scontrol -o show job "${job}_1"); then pass; else
    scontrol -o show job "$job" >"$work/err"
    fail 'the task of the dead node was not started again'
fi
slurmd -D -N "n$node" >/dev/null 2>&1 & # the node is back
nodes[node]=$!
submit --array=0-$((tasks - 1)) >/dev/null # the same again
until_idle
same_as_one slurm
# A task is started again while it still runs, so that two tasks write the same shards.
export OUT=$work/twice
submit --array=0-$((tasks - 1)) >/dev/null
wait_for 8 twice
scontrol requeue "$(squeue -h -t R -o %A | head -n 1)" 2>/dev/null
"$EMBED" --tar "$SHARDS" -o twice --part 0/$tasks 2>/dev/null # at the same time
until_idle
submit --array=0-$((tasks - 1)) >/dev/null
until_idle
same_as_one twice
# One srun starts all tasks.
tried='srun'
srun -n $tasks --overcommit "$EMBED" --tar "$SHARDS" -o "$work/srun" --part auto -t 1 2>"$work/err" ||
    fail "srun"
same_as_one srun
for log in "$work"/task-*.log; do
    if grep -q 'shards,' "$log"; then pass; else cp "$log" "$work/err" && fail "$log"; fi
done
scancel -u root
until_idle # with jobs left, slurmd would wait for the controller for ever
kill "$controller" "${nodes[@]}" 2>/dev/null
wait "$controller" "${nodes[@]}" 2>/dev/null

# --- Open MPI ---------------------------------------------------------------------------------------

tried='mpirun'
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_oob_tcp_if_include=lo \
    OMPI_MCA_btl=self,vader TMPDIR=$work
run_mpi() {
    mpirun --oversubscribe -n $tasks "$EMBED" --tar "$SHARDS" -o mpi --part auto -t 1
}
run_mpi >"$work/out" 2>"$work/err" &
launcher=$!
wait_for 20 mpi
kill -9 "$(embed_of OMPI_COMM_WORLD_RANK=2)"
if wait $launcher; then fail 'a rank was killed, and nobody noticed'; else pass; fi
if [ "$(done_in mpi)" -lt "$shards" ]; then pass; else fail 'nothing was missing: killed too late'; fi
run_mpi >"$work/out" 2>"$work/err" || fail 'the second run'
same_as_one mpi

# --- GNU parallel -------------------------------------------------------------------------------------

tried='parallel'
run_parallel() {
    seq $tasks | parallel -N0 -j $tasks --joblog log/parallel "$@" \
        "$EMBED --tar '$SHARDS' -o parallel --part auto --parts $tasks -t 1"
}
run_parallel >"$work/out" 2>"$work/err" &
launcher=$!
wait_for 20 parallel
kill -9 "$(embed_of PARALLEL_SEQ=3)"
if wait $launcher; then fail 'a job was killed, and nobody noticed'; else pass; fi
run_parallel --resume-failed >"$work/out" 2>"$work/err" || fail 'the second run'
same_as_one parallel

# --- an exact FAISS index over the shards has the results of vit-search ---------------------------

factories='Flat IVF4,Flat'
if ! /usr/bin/python3 -c 'import faiss' 2>"$work/err"; then
    skip 'an index of FAISS' 'no python3-faiss here'
    factories=
fi
"$EMBED" "$root/examples/cat.ppm" -o cat.npy 2>"$work/err" || fail "the cat"
"$search" one --vector cat.npy -k 50 2>"$work/err" | cut -c1-6 >expected
for factory in $factories; do
    if /usr/bin/python3 "$index" build one index.faiss $factory 2>"$work/err"; then pass; else fail "FAISS: $factory"; fi
    /usr/bin/python3 "$index" ask index.faiss cat.npy 50 2>"$work/err" | cut -c1-6 >found
    if [ -s found ]; then pass; else fail "$factory finds nothing"; fi
    if [ $factory != Flat ] || awk 'NR == FNR { a[NR] = $1; next } { d = a[FNR] - $1; if (d * d > 1e-7) bad = 1 }
            END { exit bad || FNR != 50 }' expected found; then pass; else fail "$factory: other cosines"; fi
done

summary
