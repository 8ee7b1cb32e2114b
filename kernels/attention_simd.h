// kernels/attention_simd.h: attention for float on vectors, for shapes that fill them.
#pragma once

#include "kernels/attention.h"

namespace mt::cpu::simd {

// Whole vectors of channels, enough queries to fill a vector of them, no bias and no softcap.
bool attention_fits(const AttentionShape& shape);

void attention_forward(float* o, float* lse, const float* q, const float* k, const float* v,
                       const std::int32_t* first_key, const AttentionShape& shape,
                       const Dropout& dropout);

struct AttentionGradients {  // as in attention.h
  float *dq, *dk, *dv;
  const float *d_o, *o, *lse, *q, *k, *v;
};
void attention_backward(const AttentionGradients& g, const std::int32_t* first_key,
                        const AttentionShape& shape, const Dropout& dropout);

}  // namespace mt::cpu::simd
