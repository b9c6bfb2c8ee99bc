/* plan.c - how long so many photos take on so many machines, what that costs, and what is lost when
 * machines fail: a simulation of embed --tar, for planning.md. Nothing but libc:
 *
 *     cc -O2 examples/cluster/plan.c -lm -o plan && ./plan --machines 100,1000 --mtbf 24
 *
 * A machine takes one shard after the other. It fails at a random moment, on average every `mtbf`
 * hours (exponentially distributed). Then its work on the shard is lost, the shard goes to whoever
 * is free, and the machine returns after `repair` hours. Some machines are slow. Not simulated: a
 * scheduler's delays beyond `start`, and a network or a bucket that all of them share.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct plan {
    double images, kilobytes;      /* how many, and the size of a file              */
    double cores, rate;            /* of a machine; images a second of a core       */
    double start;                  /* seconds before the first image of a shard     */
    double mtbf, repair;           /* hours                                         */
    double slow, speed;            /* share of slow machines; their rate beside others' */
    double price;                  /* of a machine for an hour                      */
    double dim, bytes, text;       /* of a row: numbers, bytes of each, of metadata */
    double seed;
    const char *machines, *shard;  /* lists                                         */
} plan;

typedef struct outcome {
    double end, lost, busy;        /* seconds: of the last shard; of all machines   */
    long failures;
} outcome;

/* === Random numbers: SplitMix64 (Steele, Lea, Flood, 2014) === */

static double uniform(uint64_t *state) /* above 0, up to 1 */
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (double)((z ^ z >> 31) >> 11) / 9007199254740992.0 + 0x1p-53;
}

/* === Events: when each machine has something to do next, the earliest first (a binary heap) === */

typedef enum state { READY, DONE, FAILED } state;

typedef struct event {
    double time, began;
    int machine;
    state what;
} event;

typedef struct events {
    event *heap;           /* one for each machine at most */
    int count;
} events;

static void push(events *e, event added)
{
    int i = e->count++;
    for (; i > 0 && e->heap[(i - 1) / 2].time > added.time; i = (i - 1) / 2)
        e->heap[i] = e->heap[(i - 1) / 2];
    e->heap[i] = added;
}

static event pop(events *e)
{
    const event first = e->heap[0], last = e->heap[--e->count];
    int i = 0, child;
    while ((child = 2 * i + 1) < e->count) {
        if (child + 1 < e->count && e->heap[child + 1].time < e->heap[child].time) child++;
        if (last.time <= e->heap[child].time) break;
        e->heap[i] = e->heap[child];
        i = child;
    }
    e->heap[i] = last;
    return first;
}

/* === Simulation === */

typedef struct cluster {
    const plan *plan;
    double shard;          /* images */
    int machines;
    long waiting;          /* shards that nobody has */
    events events;
    int *idle, num_idle;   /* machines without a shard */
    uint64_t random;
    outcome outcome;
} cluster;

static void take_shard(cluster *c, int machine, double now)
{
    const plan *p = c->plan;
    const double speed = machine + 1 <= p->slow * c->machines ? p->speed : 1;
    const double work = p->start + c->shard / (p->cores * p->rate * speed);
    const double fails = -log(uniform(&c->random)) * p->mtbf * 3600;
    event next = { now + work, now, machine, DONE };
    if (fails < work) {
        next.time = now + fails;
        next.what = FAILED;
    }
    c->waiting--;
    push(&c->events, next);
}

static void happen(cluster *c, event e)
{
    const plan *p = c->plan;
    outcome *o = &c->outcome;
    if (e.what != READY) o->busy += e.time - e.began;
    if (e.what == DONE) o->end = e.time;
    if (e.what == FAILED) {
        event back = { e.time + p->repair * 3600, 0, e.machine, READY };
        o->lost += e.time - e.began;
        o->failures++;
        c->waiting++;
        push(&c->events, back);
        if (c->num_idle) take_shard(c, c->idle[--c->num_idle], e.time);
    } else if (c->waiting) {
        take_shard(c, e.machine, e.time);
    } else {
        c->idle[c->num_idle++] = e.machine;
    }
}

static int simulate(const plan *p, int machines, double shard, outcome *o)
{
    cluster c;
    int i;
    memset(&c, 0, sizeof c);
    c.plan = p;
    c.shard = shard;
    c.machines = machines;
    c.waiting = (long)ceil(p->images / shard);
    c.random = (uint64_t)p->seed;
    c.events.heap = malloc((size_t)machines * sizeof *c.events.heap);
    c.idle = malloc((size_t)machines * sizeof *c.idle);
    if (c.events.heap && c.idle) {
        for (i = 0; i < machines; i++) {
            event first = { 0, 0, i, READY };
            push(&c.events, first);
        }
        while (c.events.count) happen(&c, pop(&c.events));
    }
    i = c.events.heap && c.idle;
    free(c.events.heap);
    free(c.idle);
    *o = c.outcome;
    return i;
}

/* How much work is done in vain, as a share of what is needed: a shard of d seconds takes
 * m (e^(d/m) - 1) on average if a machine fails every m seconds. Of machines that are not slow. */
static double expected_loss(const plan *p, double shard)
{
    const double d = p->start + shard / (p->cores * p->rate), m = p->mtbf * 3600;
    return m * expm1(d / m) / d - 1;
}

static int print_row(const plan *p, int machines, double shard)
{
    outcome o;
    double need;
    if (!simulate(p, machines, shard, &o)) {
        fprintf(stderr, "plan: out of memory\n");
        return 1;
    }
    need = o.busy - o.lost;
    printf("%8d %9.0f %8.0f %8.1f %10.0f %9.0f %9ld %9.3f %9.3f\n", machines, shard,
           ceil(p->images / shard), o.end / 3600, o.end / 3600 * machines,
           o.end / 3600 * machines * p->price, o.failures, 100 * o.lost / need,
           100 * expected_loss(p, shard));
    return 0;
}

/* === Command line === */

typedef struct option {
    const char *name, *help;
    double *value;
} option;

static int usage(const option *options, const plan *p, FILE *to)
{
    fprintf(to,
            "usage: plan [--machines N,N...] [--shard IMAGES,...] [--NAME NUMBER...]\n"
            "Simulates embed --tar on a cluster: a row for each number of machines and size of\n"
            "shard (%s; %s).\n\n",
            p->machines, p->shard);
    for (; options->name; options++)
        fprintf(to, "  --%-10s %s (%g)\n", options->name, options->help, *options->value);
    return to == stderr ? 2 : 0;
}

/* The number at the start of a list, which goes on after it; 0: not one, or out of range. */
static double next_number(const char **list, double most)
{
    char *end;
    const double value = strtod(*list, &end);
    if (end == *list || (*end && *end != ',') || !(value >= 1 && value <= most)) return 0;
    *list = *end ? end + 1 : end;
    return floor(value);
}

static int print_rows(const plan *p)
{
    const char *machines, *shards;
    printf("images in: %.1f TB; rows: %.1f GB; metadata: %.1f GB\n\n",
           p->images * p->kilobytes / 1e9, p->images * p->dim * p->bytes / 1e9,
           p->images * p->text / 1e9);
    printf("machines     shard   shards    hours  machine-h      cost  failures  redone %%  "
           "expected\n");
    for (machines = p->machines; *machines;) {
        const int n = (int)next_number(&machines, 1e6);
        for (shards = p->shard; *shards;) {
            const double shard = next_number(&shards, 1e9);
            if (!n || !(shard > 0) || p->images / shard > 1e8) {
                fprintf(stderr,
                        "plan: expected lists of numbers, --machines 1..1000000 and --shard "
                        "1..1000000000, and at most 100,000,000 shards; found %s and %s\n",
                        p->machines, p->shard);
                return 2;
            }
            if (print_row(p, n, shard)) return 1;
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    plan p = { 1e9, 100, 16, 60, 2, 720, 0.5, 0.02, 0.5, 0.5, 192, 4, 150, 1, "100,1000",
               "1000,10000,100000" };
    const option options[] = {
        { "images", "photos in all", &p.images },
        { "kilobytes", "of a photo's file", &p.kilobytes },
        { "cores", "of a machine", &p.cores },
        { "rate", "images a second of a core, decoding included", &p.rate },
        { "start", "seconds to start a shard", &p.start },
        { "mtbf", "hours between two failures of a machine", &p.mtbf },
        { "repair", "hours until it is back", &p.repair },
        { "slow", "share of machines that are slow", &p.slow },
        { "speed", "of those, as a share of the others'", &p.speed },
        { "price", "of a machine for an hour", &p.price },
        { "dim", "numbers in a row", &p.dim },
        { "bytes", "of a number: 4, or 2 with --f16", &p.bytes },
        { "text", "bytes of metadata for a row", &p.text },
        { "seed", "of the random numbers", &p.seed },
        { NULL, NULL, NULL }
    };
    int i;
    for (i = 1; i < argc; i += 2) {
        const char *name = argv[i] + 2, *value = i + 1 < argc ? argv[i + 1] : "";
        const option *o = options;
        char *end;
        if (!strcmp(argv[i], "--help")) return usage(options, &p, stdout);
        if (strncmp(argv[i], "--", 2) || !*value) return usage(options, &p, stderr);
        while (o->name && strcmp(o->name, name)) o++;
        if (!strcmp(name, "machines")) p.machines = value;
        else if (!strcmp(name, "shard")) p.shard = value;
        else if (!o->name) return usage(options, &p, stderr);
        else if (*o->value = strtod(value, &end), *end || !(*o->value >= 0 && *o->value <= 1e15)) {
            fprintf(stderr, "plan: --%s: expected a number from 0 to 1e15, found \"%s\"\n", name,
                    value);
            return 2;
        }
    }
    if (p.images < 1 || !(p.cores * p.rate > 0) || !(p.speed > 0) || !(p.mtbf > 0)) {
        fprintf(stderr, "plan: images, cores, rate, speed and mtbf must be above 0\n");
        return 2;
    }
    return print_rows(&p);
}
