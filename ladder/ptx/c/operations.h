/* operations.h -- PTX operations that C has no operator for (PTX ISA, chapter 9). Integers come widened to 64 bits
 * together with their width in bits; callers cut the result to size. */
#ifndef LADDER_OPERATIONS_H
#define LADDER_OPERATIONS_H

#include "machine.h"

/* Shift amounts past the width shift everything out. */
static inline uint64_t shift_left(uint64_t a, uint32_t n, uint32_t width) { return n < width ? a << n : 0; }
static inline uint64_t shift_right(uint64_t a, uint32_t n, uint32_t width) { return n < width ? a >> n : 0; }
static inline int64_t shift_right_signed(int64_t a, uint32_t n, uint32_t width)
{
    return a >> (n < width ? n : width - 1);
}

/* x / 0 is all ones and x % 0 is x. The most negative number over -1 wraps; in 64 bits C would trap on it. */
static inline uint64_t div_u(uint64_t a, uint64_t b) { return b ? a / b : ~0ull; }
static inline uint64_t rem_u(uint64_t a, uint64_t b) { return b ? a % b : a; }
static inline int64_t div_s(int64_t a, int64_t b)
{
    return b == 0 ? -1 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}
static inline int64_t rem_s(int64_t a, int64_t b) { return b == 0 ? a : b == -1 ? 0 : a % b; }

__extension__ typedef __int128 wide_signed;
__extension__ typedef unsigned __int128 wide_unsigned;

static inline uint64_t mul_high_u(uint64_t a, uint64_t b, uint32_t width)
{
    return (uint64_t)(((wide_unsigned)a * b) >> width);
}
static inline int64_t mul_high_s(int64_t a, int64_t b, uint32_t width)
{
    return (int64_t)(((wide_signed)a * b) >> width);
}

static inline uint32_t count_zeros(uint64_t a, uint32_t width)
{
    return a ? (uint32_t)__builtin_clzll(a) - (64 - width) : width;
}
/* The position of the highest one, or how far to shift left to bring it to the top; all ones if there is none. */
static inline uint32_t find_bit(uint64_t a, uint32_t width, int shift)
{
    const uint32_t zeros = count_zeros(a, width);
    return zeros == width ? ~0u : shift ? zeros : width - 1 - zeros;
}
static inline uint64_t reverse_bits(uint64_t a, uint32_t width)
{
    a = __builtin_bswap64(a);
    a = (a >> 4 & 0x0f0f0f0f0f0f0f0full) | (a & 0x0f0f0f0f0f0f0f0full) << 4;
    a = (a >> 2 & 0x3333333333333333ull) | (a & 0x3333333333333333ull) << 2;
    a = (a >> 1 & 0x5555555555555555ull) | (a & 0x5555555555555555ull) << 1;
    return a >> (64 - width);
}

/* The lowest `count` ones. */
static inline uint64_t ones(uint32_t count) { return count < 64 ? (1ull << count) - 1 : ~0ull; }

/* Bits past the top of `a` read as zero, or as the field's sign bit. */
static inline uint64_t extract_bits(uint64_t a, uint32_t position, uint32_t length, uint32_t width, int is_signed)
{
    position &= 255, length &= 255;
    const uint32_t top = position + length < width ? position + length : width;
    const uint64_t sign = length && is_signed && (a & ones(width)) >> (top - 1) & 1;
    const uint32_t kept = position < width ? top - position : 0;
    const uint64_t field = kept ? (a & ones(width)) >> position & ones(kept) : 0;
    return sign ? field | ~ones(kept) : field;
}
static inline uint64_t insert_bits(uint64_t a, uint64_t b, uint32_t position, uint32_t length, uint32_t width)
{
    position &= 255, length &= 255;
    if (position >= width) return b;
    const uint64_t mask = ones(length) << position;
    return (b & ~mask) | (a << position & mask);
}

static inline uint32_t funnel_left(uint32_t low, uint32_t high, uint32_t n)
{
    return (uint32_t)((((uint64_t)high << 32 | low) << n) >> 32);
}
static inline uint32_t funnel_right(uint32_t low, uint32_t high, uint32_t n)
{
    return (uint32_t)(((uint64_t)high << 32 | low) >> n);
}
static inline uint32_t at_most_32(uint32_t n) { return n < 32 ? n : 32; }

static inline uint32_t permute(uint32_t a, uint32_t b, uint32_t selector)
{
    const uint64_t both = (uint64_t)b << 32 | a;
    uint32_t out = 0;
    for (uint32_t i = 0; i < 4; ++i) {
        const uint32_t pick = selector >> (4 * i) & 15;
        uint32_t byte = (uint32_t)(both >> (8 * (pick & 7))) & 255;
        if (pick & 8) byte = byte & 128 ? 255 : 0;
        out |= byte << (8 * i);
    }
    return out;
}

/* A number beats NaN, and +0 is greater than -0. */
#define DEFINE_MIN_MAX(name, type, bits, as)                                                                           \
    static inline type min_##name(type a, type b)                                                                      \
    {                                                                                                                  \
        if (a != a || b != b) return a != a ? b : a;                                                                   \
        return a == b ? as(bits(a) | bits(b)) : a < b ? a : b;                                                         \
    }                                                                                                                  \
    static inline type max_##name(type a, type b)                                                                      \
    {                                                                                                                  \
        if (a != a || b != b) return a != a ? b : a;                                                                   \
        return a == b ? as(bits(a) & bits(b)) : a > b ? a : b;                                                         \
    }
DEFINE_MIN_MAX(f32, float, bits_f32, as_f32)
DEFINE_MIN_MAX(f64, double, bits_f64, as_f64)

static inline float root_f32(float x) { return sqrtf(x); }
static inline double root_f64(double x) { return sqrt(x); }

/* Double arithmetic, and atomics, pass on the first NaN among their operands. A compiler may swap the two, so it is put
 * there by hand. */
static inline double pass_f64(double a, double b, double x)
{
    const uint64_t quiet = 1ull << 51;
    return x == x ? x : a != a ? as_f64(bits_f64(a) | quiet) : b != b ? as_f64(bits_f64(b) | quiet) : x;
}
static inline float pass_f32(float a, float b, float x)
{
    const uint32_t quiet = 1u << 22;
    return x == x ? x : a != a ? as_f32(bits_f32(a) | quiet) : b != b ? as_f32(bits_f32(b) | quiet) : x;
}

/* Float to integer saturates, and NaN gives 0. `x` has been rounded to an integral value; a float is exact as a double.
 */
static inline int64_t to_signed(double x, uint32_t width)
{
    const int64_t most = (int64_t)ones(width - 1);
    if (x != x) return 0;
    if (x >= (double)most) return most;
    return x <= -(double)most - 1 ? -most - 1 : (int64_t)x;
}
static inline uint64_t to_unsigned(double x, uint32_t width)
{
    const uint64_t most = ones(width);
    if (!(x > 0)) return 0;
    return x >= (double)most ? most : (uint64_t)x;
}

#endif
