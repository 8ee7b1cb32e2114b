#include "kernels/tile_map.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/attention_hopper.cuh"
#include "kernels/driver.h"

namespace mt::cuda {

HeadTensor query_tensor(const bf16* q, const AttentionShape& s) {
  return {q,          s.sequences, s.q_length, s.q_length, s.q_row(),
          s.kv_heads, s.q_group(), s.group(),  s.head_dim};
}
HeadTensor output_tensor(const bf16* o, const AttentionShape& s) {
  return {o,
          s.sequences,
          s.q_length,
          s.q_length,
          s.heads * s.head_dim,
          s.kv_heads,
          s.group() * s.head_dim,
          s.group(),
          s.head_dim};
}
HeadTensor key_tensor(const bf16* k, const AttentionShape& s) {
  return {k,          s.sequences, s.kv_length, s.kv_stride, s.kv_row(),
          s.kv_heads, s.kv_head(), 1,           s.head_dim};
}

CUtensorMap tile_map(const HeadTensor& t, int rows) {
  return tile_map({.data = t.data,
                   .sizes = {t.head_dim, t.heads, t.groups, t.length, t.sequences},
                   .strides = {t.head_dim, t.spacing, t.row, t.stride * t.row},
                   .box = {64, 1, 1, rows, 1}});
}

CUtensorMap tile_map(const TiledTensor& t) {
  cuuint64_t sizes[5], strides[4];  // in bytes
  cuuint32_t box[5];
  const cuuint32_t step[] = {1, 1, 1, 1, 1};
  std::ranges::copy(t.sizes, sizes);
  std::ranges::transform(t.strides, strides, [](std::int64_t x) { return x * 2; });
  std::ranges::copy(t.box, box);
  CUtensorMap map;
  const CUresult result = of_driver<&cuTensorMapEncodeTiled>("cuTensorMapEncodeTiled")(
      &map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 5, const_cast<bf16*>(t.data), sizes, strides, box,
      step, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS)
    fail(Exit::internal, "cuTensorMapEncodeTiled: error ", static_cast<int>(result));
  return map;
}

}  // namespace mt::cuda
