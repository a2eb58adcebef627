/* Passes over memory that training on a processor makes many of, each as one function.

   Between two products of matrices a model makes five to ten simple passes over its numbers: casts, masks, sums,
   a softmax, random numbers. Here each such group reads its numbers once and writes them once. `functions.py` says which
   formula each function computes, and tests/laws/test_fused_operations.py holds it to that formula.

   Activations are float32, or bfloat16 where `is_bf16` is not zero: the upper half of a float32. All sums are float32.
   Every function is called by one thread at a time for its own numbers, and keeps nothing. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

/* Sixteen numbers that are computed together; compilers make one, two or four registers of them. */
#define LANES 16
typedef float lanes __attribute__((vector_size(4 * LANES), aligned(4)));

INLINE int64_t round_up(int64_t n) { return (n + LANES - 1) / LANES * LANES; }

/* Call a function whose last two arguments are flags, with constants in their place: a loop that asks for a flag is no
   loop of vector instructions. */
#define WITH_CONSTANTS(first_flag, second_flag, function, ...) \
  do {                                                         \
    if (first_flag) {                                          \
      if (second_flag) function(__VA_ARGS__, 1, 1);            \
      else function(__VA_ARGS__, 1, 0);                        \
    } else {                                                   \
      if (second_flag) function(__VA_ARGS__, 0, 1);            \
      else function(__VA_ARGS__, 0, 0);                        \
    }                                                          \
  } while (0)

/* -- Numbers ------------------------------------------------------------------------------------------------------- */

INLINE float float_from_bits(uint32_t bits) {
  float number;
  memcpy(&number, &bits, sizeof number);
  return number;
}

INLINE uint32_t bits_of(float number) {
  uint32_t bits;
  memcpy(&bits, &number, sizeof bits);
  return bits;
}

INLINE float read_number(const void *numbers, int64_t i, int is_bf16) {
  if (is_bf16) return float_from_bits((uint32_t)((const uint16_t *)numbers)[i] << 16);
  return ((const float *)numbers)[i];
}

/* Round to the nearest bfloat16, and to the even one of two that are equally near. */
INLINE void write_number(void *numbers, int64_t i, float number, int is_bf16) {
  if (is_bf16) {
    uint32_t bits = bits_of(number), rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    ((uint16_t *)numbers)[i] = number == number ? (uint16_t)rounded : 0x7fc0; /* NaN stays NaN */
  } else {
    ((float *)numbers)[i] = number;
  }
}

/* exp(x) for x <= 0: 2^n times a polynomial of what is left, |rest| <= ln(2) / 2. NaN stays NaN. */
INLINE float exp_of_negative(float x) {
  x = x < -87.0f ? -87.0f : x; /* below, the result is no normal number */
  float n = __builtin_rintf(x * 1.4426950408889634f);
  float rest = x - n * 0.693145751953125f - n * 1.42860682030941723e-6f; /* ln(2) in two parts */
  float p = 1.0f / 5040;
  p = p * rest + 1.0f / 720;
  p = p * rest + 1.0f / 120;
  p = p * rest + 1.0f / 24;
  p = p * rest + 1.0f / 6;
  p = p * rest + 0.5f;
  p = p * rest + 1.0f;
  p = p * rest + 1.0f;
  return p * float_from_bits((uint32_t)((int32_t)n + 127) << 23);
}

/* -- Dropout: number i is kept where a hash of i and the seed is at least `dropped` of 2^32 -------------------------- */

INLINE int is_kept(uint64_t seed, int64_t i, uint32_t dropped) {
  uint32_t h = (uint32_t)i * 0x9e3779b9u + (uint32_t)seed;
  h ^= h >> 16;
  h *= 0x7feb352du;
  h ^= (h >> 15) + (uint32_t)(seed >> 32);
  h *= 0x846ca68bu;
  h ^= h >> 16;
  return h >= dropped;
}

/* out = x + dropout(y + bias) */
INLINE void add_dropped_as(const float *restrict x, const void *restrict y, const float *restrict bias,
                           float *restrict out, int64_t rows, int64_t width, uint64_t seed, uint32_t dropped,
                           float scale, int is_dropping, int is_bf16) {
  for (int64_t row = 0; row < rows; row++) {
    int64_t first = row * width;
#pragma omp simd
    for (int64_t i = 0; i < width; i++) {
      float number = read_number(y, first + i, is_bf16) + bias[i];
      if (is_dropping) number = is_kept(seed, first + i, dropped) ? scale * number : 0.0f;
      out[first + i] = x[first + i] + number;
    }
  }
}

void add_dropped(const float *x, const void *y, const float *bias, float *out, int64_t rows, int64_t width,
                 uint64_t seed, uint32_t dropped, float scale, int is_bf16) {
  WITH_CONSTANTS(dropped, is_bf16, add_dropped_as, x, y, bias, out, rows, width, seed, dropped, scale);
}

/* The gradient of add_dropped by y, which is dropout(gradient); the gradient of the bias is added to bias_gradient. */
INLINE void drop_as(const float *restrict gradient, void *restrict y_gradient, float *restrict bias_gradient,
                    int64_t rows, int64_t width, uint64_t seed, uint32_t dropped, float scale, int is_dropping,
                    int is_bf16) {
  for (int64_t row = 0; row < rows; row++) {
    int64_t first = row * width;
#pragma omp simd
    for (int64_t i = 0; i < width; i++) {
      float number = gradient[first + i];
      if (is_dropping) number = is_kept(seed, first + i, dropped) ? scale * number : 0.0f;
      bias_gradient[i] += number;
      write_number(y_gradient, first + i, number, is_bf16);
    }
  }
}

void drop(const float *gradient, void *y_gradient, float *bias_gradient, int64_t rows, int64_t width, uint64_t seed,
          uint32_t dropped, float scale, int is_bf16) {
  WITH_CONSTANTS(dropped, is_bf16, drop_as, gradient, y_gradient, bias_gradient, rows, width, seed, dropped, scale);
}

/* out = dropout(max(0, x + bias)) */
INLINE void relu_dropped_as(const void *restrict x, const float *restrict bias, void *restrict out, int64_t rows,
                            int64_t width, uint64_t seed, uint32_t dropped, float scale, int is_dropping,
                            int is_bf16) {
  for (int64_t row = 0; row < rows; row++) {
    int64_t first = row * width;
#pragma omp simd
    for (int64_t i = 0; i < width; i++) {
      float number = read_number(x, first + i, is_bf16) + bias[i];
      number = number <= 0.0f ? 0.0f : number; /* not `number > 0`, which would hide a NaN */
      if (is_dropping) number = is_kept(seed, first + i, dropped) ? scale * number : 0.0f;
      write_number(out, first + i, number, is_bf16);
    }
  }
}

void relu_dropped(const void *x, const float *bias, void *out, int64_t rows, int64_t width, uint64_t seed,
                  uint32_t dropped, float scale, int is_bf16) {
  WITH_CONSTANTS(dropped, is_bf16, relu_dropped_as, x, bias, out, rows, width, seed, dropped, scale);
}

/* The gradient of relu_dropped: what it wrote is zero exactly where no gradient passes. That of the bias is added. */
INLINE void relu_dropped_gradient_as(const void *restrict gradient, const void *restrict out, void *restrict x_gradient,
                                     float *restrict bias_gradient, int64_t rows, int64_t width, float scale,
                                     int is_bf16) {
  for (int64_t row = 0; row < rows; row++) {
    int64_t first = row * width;
#pragma omp simd
    for (int64_t i = 0; i < width; i++) {
      float passed = scale * read_number(gradient, first + i, is_bf16);
      passed = read_number(out, first + i, is_bf16) == 0.0f ? 0.0f : passed;
      bias_gradient[i] += passed;
      write_number(x_gradient, first + i, passed, is_bf16);
    }
  }
}

void relu_dropped_gradient(const void *gradient, const void *out, void *x_gradient, float *bias_gradient, int64_t rows,
                           int64_t width, float scale, int is_bf16) {
  if (is_bf16) relu_dropped_gradient_as(gradient, out, x_gradient, bias_gradient, rows, width, scale, 1);
  else relu_dropped_gradient_as(gradient, out, x_gradient, bias_gradient, rows, width, scale, 0);
}

/* -- Norms: y = (x - mean) * inverse * weight + bias; RMSNorm has mean 0 and no bias --------------------------------- */

INLINE void normalize_as(const float *restrict x, const float *restrict weight, const float *restrict bias,
                         void *restrict out, float *restrict means, float *restrict inverses, int64_t rows,
                         int64_t width, float epsilon, int is_rms, int is_bf16) {
  for (int64_t row = 0; row < rows; row++, x += width) {
    float sum = 0, squares = 0;
    if (!is_rms) {
#pragma omp simd reduction(+ : sum)
      for (int64_t i = 0; i < width; i++) sum += x[i];
    }
    float mean = sum / width;
#pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < width; i++) squares += (x[i] - mean) * (x[i] - mean);
    float inverse = 1.0f / sqrtf(squares / width + epsilon);
    int64_t first = row * width;
#pragma omp simd
    for (int64_t i = 0; i < width; i++)
      write_number(out, first + i, (x[i] - mean) * inverse * weight[i] + (is_rms ? 0.0f : bias[i]), is_bf16);
    means[row] = mean;
    inverses[row] = inverse;
  }
}

void normalize(const float *x, const float *weight, const float *bias, void *out, float *means, float *inverses,
               int64_t rows, int64_t width, float epsilon, int is_bf16) {
  WITH_CONSTANTS(bias == NULL, is_bf16, normalize_as, x, weight, bias, out, means, inverses, rows, width, epsilon);
}

/* x_gradient = the gradient of normalize by x, plus `passed`, the gradient of x that went around the norm (or NULL).
   The gradients of weight and bias are added to what stands there. */
INLINE void normalize_gradient_as(const void *restrict gradient, const float *restrict passed, const float *restrict x,
                                  const float *restrict weight, const float *restrict means,
                                  const float *restrict inverses, float *restrict x_gradient,
                                  float *restrict weight_gradient, float *restrict bias_gradient, int64_t rows,
                                  int64_t width, int is_rms, int is_bf16) {
  for (int64_t row = 0; row < rows; row++) {
    int64_t first = row * width;
    float mean = means[row], inverse = inverses[row], sum = 0, along = 0;
#pragma omp simd reduction(+ : sum, along)
    for (int64_t i = 0; i < width; i++) {
      float normed = (x[first + i] - mean) * inverse, g = read_number(gradient, first + i, is_bf16);
      weight_gradient[i] += g * normed;
      if (!is_rms) bias_gradient[i] += g;
      sum += g * weight[i];
      along += g * weight[i] * normed;
    }
    sum = is_rms ? 0.0f : sum / width;
    along /= width;
#pragma omp simd
    for (int64_t i = 0; i < width; i++) {
      float normed = (x[first + i] - mean) * inverse, g = read_number(gradient, first + i, is_bf16) * weight[i];
      x_gradient[first + i] = inverse * (g - sum - normed * along);
    }
    if (passed == NULL) continue;
#pragma omp simd
    for (int64_t i = 0; i < width; i++) x_gradient[first + i] += passed[first + i];
  }
}

void normalize_gradient(const void *gradient, const float *passed, const float *x, const float *weight,
                        const float *means, const float *inverses, float *x_gradient, float *weight_gradient,
                        float *bias_gradient, int64_t rows, int64_t width, int is_bf16) {
  WITH_CONSTANTS(bias_gradient == NULL, is_bf16, normalize_gradient_as, gradient, passed, x, weight, means, inverses,
                 x_gradient, weight_gradient, bias_gradient, rows, width);
}

/* -- Attention ------------------------------------------------------------------------------------------------------- */

/* out = a b for small matrices: a is (m, inner), b and out have `width` columns, a multiple of LANES. */
static void multiply(const float *restrict a, int64_t a_width, const float *restrict b, float *restrict out, int64_t m,
                     int64_t inner, int64_t width) {
  int64_t row = 0;
  for (; row + 4 <= m; row += 4) {
    const float *a0 = a + row * a_width, *a1 = a0 + a_width, *a2 = a1 + a_width, *a3 = a2 + a_width;
    for (int64_t column = 0; column < width; column += LANES) {
      lanes sum0 = {0}, sum1 = {0}, sum2 = {0}, sum3 = {0};
      const float *b_row = b + column;
      for (int64_t i = 0; i < inner; i++, b_row += width) {
        lanes numbers = *(const lanes *)b_row;
        sum0 += a0[i] * numbers;
        sum1 += a1[i] * numbers;
        sum2 += a2[i] * numbers;
        sum3 += a3[i] * numbers;
      }
      float *to = out + row * width + column;
      *(lanes *)to = sum0;
      *(lanes *)(to + width) = sum1;
      *(lanes *)(to + 2 * width) = sum2;
      *(lanes *)(to + 3 * width) = sum3;
    }
  }
  for (; row < m; row++) {
    for (int64_t column = 0; column < width; column += LANES) {
      lanes sum = {0};
      for (int64_t i = 0; i < inner; i++) sum += a[row * a_width + i] * *(const lanes *)(b + i * width + column);
      *(lanes *)(out + row * width + column) = sum;
    }
  }
}

/* Sizes of one attention. Rows of queries, keys and values may lie apart, as they are columns of one projection. */
typedef struct {
  int64_t batch, heads, queries, keys, width; /* width of a head */
  int64_t query_batch, query_row;             /* numbers from one sentence, one position to the next */
  int64_t key_batch, key_row;                 /* of the keys and of the values */
  int64_t allowed_batch, allowed_row;         /* of the mask */
} attention_sizes;

/* One head as floats, plus its bias: rows of `width` columns, filled up with zeros to `padded` columns. */
INLINE void read_head(const void *from, const float *restrict bias, int64_t first, int64_t row_step,
                      float *restrict to, int64_t rows, int64_t width, int64_t padded, int is_bf16) {
  for (int64_t row = 0; row < rows; row++) {
    int64_t from_row = first + row * row_step;
#pragma omp simd
    for (int64_t i = 0; i < width; i++) to[row * padded + i] = read_number(from, from_row + i, is_bf16) + bias[i];
    for (int64_t i = width; i < padded; i++) to[row * padded + i] = 0.0f;
  }
}

/* The other way round; the sum of each column is added to `sums`, if any are asked for. */
INLINE void write_head(const float *restrict from, void *to, int64_t first, int64_t row_step, float *restrict sums,
                       int64_t rows, int64_t width, int64_t padded, int is_bf16) {
  for (int64_t row = 0; row < rows; row++) {
    int64_t to_row = first + row * row_step;
#pragma omp simd
    for (int64_t i = 0; i < width; i++) write_number(to, to_row + i, from[row * padded + i], is_bf16);
    if (sums == NULL) continue;
#pragma omp simd
    for (int64_t i = 0; i < width; i++) sums[i] += from[row * padded + i];
  }
}

/* out = the transpose of `from`, (rows, columns) of which lie `from_width` apart; out has `rows` rounded up as width. */
INLINE void transpose(const float *restrict from, int64_t from_width, float *restrict out, int64_t rows,
                      int64_t columns) {
  int64_t width = round_up(rows);
  for (int64_t column = 0; column < columns; column++) {
    for (int64_t row = 0; row < rows; row++) out[column * width + row] = from[row * from_width + column];
    for (int64_t row = rows; row < width; row++) out[column * width + row] = 0.0f;
  }
}

/* What is added to each score: 0 for a key that may be read, and otherwise -infinity, as for those that fill up. */
INLINE void read_mask(const uint8_t *allowed, int64_t row_step, float *restrict mask, int64_t rows, int64_t keys,
                      int64_t padded) {
  for (int64_t row = 0; row < rows; row++) {
    for (int64_t i = 0; i < padded; i++) {
      int is_allowed = i < keys && (allowed == NULL || allowed[row * row_step + i]);
      mask[row * padded + i] = is_allowed ? 0.0f : -INFINITY;
    }
  }
}

/* Softmax of a row of scores, whose length is a multiple of LANES: zeros where the mask is -infinity, and nothing but
   zeros where it is so everywhere. */
INLINE void softmax_row(float *restrict row, const float *restrict mask, float factor, int64_t padded) {
  float largest = -INFINITY, sum = 0;
  for (int64_t first = 0; first < padded; first += LANES) {
#pragma omp simd reduction(max : largest)
    for (int i = 0; i < LANES; i++) {
      float score = row[first + i] * factor + mask[first + i];
      row[first + i] = score;
      largest = score > largest ? score : largest;
    }
  }
  if (largest == -INFINITY) largest = 0.0f; /* no key, or NaN, which the next lines keep */
  for (int64_t first = 0; first < padded; first += LANES) {
#pragma omp simd reduction(+ : sum)
    for (int i = 0; i < LANES; i++) {
      float power = exp_of_negative(row[first + i] - largest);
      power = mask[first + i] < 0.0f ? 0.0f : power;
      row[first + i] = power;
      sum += power;
    }
  }
  float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
  for (int64_t i = 0; i < padded; i += LANES) *(lanes *)(row + i) *= inverse;
}

/* Multiply patterns by their dropout mask; `first` is the number of the first element among all patterns. */
INLINE void drop_pattern(const float *from, float *to, int64_t first, int64_t n, uint64_t seed, uint32_t dropped,
                         float scale) {
#pragma omp simd
  for (int64_t i = 0; i < n; i++) to[i] = is_kept(seed, first + i, dropped) ? scale * from[i] : 0.0f;
}

/* out (B Q H*E) = dropout(softmax(q k^T / sqrt(E))) v for each head; `patterns` (B H Q round_up(K)) is the softmax.
   A bias of each column is added to q, k and v. */
INLINE int attend_as(const void *q, const void *k, const void *v, const float *q_bias, const float *k_bias,
                     const float *v_bias, const uint8_t *allowed, void *out, float *patterns, const attention_sizes *s,
                     uint64_t seed, uint32_t dropped, float scale, int is_bf16) {
  int64_t width = round_up(s->width), keys = round_up(s->keys), mask_rows = s->allowed_row ? s->queries : 1;
  float *memory = malloc(sizeof(float) * (2 * s->queries * width + 2 * s->keys * width + width * keys +
                                          s->queries * keys + mask_rows * keys));
  if (memory == NULL) return 1;
  float *queries = memory, *output = queries + s->queries * width, *rows = output + s->queries * width;
  float *values = rows + s->keys * width, *columns = values + s->keys * width, *kept = columns + width * keys;
  float *mask = kept + s->queries * keys, factor = 1.0f / sqrtf((float)s->width);

  for (int64_t b = 0; b < s->batch; b++) {
    if (b == 0 || s->allowed_batch)
      read_mask(allowed ? allowed + b * s->allowed_batch : NULL, s->allowed_row, mask, mask_rows, s->keys, keys);
    for (int64_t h = 0; h < s->heads; h++) {
      int64_t column = h * s->width, query = b * s->query_batch + column, key = b * s->key_batch + column;
      read_head(q, q_bias + column, query, s->query_row, queries, s->queries, s->width, width, is_bf16);
      read_head(k, k_bias + column, key, s->key_row, rows, s->keys, s->width, width, is_bf16);
      read_head(v, v_bias + column, key, s->key_row, values, s->keys, s->width, width, is_bf16);
      transpose(rows, width, columns, s->keys, s->width);

      int64_t first = (b * s->heads + h) * s->queries * keys;
      float *pattern = patterns + first;
      multiply(queries, width, columns, pattern, s->queries, s->width, keys);
      for (int64_t row = 0; row < s->queries; row++)
        softmax_row(pattern + row * keys, mask + (s->allowed_row ? row * keys : 0), factor, keys);

      const float *weights = pattern;
      if (dropped) {
        drop_pattern(pattern, kept, first, s->queries * keys, seed, dropped, scale);
        weights = kept;
      }
      multiply(weights, keys, values, output, s->queries, s->keys, width);
      int64_t to = b * s->queries * s->heads * s->width + column;
      write_head(output, out, to, s->heads * s->width, NULL, s->queries, s->width, width, is_bf16);
    }
  }
  free(memory);
  return 0;
}

int attend(const void *q, const void *k, const void *v, const float *q_bias, const float *k_bias, const float *v_bias,
           const uint8_t *allowed, void *out, float *patterns, const attention_sizes *s, uint64_t seed,
           uint32_t dropped, float scale, int is_bf16) {
  if (is_bf16)
    return attend_as(q, k, v, q_bias, k_bias, v_bias, allowed, out, patterns, s, seed, dropped, scale, 1);
  return attend_as(q, k, v, q_bias, k_bias, v_bias, allowed, out, patterns, s, seed, dropped, scale, 0);
}

/* The gradients of attend by q, k and v, written where numbers of the same sizes and steps as theirs lie; those of the
   biases are added to what stands there. */
INLINE int attend_gradient_as(const void *gradient, const void *q, const void *k, const void *v, const float *q_bias,
                              const float *k_bias, const float *v_bias, const float *patterns, void *q_gradient,
                              void *k_gradient, void *v_gradient, float *q_bias_gradient, float *k_bias_gradient,
                              float *v_bias_gradient, const attention_sizes *s, uint64_t seed, uint32_t dropped,
                              float scale, int is_bf16) {
  int64_t width = round_up(s->width), keys = round_up(s->keys), positions = round_up(s->queries);
  int64_t longest = s->queries > s->keys ? s->queries : s->keys;
  float *memory = malloc(sizeof(float) * (2 * s->queries * width + 2 * s->keys * width + width * keys +
                                          2 * s->queries * keys + s->keys * positions + longest * width + width));
  if (memory == NULL) return 1;
  float *outputs = memory, *queries = outputs + s->queries * width, *rows = queries + s->queries * width;
  float *values = rows + s->keys * width, *columns = values + s->keys * width, *scores = columns + width * keys;
  float *kept = scores + s->queries * keys, *turned = kept + s->queries * keys, *result = turned + s->keys * positions;
  float *no_bias = result + longest * width, factor = 1.0f / sqrtf((float)s->width);
  memset(no_bias, 0, sizeof(float) * width);

  for (int64_t b = 0; b < s->batch; b++) {
    for (int64_t h = 0; h < s->heads; h++) {
      int64_t column = h * s->width, query = b * s->query_batch + column, key = b * s->key_batch + column;
      int64_t output = b * s->queries * s->heads * s->width + column;
      read_head(gradient, no_bias, output, s->heads * s->width, outputs, s->queries, s->width, width, is_bf16);
      read_head(q, q_bias + column, query, s->query_row, queries, s->queries, s->width, width, is_bf16);
      read_head(k, k_bias + column, key, s->key_row, rows, s->keys, s->width, width, is_bf16);
      read_head(v, v_bias + column, key, s->key_row, values, s->keys, s->width, width, is_bf16);

      int64_t first = (b * s->heads + h) * s->queries * keys;
      const float *pattern = patterns + first, *weights = pattern;
      if (dropped) {
        drop_pattern(pattern, kept, first, s->queries * keys, seed, dropped, scale);
        weights = kept;
      }
      /* values: dropped pattern transposed times the gradient */
      transpose(weights, keys, turned, s->queries, s->keys);
      multiply(turned, positions, outputs, result, s->keys, s->queries, width);
      write_head(result, v_gradient, key, s->key_row, v_bias_gradient + column, s->keys, s->width, width, is_bf16);

      /* scores: through the product with the values, dropout and the softmax */
      transpose(values, width, columns, s->keys, s->width);
      multiply(outputs, width, columns, scores, s->queries, s->width, keys);
      if (dropped) drop_pattern(scores, scores, first, s->queries * keys, seed, dropped, scale);
      for (int64_t row = 0; row < s->queries; row++) {
        float *by_score = scores + row * keys, along = 0;
        const float *weight = pattern + row * keys;
        for (int64_t from = 0; from < keys; from += LANES) {
#pragma omp simd reduction(+ : along)
          for (int i = 0; i < LANES; i++) along += weight[from + i] * by_score[from + i];
        }
        for (int64_t from = 0; from < keys; from += LANES) {
#pragma omp simd
          for (int i = 0; i < LANES; i++)
            by_score[from + i] = factor * weight[from + i] * (by_score[from + i] - along);
        }
      }

      multiply(scores, keys, rows, result, s->queries, s->keys, width);
      write_head(result, q_gradient, query, s->query_row, q_bias_gradient + column, s->queries, s->width, width,
                 is_bf16);
      transpose(scores, keys, turned, s->queries, s->keys);
      multiply(turned, positions, queries, result, s->keys, s->queries, width);
      write_head(result, k_gradient, key, s->key_row, k_bias_gradient + column, s->keys, s->width, width, is_bf16);
    }
  }
  free(memory);
  return 0;
}

int attend_gradient(const void *gradient, const void *q, const void *k, const void *v, const float *q_bias,
                    const float *k_bias, const float *v_bias, const float *patterns, void *q_gradient,
                    void *k_gradient, void *v_gradient, float *q_bias_gradient, float *k_bias_gradient,
                    float *v_bias_gradient, const attention_sizes *s, uint64_t seed, uint32_t dropped, float scale,
                    int is_bf16) {
  if (is_bf16)
    return attend_gradient_as(gradient, q, k, v, q_bias, k_bias, v_bias, patterns, q_gradient, k_gradient, v_gradient,
                              q_bias_gradient, k_bias_gradient, v_bias_gradient, s, seed, dropped, scale, 1);
  return attend_gradient_as(gradient, q, k, v, q_bias, k_bias, v_bias, patterns, q_gradient, k_gradient, v_gradient,
                            q_bias_gradient, k_bias_gradient, v_bias_gradient, s, seed, dropped, scale, 0);
}

/* -- Label-smoothed cross-entropy of rows of logits, and its gradient in their place ---------------------------------- */

INLINE void loss_of_rows_as(void *restrict logits, const float *restrict bias, const int64_t *restrict targets,
                            double *restrict loss, float *restrict bias_gradient, float *restrict z, int64_t rows,
                            int64_t width, float smoothing, int needs_gradient, int has_bias, int is_bf16) {
  for (int64_t row = 0; row < rows; row++) {
    int64_t first = row * width;
    float largest = -INFINITY, total = 0, sum = 0;
#pragma omp simd reduction(max : largest) reduction(+ : total)
    for (int64_t i = 0; i < width; i++) {
      float logit = read_number(logits, first + i, is_bf16);
      if (has_bias) logit += bias[i];
      z[i] = logit;
      largest = logit > largest ? logit : largest;
      total += logit;
    }
    float target_logit = z[targets[row]];
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < width; i++) {
      z[i] = exp_of_negative(z[i] - largest);
      sum += z[i];
    }
    *loss += largest + logf(sum) - (1 - smoothing) * target_logit - smoothing * (total / width);
    if (!needs_gradient) continue;

    /* softmax - q, where q is 1 - smoothing on the target, and smoothing spread over all */
    float inverse = 1.0f / sum, share = smoothing / width;
    z[targets[row]] -= (1 - smoothing) * sum;
#pragma omp simd
    for (int64_t i = 0; i < width; i++) {
      float g = z[i] * inverse - share;
      write_number(logits, first + i, g, is_bf16);
      if (has_bias) bias_gradient[i] += g;
    }
  }
}

int loss_of_rows(void *logits, const float *bias, const int64_t *targets, double *loss, float *bias_gradient,
                 int64_t rows, int64_t width, float smoothing, int needs_gradient, int is_bf16) {
  float *z = malloc(sizeof(float) * width);
  if (z == NULL) return 1;
  WITH_CONSTANTS(bias != NULL, is_bf16, loss_of_rows_as, logits, bias, targets, loss, bias_gradient, z, rows, width,
                 smoothing, needs_gradient);
  free(z);
  return 0;
}
