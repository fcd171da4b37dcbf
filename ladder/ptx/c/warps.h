/* warps.h -- what lanes of a warp do together (PTX ISA, shfl.sync, vote.sync, match.sync, redux.sync, mma). Generated code
 * goes through a warp's lanes; bit l of a word stands for lane l, and `here` for those that execute the instruction. */
#ifndef LADDER_WARPS_H
#define LADDER_WARPS_H

#include "halves.h"

/* The bits of a lane that is not there, or not named: the ISA leaves it undefined, so it is a NaN and no fault. */
#define UNREADABLE 0xffffffffu

/* Whether lanes disagree about who takes part: each must be in its own mask, and bring that of those it names. */
static inline int disagree(const uint32_t *named, uint32_t here)
{
    for (uint32_t left = here; left; left &= left - 1) {
        const int32_t lane = __builtin_ctz(left);
        if (!(named[lane] >> lane & 1)) return 1;
        for (uint32_t others = named[lane] & here; others; others &= others - 1)
            if (named[__builtin_ctz(others)] != named[lane]) return 1;
    }
    return 0;
}

/* The lane that a shuffle reads; `inside` tells whether it was in range. `control` packs the clamp (bits 0 to 4) and the
 * segment mask (bits 8 to 12). */
enum shuffle { UP, DOWN, BFLY, IDX };
static inline int32_t shuffled(enum shuffle mode, int32_t lane, uint32_t source, uint32_t control, uint8_t *inside)
{
    const int32_t b = source & 31, clamp = control & 31, segment = control >> 8 & 31;
    const int32_t most = (lane & segment) | (clamp & ~segment), least = lane & segment;
    const int32_t wanted = mode == UP ? lane - b : mode == DOWN ? lane + b : mode == BFLY ? lane ^ b : least | (b & ~segment);
    *inside = mode == UP ? wanted >= most : wanted <= most;
    return *inside ? wanted : lane;
}

static inline uint32_t same_values(const uint64_t *x, int32_t lane, uint32_t voters)
{
    uint32_t same = 0;
    for (; voters; voters &= voters - 1)
        if (x[__builtin_ctz(voters)] == x[lane]) same |= voters & -voters;
    return same;
}

#define DEFINE_REDUCE(name, type, start, combine)                                                                      \
    static inline uint32_t reduce_##name(const uint32_t *x, uint32_t voters)                                           \
    {                                                                                                                  \
        type all = start;                                                                                              \
        for (; voters; voters &= voters - 1) {                                                                         \
            const type one = (type)x[__builtin_ctz(voters)];                                                           \
            all = combine;                                                                                             \
        }                                                                                                              \
        return (uint32_t)all;                                                                                          \
    }
DEFINE_REDUCE(add_u32, uint32_t, 0, all + one)
DEFINE_REDUCE(add_s32, uint32_t, 0, all + one)
DEFINE_REDUCE(min_u32, uint32_t, UINT32_MAX, one < all ? one : all)
DEFINE_REDUCE(max_u32, uint32_t, 0, one > all ? one : all)
DEFINE_REDUCE(min_s32, int32_t, INT32_MAX, one < all ? one : all)
DEFINE_REDUCE(max_s32, int32_t, INT32_MIN, one > all ? one : all)
DEFINE_REDUCE(and_b32, uint32_t, UINT32_MAX, all & one)
DEFINE_REDUCE(or_b32, uint32_t, 0, all | one)
DEFINE_REDUCE(xor_b32, uint32_t, 0, all ^ one)

#endif
