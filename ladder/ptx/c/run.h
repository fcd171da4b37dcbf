/* run.h -- the state of a launch, which the parts of the runtime share. */
#ifndef LADDER_RUN_H
#define LADDER_RUN_H

#include <stdlib.h>

#include "rules.h"

enum touch { READ, UPDATED, WRITTEN, TOUCHES };

/* What ladder.ptx.counting.Counters adds up. */
struct totals {
    int64_t asked_bytes, read_sectors, write_sectors, global_wavefronts, global_requests;
    int64_t shared_wavefronts[2], shared_requests[2]; /* loads, all others */
    int64_t fetch_wavefronts, barriers, copy_groups, global_loads, global_stores;
    int64_t thread_instructions, fp32[FP32];
    int32_t endless_block; /* the basic block in which the step limit was passed */
};

/* The sectors that threadblocks touched: of each block `per_block[touch][position]`, one block after the other. */
struct footprints {
    int64_t *sectors[TOUCHES];
    int64_t count[TOUCHES], capacity[TOUCHES];
    int64_t *per_block[TOUCHES];
};

/* A warp request that has been counted: a pattern like it costs the same. */
struct memo {
    uint32_t active;
    int32_t wavefronts, sectors, listed;
    int32_t asked, placed; /* a bit for each sector of a line: known whether place matters there; it does */
    uint64_t relative[WARP];
    int32_t list[WARP];
};

/* The sectors that a warp touched last through one group. */
struct recent {
    int64_t serial, first;
    int32_t how, listed;
    int32_t list[WARP];
};

/* A warp's accesses through one group that were found right in threadblock `serial`, and would be again. There are some
 * for each warp and group: a pipeline goes through its stages in turn. */
enum { PROOFS = 8 };
struct proof {
    int64_t serial;
    uint32_t active;
    uint64_t address[WARP];
};

/* One or more threads: a warp, or SEVERAL; then its thread, or SEVERAL, at the latest time that it synchronised. */
enum { NOBODY = -1, SEVERAL = -2 };
struct who {
    int32_t warp, thread, time;
};

/* Who has touched a granule of shared memory since the barrier that `epoch` counts, and whether a copy owns it. */
struct shadow {
    int64_t epoch;
    int32_t under_way;
    struct who read, written, updated;
};

/* The accesses of an epoch, in words; see log.h. */
struct log {
    uint64_t *words;
    int64_t used;
};

enum { PASSED_LOGS = 16 };

/* The last access of a kind to a granule, in kernels with named barriers: in which epoch of its warp, counted from 1,
 * and by which thread, or SEVERAL of the warp. */
struct tick {
    int32_t epoch, thread;
};

/* A barrier with a name: the warps that came and those of them that wait, the threads that it waits for (0 while nobody
 * came), how many lanes came and brought a true flag, and what they know of each warp's epochs. */
enum { NAMES = 16 };
struct barrier {
    uint32_t arrived, waiting, came, yes;
    int64_t wanted;
    int32_t known[WARP];
};

/* The copies that a segment once issued off one address and that are under way. */
struct copy {
    const struct segment *segment;
    int32_t group;
    uint32_t lanes[WARP]; /* by warp */
    uint64_t *address;    /* [thread] */
    int32_t *committed;   /* [thread] groups that it had committed before */
};

struct run {
    struct machine machine;
    const struct kernel *kernel;
    int32_t grid[3], warps, order, counting;
    int64_t step_limit, serial;
    struct totals totals;

    /* Control */
    uint16_t *everyone, *who;  /* [thread] */
    uint32_t *ready;           /* [basic block][warp] lanes that are to go on there */
    uint64_t *pending;         /* a bit for each basic block that has any */
    uint32_t *active, *parked; /* [warp] */
    int32_t parked_at;

    /* Counting */
    struct memo *memos;
    struct recent *recents;
    struct footprints footprints;
    uint64_t *touched[TOUCHES]; /* a bit for each sector of all buffers */
    int32_t *touched_words[TOUCHES];
    int32_t touched_count[TOUCHES];

    /* Shared memory */
    int64_t granules, unwritten;
    uint8_t *written;    /* [granule] */
    uint8_t *fresh;      /* [group] whether the warp in hand has to be looked at */
    struct proof *proofs; /* [group][warp][PROOFS] */
    uint8_t *next_proof;  /* [group][warp] */
    struct log log, passed[PASSED_LOGS];
    int32_t next_passed, log_writes, log_settled;
    int64_t *last_entry; /* [segment] its last entry in the log, -1 for none */
    int32_t *warp_time;  /* [warp] how often it has synchronised since the barrier */
    struct shadow *shadows;
    int64_t epoch;

    /* Copies */
    struct copy *copies;
    int32_t copy_count, copy_capacity;
    int32_t *committed; /* [thread] groups of copies so far */

    /* Barriers with names */
    struct barrier barriers[NAMES];
    uint32_t released;       /* warps whose barrier is over */
    int32_t rest_at[WARP];   /* [warp] the basic block where parked lanes will go on */
    int32_t *know;           /* [warp][warp] */
    struct tick *ticks;      /* [granule][1 + 2 warps] */
    int32_t any_updates;     /* whether there has been an atomic in shared memory */
};

static inline const uint64_t *addresses_of(const struct run *r, int32_t group)
{
    return r->machine.address + (int64_t)group * r->kernel->stride;
}

/* The lanes that took part in a group's accesses. */
static inline const uint32_t *lanes_of(const struct run *r, const struct segment *s, int32_t group)
{
    return s->groups[group].guarded ? r->machine.group_mask + (int64_t)group * r->warps : r->active;
}

/* Whether the active lanes of a warp have these addresses, counted from `origin`. */
static inline int same_lanes(const uint64_t *known, const uint64_t *address, uint64_t origin, uint32_t active)
{
    uint64_t differs = 0;
    if (active == ~0u)
        for (int32_t lane = 0; lane < WARP; ++lane) differs |= (address[lane] - origin) ^ known[lane];
    else
        for (; active; active &= active - 1) {
            const int32_t lane = __builtin_ctz(active);
            differs |= (address[lane] - origin) ^ known[lane];
        }
    return !differs;
}

static inline int32_t space_of(const struct run *r, const struct segment *s, int32_t group)
{
    const int32_t space = s->groups[group].space;
    return space == GENERIC ? r->machine.group_space[group] : space;
}

#endif
