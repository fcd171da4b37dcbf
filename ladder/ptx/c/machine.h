/* machine.h -- what the runtime and a kernel's generated code share: the machine they work on, the tables that describe
 * a kernel, and the few operations of PTX that C has no operator for.
 *
 * Emulated addresses are 64-bit numbers: shared memory from 0, local memory from LOCAL_BASE, buffers far above. */
#ifndef LADDER_MACHINE_H
#define LADDER_MACHINE_H

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#if FLT_EVAL_METHOD != 0
#error "float arithmetic keeps excess precision here: results would differ from a GPU's"
#endif

#define EXPORTED __attribute__((visibility("default")))
#define WARP 32
#define LOCAL_BASE (1u << 24)
#define FP32 3
#define SUSPECT (-1) /* what a function returns when a lane may have done something undefined */

enum space { GLOBAL, SHARED, LOCAL, GENERIC };

/* COPY is cp.async, MATRIX ldmatrix; REDUCE is an atomic whose result nobody reads. */
enum access { LOAD, MATRIX, MATRIX_TRANSPOSED, STORE, COPY, REDUCE, ATOMIC };
static inline int is_read(int32_t access) { return access <= MATRIX_TRANSPOSED; }

enum end { FALL, BRANCH, RETURN, BARRIER };
enum after { NOTHING, SYNC_WARPS, SYNC_MEMBERS, COMMIT_COPIES, AWAIT_COPIES, ARRIVE };
enum how { WAITS = 1, HAS_COUNT = 2, HAS_FLAG = 4 }; /* what a barrier with a name is like */

/* One array of global memory: its emulated addresses, and where it lies in this process. */
struct buffer {
    uint64_t base, end;  /* what a kernel may touch */
    uint64_t start;      /* base rounded down to 256: the address of host[0] */
    uint8_t *host;
    int64_t first_sector; /* the number of the 32-byte sector at start, among those of all buffers */
};

/* What generated code sees of the machine. Arrays over lanes have one row for each address group of a segment. */
struct machine {
    const uint8_t *params;
    uint32_t ctaid[3], nctaid[3];
    uint8_t *shared, *local;
    int64_t shared_bytes, local_bytes;
    const struct buffer *buffers;
    int32_t buffer_count;
    void *lanes;           /* the registers that outlive a segment, lane by lane */
    uint8_t *taken;        /* [thread] who takes the branch at the end of the basic block */
    uint64_t *address;     /* [group][stride] base address of each lane */
    uint32_t *group_mask;  /* [group][warp] lanes of a guarded group */
    int32_t *group_space;  /* [group] where a generic group lies, -1 before its first lane */
    int32_t *group_buffer; /* [group] the buffer that a global group lies in */
    int64_t short_bytes;   /* what copies have filled with zeros instead of reading it */
    const uint32_t *active; /* [warp] lanes that run the segment in hand */
    uint32_t *after_lanes;  /* [warp] those of them that go through what comes after it, if not all */

    uint32_t *members;      /* [thread] the lanes that a lane names for bar.warp.sync, if they are no constant */

    /* Barriers with names, [thread] each: what a lane brings there, and how many lanes came and brought a true flag. */
    uint32_t *barrier_name, *barrier_count;
    uint8_t *barrier_flag;
    uint32_t *barrier_came, *barrier_yes;

    /* For lanes that work together: whether a warp's instruction has to wait for lanes that it names, in vain; and the
     * products of mma.sync. */
    int (*misses)(const struct machine *, int32_t warp, uint32_t named, uint32_t here);
    void (*multiply_f32)(int32_t k, const double *a, const double *b, const float *c, float *d);
    void (*multiply_f16)(int32_t k, const double *a, const double *b, const float *c, uint16_t *d);
};

/* A memory instruction, for what watches shared memory. Lanes that load matrices give the address of 16 bytes each. */
struct site {
    int32_t access, group, offset, width;
};

/* Warp requests that cost the same: `times` instructions of one group. */
struct request {
    int32_t space, access, group, width, times;
    int64_t offset;
    int32_t source; /* the group that a copy into shared memory reads from */
    int32_t memo;   /* its place among all requests of the kernel */
};

/* Instructions that address memory off one value of one register, under one guard. */
struct group {
    int32_t space, guarded;
    int32_t shared_sites, copies; /* whether it has any */
    int32_t memo; /* its place among all groups of the kernel */
};

/* A stretch of a basic block that each lane runs through before the next lane does, or each warp if its lanes work
 * together. */
struct segment {
    int32_t (*code)(struct machine *, const uint16_t *lanes, int32_t count); /* how many lanes take the branch */
    const struct site *sites;
    const struct request *requests;
    const struct group *groups;
    int32_t site_count, request_count, group_count;
    int32_t number; /* its place among all segments of the kernel */
    int32_t after, after_guarded; /* what comes when its lanes have run, and whether it has a predicate */
    int64_t value; /* the lanes that bar.warp.sync names; how many groups of copies may stay under way, -1 for none; how
                      a barrier with a name is */
};

struct block {
    const struct segment *segments;
    int32_t segment_count, instructions, end, guarded, target;
    int32_t leaves;           /* it does nothing but end */
    int32_t collective;       /* lanes of a warp had better run it together */
    const uint64_t *leads_to; /* a bit for each basic block that lanes cannot miss on their way from here to the end */
    int32_t fp32[FP32];       /* FADD, FMUL and FFMA instructions in it */
};

struct kernel {
    const struct block *blocks;
    int32_t block_count, threads, stride, lane_bytes, local_bytes, local_stride;
    int32_t granule_shift; /* shared memory is watched in granules of 1 << granule_shift bytes */
    int32_t group_rows, request_memos, group_memos, segment_total;
    int32_t collective; /* any of its blocks is */
    int32_t named;      /* it has barriers other than __syncthreads() */
};
extern EXPORTED const struct kernel ladder_kernel; /* in a kernel's library */

/* Bits of values --------------------------------------------------------------------------------------------------- */

#define DEFINE_ACCESS(name, type)                                                                                      \
    static inline type get_##name(const uint8_t *p)                                                                    \
    {                                                                                                                  \
        type x;                                                                                                        \
        memcpy(&x, p, sizeof x);                                                                                       \
        return x;                                                                                                      \
    }                                                                                                                  \
    static inline void put_##name(uint8_t *p, type x) { memcpy(p, &x, sizeof x); }
DEFINE_ACCESS(u8, uint8_t)
DEFINE_ACCESS(s8, int8_t)
DEFINE_ACCESS(u16, uint16_t)
DEFINE_ACCESS(s16, int16_t)
DEFINE_ACCESS(u32, uint32_t)
DEFINE_ACCESS(s32, int32_t)
DEFINE_ACCESS(u64, uint64_t)
DEFINE_ACCESS(s64, int64_t)
DEFINE_ACCESS(f32, float)
DEFINE_ACCESS(f64, double)

static inline float as_f32(uint32_t x) { return get_f32((const uint8_t *)&x); }
static inline double as_f64(uint64_t x) { return get_f64((const uint8_t *)&x); }
static inline uint32_t bits_f32(float x) { return get_u32((const uint8_t *)&x); }
static inline uint64_t bits_f64(double x) { return get_u64((const uint8_t *)&x); }

/* A GPU's float arithmetic has one NaN. Generated code lets another pass from one operation to the next and replaces it
 * where its bits could be seen. */
static inline float canon_f32(float x) { return x == x ? x : as_f32(0x7fffffffu); }

/* Addresses -------------------------------------------------------------------------------------------------------- */

/* How many bases, from `first` on, keep accesses that reach up to `past` bytes beyond their base inside `bytes`. */
static inline uint64_t room(int64_t bytes, int64_t first, int64_t past)
{
    const int64_t bases = bytes - past - first + 1;
    return bases > 0 ? (uint64_t)bases : 0;
}

/* The bases for which accesses stay in one buffer, and where that buffer is. */
struct range {
    uint64_t first, bases, start;
    uint8_t *host;
};

/* Find the buffer that holds all of `base + low .. base + past`; 0 when there is none. */
static __attribute__((noinline, unused)) int find_buffer(
    struct machine *m, int32_t group, uint64_t base, int64_t low, int64_t past, struct range *found)
{
    for (int32_t b = 0; b < m->buffer_count; ++b) {
        const struct buffer *const buffer = m->buffers + b;
        const uint64_t first = buffer->base - (uint64_t)low;
        const uint64_t bases = room((int64_t)(buffer->end - buffer->base), 0, past - low);
        if (base - first < bases) {
            *found = (struct range){first, bases, buffer->start, buffer->host};
            m->group_buffer[group] = b;
            return 1;
        }
    }
    return 0;
}

/* Where a generic address lies in this process; NULL if it is nowhere, or elsewhere than its group's first lane. */
static __attribute__((noinline, unused)) uint8_t *find_generic(
    struct machine *m, int32_t group, uint8_t *own, uint64_t base, int64_t offset, int64_t width)
{
    const uint64_t at = base + (uint64_t)offset;
    const int32_t space = base < LOCAL_BASE ? SHARED : base < 2 * LOCAL_BASE ? LOCAL : GLOBAL;
    if (m->group_space[group] >= 0 && m->group_space[group] != space) return NULL;
    m->group_space[group] = space;
    if (space == SHARED) return at < room(m->shared_bytes, 0, width) ? m->shared + at : NULL;
    if (space == LOCAL) return at - LOCAL_BASE < room(m->local_bytes, 0, width) ? own + (at - LOCAL_BASE) : NULL;
    const int32_t known = m->group_buffer[group];
    struct range found;
    if (!find_buffer(m, group, at, 0, width, &found)) return NULL;
    return known < 0 || known == m->group_buffer[group] ? found.host + (at - found.start) : NULL;
}

/* Where a copy finds the `width` bytes that it reads; NULL if that is nowhere, or in another buffer than its group's. */
static __attribute__((noinline, unused)) const uint8_t *find_source(
    struct machine *m, int32_t group, uint64_t at, int64_t width)
{
    const int32_t known = m->group_buffer[group];
    struct range found;
    if (!find_buffer(m, group, at, 0, width, &found)) return NULL;
    return known < 0 || known == m->group_buffer[group] ? found.host + (at - found.start) : NULL;
}

#endif
