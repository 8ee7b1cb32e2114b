#include "formats/smoothing.h"

#include <algorithm>
#include <cmath>

#include "base/half.h"
#include "model/config/model_config.h"
#include "model/model_table.h"

namespace mt {
namespace {

// The rows of what makes a layer's inputs, of the same layer: one for each channel, in order.
struct Makers {
  std::string module;
  std::vector<std::string_view> params = {};
  std::vector<std::int64_t> rows = {};
  float shift = 0;
};

Makers makers_of(const ModelConfig& c, const Param& row) {
  Makers makers{.module = row.place.module};
  const std::string& module = row.place.module;
  const auto take = [&](std::int64_t row_of_channel) { makers.rows.push_back(row_of_channel); };
  const std::int64_t channels = row.shape[1];
  const bool behind_norm = module.ends_with(".linear_qkv") || module.ends_with(".linear_fc1");
  if (behind_norm && !c.parallel_block) {  // else the norm is that of attention and the MLP
    makers.params = {"layer_norm_weight", "layer_norm_bias"};
    makers.shift = c.apply_layernorm_1p ? 1 : 0;
    for (std::int64_t j = 0; j < channels; ++j) take(j);
  } else if (module == "mlp.linear_fc2" && c.is_gated()) {
    makers.module = "mlp.linear_fc1";
    makers.params = {"weight", "bias"};
    for (std::int64_t j = 0; j < channels; ++j) take(channels + j);
  } else if (module == "self_attention.linear_proj" && c.kv_heads() == c.num_attention_heads &&
             c.clip_qkv == 0) {  // which bounds values
    // Of each head the query, the gate, if it has one, the key, the value.
    makers.module = "self_attention.linear_qkv";
    makers.params = {"weight", "bias"};
    const std::int64_t width = c.head_dim(), parts = c.attention_output_gate ? 4 : 3;
    for (std::int64_t j = 0; j < channels; ++j)
      take((j / width * parts + parts - 1) * width + j % width);
  }
  return makers;
}

float rounded(float x, DType dtype) {
  if (dtype == DType::bf16) return static_cast<float>(Bf16(x));
  return dtype == DType::f16 ? static_cast<float>(Fp16(x)) : x;
}

// What a norm is over what it is as numbers of `dtype`, divided by the scales: 1 where that would
// be nothing, and the scale where it would be infinite, which is refused when it is read.
std::vector<float> scales_of_rounded(const std::vector<float>& norm, float shift, DType dtype,
                                     const std::vector<float>& scales) {
  std::vector<float> left(scales.size(), 1);
  for (std::size_t j = 0; j < scales.size(); ++j) {
    const float weight = norm[j] + shift, made = rounded(weight / scales[j] - shift, dtype) + shift;
    if (weight != 0 && made != 0) left[j] = std::isfinite(made) ? weight / made : scales[j];
  }
  return left;
}

}  // namespace

RowFactorsByName smoothing_factors(const ModelSource& source, const Calibration& calibration,
                                   const std::function<DType(const Param&)>& dtype_of,
                                   const FindScales& find) {
  const ParamTable table = model_rows(source.config());
  const auto at = [&](const Param& near, const std::string& module, std::string_view param) {
    RowPlace place = near.place;
    place.module = module;
    place.param = param;
    const auto found = std::ranges::find(table.rows(), place, &Param::place);
    return found == table.rows().end() ? nullptr : &*found;
  };
  RowFactorsByName factors;
  for (const Param& row : table.rows()) {
    if (!is_of_layer(row, "weight") || row.shape.rank() != 2) continue;
    const Makers makers = makers_of(source.config(), row);
    if (makers.params.empty() || at(row, makers.module, makers.params.front()) == nullptr) continue;
    std::vector<float> scales = find(row, calibration.of(row));
    if (makers.params.front() == "layer_norm_weight") {
      const Param& norm = *at(row, makers.module, makers.params.front());
      scales = scales_of_rounded(matrix_of(source, norm), makers.shift, dtype_of(norm), scales);
    }
    factors[row.name()].columns = scales;
    for (const std::string_view param : makers.params) {
      const Param* const maker = at(row, makers.module, param);
      if (maker == nullptr) continue;
      RowFactors& by = factors[maker->name()];
      by.rows.resize(static_cast<std::size_t>(maker->shape[0]), 1);
      if (param == "layer_norm_weight") by.shift = makers.shift;
      for (std::size_t j = 0; j < scales.size(); ++j)
        by.rows[static_cast<std::size_t>(makers.rows[j])] = 1 / scales[j];
    }
  }
  return factors;
}

std::vector<float> matrix_of(const ModelSource& source, const Param& row) {
  std::vector<float> numbers(static_cast<std::size_t>(row.shape.numel()));
  source.read(row, "", {numbers.data(), DType::f32, row.shape});
  return numbers;
}

std::vector<float> smooth_quant_scales(const ModelSource& source, const Param& row,
                                       const LayerInputs& inputs) {
  const std::vector<float> matrix = matrix_of(source, row);
  const std::size_t in = inputs.largest.size();
  std::vector<float> weights(in), scales(in, 1);
  for (std::size_t i = 0; i < matrix.size(); ++i)
    weights[i % in] = std::max(weights[i % in], std::fabs(matrix[i]));
  for (std::size_t j = 0; j < in; ++j)
    if (inputs.largest[j] > 0 && weights[j] > 0)
      scales[j] = std::clamp(std::sqrt(inputs.largest[j]) / std::sqrt(weights[j]), 1e-4F, 1e4F);
  return scales;
}

}  // namespace mt
