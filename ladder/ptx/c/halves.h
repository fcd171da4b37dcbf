/* halves.h -- .f16 and .bf16 as 16-bit patterns, .tf32 as a float with 10 bits of fraction; ladder.ptx.halves defines
 * them. One rounding each, and a NaN is the format's canonical one. */
#ifndef LADDER_HALVES_H
#define LADDER_HALVES_H

#include "machine.h"

#define NAN16 0x7fffu
#define NAN32 0x7fffffffu

static inline float f32_of_bf16(uint16_t x) { return as_f32((uint32_t)x << 16); }
static inline float f32_of_f16(uint16_t x)
{
    const uint32_t sign = (uint32_t)(x & 0x8000) << 16, magnitude = x & 0x7fff;
    if (magnitude >= 0x7c00) return as_f32(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
    /* The exponent's bias is 112 less; the product is exact, for subnormals too. */
    return as_f32(sign | bits_f32(as_f32(magnitude << 13) * 0x1p112f));
}

/* The float with its last `dropped` bits cut off, to nearest even or toward zero; of its magnitude's bits. */
static inline uint32_t drop_bits(uint32_t magnitude, uint32_t dropped, int nearest)
{
    const uint32_t half = (1u << (dropped - 1)) - 1;
    return (nearest ? magnitude + half + (magnitude >> dropped & 1) : magnitude) >> dropped;
}
static inline uint16_t bf16_of_f32(float x, int nearest)
{
    return x == x ? (uint16_t)drop_bits(bits_f32(x), 16, nearest) : NAN16;
}
static inline uint16_t f16_of_f32(float x, int nearest)
{
    const uint32_t bits = bits_f32(x), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (x != x) return NAN16;
    if (magnitude >= 0x47800000) return (uint16_t)(sign | (nearest || magnitude == 0x7f800000 ? 0x7c00 : 0x7bff));
    if (magnitude >= 0x38800000) return (uint16_t)(sign | (drop_bits(magnitude, 13, nearest) - (112u << 10)));
    if (magnitude < 0x33000000) return (uint16_t)sign;
    /* A subnormal: the fraction, with its leading one, in units of 2^-24. */
    return (uint16_t)(sign | drop_bits((magnitude & 0x7fffff) | 0x800000, 126 - (magnitude >> 23), nearest));
}

/* To nearest, ties away from zero (rna) or to even (rn), or toward zero (rz). */
static inline uint32_t tf32_rna(float x) { return x == x ? (bits_f32(x) + 0x1000) & ~0x1fffu : NAN32; }
static inline uint32_t tf32_rn(float x) { return x == x ? drop_bits(bits_f32(x), 13, 1) << 13 : NAN32; }
static inline uint32_t tf32_rz(float x) { return x == x ? bits_f32(x) & ~0x1fffu : NAN32; }

/* Rounded toward zero, and made odd when that was not exact: rounding again to fewer bits then rounds once (Boldo and
 * Melquiond, 2008). */
static inline float odd_f32(double x)
{
    const float near = (float)x;
    if (x != x || (double)near == x) return near;
    const uint32_t past = fabs((double)near) > fabs(x);
    return as_f32((bits_f32(near) - past) | 1);
}
static inline uint16_t bf16_of_f64(double x) { return bf16_of_f32(odd_f32(x), 1); }
static inline uint16_t f16_of_f64(double x) { return f16_of_f32(odd_f32(x), 1); }

/* a * b + c in double, rounded to odd; the product of two halves is exact. */
static inline double odd_fma(double a, double b, double c)
{
    const double product = a * b, total = product + c, added = total - product;
    const double error = (product - (total - added)) + (c - added);
    const uint64_t bits = bits_f64(total);
    if (!isfinite(total) || error == 0 || bits & 1) return total;
    return as_f64((error > 0) == (total > 0) ? bits + 1 : bits - 1);
}

#define DEFINE_HALF_ARITHMETIC(kind)                                                                                   \
    static inline uint16_t add_##kind(uint16_t a, uint16_t b)                                                          \
    {                                                                                                                  \
        return kind##_of_f64((double)f32_of_##kind(a) + (double)f32_of_##kind(b));                                     \
    }                                                                                                                  \
    static inline uint16_t sub_##kind(uint16_t a, uint16_t b)                                                          \
    {                                                                                                                  \
        return kind##_of_f64((double)f32_of_##kind(a) - (double)f32_of_##kind(b));                                     \
    }                                                                                                                  \
    static inline uint16_t mul_##kind(uint16_t a, uint16_t b)                                                          \
    {                                                                                                                  \
        return kind##_of_f64((double)f32_of_##kind(a) * (double)f32_of_##kind(b));                                     \
    }                                                                                                                  \
    static inline uint16_t fma_##kind(uint16_t a, uint16_t b, uint16_t c)                                              \
    {                                                                                                                  \
        return kind##_of_f64(odd_fma(f32_of_##kind(a), f32_of_##kind(b), f32_of_##kind(c)));                           \
    }
DEFINE_HALF_ARITHMETIC(f16)
DEFINE_HALF_ARITHMETIC(bf16)

static inline uint16_t low_half(uint32_t pair) { return (uint16_t)pair; }
static inline uint16_t high_half(uint32_t pair) { return (uint16_t)(pair >> 16); }
static inline uint32_t pair_of(uint16_t low, uint16_t high) { return low | (uint32_t)high << 16; }

#endif
