// Adapters beside a model's weights on a GPU, in the type of its weights, give what they give there
// merged into the weights.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "formats/load_model.h"
#include "formats/peft/load_side_adapters.h"
#include "model/config/model_config.h"
#include "model/pass.h"
#include "tensor/device.h"
#include "tests/support/host_tensor.h"

namespace mt {
namespace {

const std::string kFolder = MT_TESTDATA "/trl/";

LoadedModel load(const char* dtype, const ModelSourceOptions& options = {}) {
  return load_model(kFolder + "llama", {}, DeviceOptions{.device_name = "cuda", .dtype = dtype},
                    {{ModelFamily::gpt}, "no text"}, options);
}

// Logits after each token of a text, and the largest's size.
std::vector<double> logits_of(const Model& model, const AdaptedRuns& adapted = {}) {
  constexpr std::int64_t kLength = 24;
  Stream stream(Device::cuda);
  Pass pass(model, stream, model.config().vocab_size);
  const PassSize size{.length = kLength, .rows = kLength, .adapted = adapted};
  pass.reserve([&](Pass& measured) {
    measured.input(size);
    measured.on_host(measured.logits());
  });
  const PassInput in = pass.input(size);
  std::iota(in.positions.as<std::int32_t>(), in.positions.as<std::int32_t>() + kLength, 0);
  std::iota(in.rows.as<std::int32_t>(), in.rows.as<std::int32_t>() + kLength, 0);
  for (std::int32_t i = 0; i < kLength; ++i) in.ids.as<std::int32_t>()[i] = 5 + i * i % 40;
  const ConstTensor logits = pass.on_host(pass.logits());
  std::vector<double> values;
  for (std::int64_t i = 0; i < logits.numel(); ++i) values.push_back(element(logits, i));
  return values;
}

// How far the numbers are from others, of the largest of these.
double apart(const std::vector<double>& values, const std::vector<double>& from) {
  double most = 0, largest = 0;
  for (std::size_t i = 0; i < from.size(); ++i) {
    most = std::max(most, std::abs(values[i] - from[i]));
    largest = std::max(largest, std::abs(from[i]));
  }
  return most / largest;
}

TEST(SideAdaptersOnGpu, SayWhatTheySayMerged) {
  if (device::count() == 0) GTEST_SKIP() << "no GPU";
  for (const auto& [dtype, tolerance] : {std::pair("fp32", 1e-4), std::pair("bf16", 3e-2)}) {
    const LoadedModel model = load(dtype);
    load_side_adapters(*model.model, kFolder + "llama", {kFolder + "llama-lora"});
    const LoadedModel merged = load(dtype, {.adapter = kFolder + "llama-lora"});
    const std::vector<double> expected = logits_of(*merged.model);
    EXPECT_LT(apart(logits_of(*model.model, {{1, 1}}), expected), tolerance) << dtype;
    EXPECT_GT(apart(logits_of(*model.model, {{0, 1}}), expected), 2 * tolerance) << dtype;
  }
}

}  // namespace
}  // namespace mt
