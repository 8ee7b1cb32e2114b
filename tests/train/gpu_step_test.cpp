// A step of training on a GPU beside the same step on the CPU: losses, every gradient, the weights
// after the optimizer; and that the GPU's bits repeat.
#include <gtest/gtest.h>

#include <map>

#include "model/gpt.h"
#include "optim/optimizer.h"
#include "tensor/half.h"
#include "tensor/host_copy.h"
#include "tests/support/host_tensor.h"
#include "train/executor.h"

namespace mt {
namespace {

constexpr std::int64_t kSequences = 2, kLength = 192, kVocabulary = 500;
constexpr int kMicroBatches = 2, kSteps = 3;

GptConfig gpt2() {
  GptConfig config;
  config.num_layers = 2;
  config.hidden_size = 128;
  config.num_attention_heads = 2;
  config.max_position_embeddings = kLength;
  config.vocab_size = kVocabulary;
  config.attention_dropout = config.hidden_dropout = 0.1;
  return config;
}

GptConfig llama() {
  GptConfig config = gpt2();
  config.hidden_size = 256;
  config.num_attention_heads = 4;
  config.group_query_attention = true;
  config.num_query_groups = 2;
  config.position_embedding_type = "rope";
  config.normalization = "RMSNorm";
  config.swiglu = true;
  config.add_bias_linear = false;
  config.untie_embeddings_and_output_weights = true;
  config.attention_dropout = config.hidden_dropout = 0;
  return config;
}

// Tokens as a function of the micro-batch; some of them do not count; documents of 50 tokens.
std::int64_t load(int micro_batch, const Batch& batch) {
  const std::int64_t tokens = kSequences * kLength;
  const auto token = [](std::int64_t n) {
    return static_cast<std::int32_t>((n * n + n / 7) % kVocabulary);
  };
  for (std::int64_t t = 0; t < tokens; ++t) {
    const std::int64_t n = micro_batch * tokens + t;
    batch.ids.as<std::int32_t>()[t] = token(n);
    batch.labels.as<std::int32_t>()[t] = token(n + 1);
    batch.positions.as<std::int32_t>()[t] = static_cast<std::int32_t>(t % kLength);
    if (batch.first_key)
      batch.first_key.as<std::int32_t>()[t] = static_cast<std::int32_t>(t % kLength / 50 * 50);
    with_float_type(batch.loss_mask.dtype(), [&]<class T>() {
      batch.loss_mask.as<T>()[t] = n % 5 == 0 ? 0 : 1;
      batch.row_weight.as<T>()[t] = batch.loss_mask.as<T>()[t] / T(300 * kMicroBatches);
    });
  }
  return 1000 + micro_batch * kSequences;
}

HostTensor in_f64(const Tensor& tensor) {
  const HostCopy here = HostCopy::of(tensor);
  HostTensor wide(DType::f64, tensor.shape());
  const auto widen = [&]<class T>(const T* from) {
    for (std::int64_t i = 0; i < tensor.numel(); ++i)
      wide.span<double>()[static_cast<std::size_t>(i)] = static_cast<double>(from[i]);
  };
  const void* const data = here.tensor().data();
  if (tensor.dtype() == DType::bf16)
    for (std::int64_t i = 0; i < tensor.numel(); ++i)
      wide.span<double>()[static_cast<std::size_t>(i)] =
          static_cast<double>(static_cast<float>(static_cast<const Bf16*>(data)[i]));
  else if (tensor.dtype() == DType::f16)
    for (std::int64_t i = 0; i < tensor.numel(); ++i)
      wide.span<double>()[static_cast<std::size_t>(i)] =
          static_cast<double>(static_cast<float>(static_cast<const Fp16*>(data)[i]));
  else if (tensor.dtype() == DType::f32)
    widen(static_cast<const float*>(data));
  else
    widen(static_cast<const double*>(data));
  return wide;
}

struct Result {
  std::vector<double> losses;  // of the micro-batches of the first step, then of the last
  std::map<std::string, HostTensor> gradients, masters;  // of the first step, after the last
  StepMemory measured, used;
};

struct Case {
  Device device;
  DType dtype;
  bool document_masks = false;
  double loss_scale = 1;
};

Result run(GptConfig config, const Case& what) {
  config.complete();
  const StepShape shape{.micro_batch_size = kSequences,
                        .seq_length = kLength,
                        .hidden_size = config.hidden_size,
                        .dtype = what.dtype,
                        .seed = 77,
                        .document_masks = what.document_masks};
  const Schedule schedule = one_f_one_b({}, kMicroBatches);
  const auto group = make_single_group();
  const World alone(*group, {});
  Result result;
  {
    Stream meta(Device::meta);
    Gpt model(config);
    model.table().allocate(Device::meta, what.dtype, true);
    result.measured = measure_memory(model, shape, schedule, {}, alone, meta);
  }
  OptimizerOptions options;
  options.loss_scale.loss_scale = what.loss_scale;
  Stream stream(what.device);
  Gpt model(config);
  Optimizer optimizer(model.table(), what.device, what.dtype, options, alone);
  model.initialize(5, stream);
  optimizer.take_values(stream);
  Executor executor(model, shape, result.measured, alone, stream);
  const LoadBatch scaled = [&](int micro_batch, const Batch& batch) {
    const std::int64_t first = load(micro_batch, batch);
    with_float_type(batch.row_weight.dtype(), [&]<class T>() {
      for (T& weight : batch.row_weight.span<T>()) weight *= static_cast<T>(what.loss_scale);
    });
    return first;
  };
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_gradients(stream);
    executor.run(schedule, scaled, true);
    stream.synchronize();
    if (step == 0 || step == kSteps - 1)
      result.losses.insert(result.losses.end(), executor.losses().begin(), executor.losses().end());
    if (step == 0)
      for (const Param& row : model.table().rows())
        result.gradients.emplace(row.name, in_f64(row.grad));
    optimizer.step({.learning_rate = 1e-3, .decoupled_learning_rate = 1e-3, .weight_decay = 0.1}, 1,
                   stream);
  }
  stream.synchronize();
  for (const Optimizer::Piece& piece : optimizer.pieces())
    result.masters.emplace(piece.row->name, in_f64(piece.master));
  result.used = executor.peak();
  return result;
}

double norm(const ConstTensor& tensor) { return std::sqrt(dot_of(tensor, tensor)); }

// |got - expected| / |expected|
double distance(const ConstTensor& got, const ConstTensor& expected) {
  double sum = 0;
  for (std::int64_t i = 0; i < expected.numel(); ++i) {
    const double error = element(got, i) - element(expected, i);
    sum += error * error;
  }
  return std::sqrt(sum) / norm(expected);
}

void expect_near(const Result& got, const Result& expected, double tolerance) {
  ASSERT_EQ(got.losses.size(), expected.losses.size());
  for (std::size_t i = 0; i < expected.losses.size(); ++i)
    EXPECT_NEAR(got.losses[i], expected.losses[i], tolerance * expected.losses[i]) << i;
  for (const auto& [name, gradient] : expected.gradients)
    EXPECT_LE(distance(got.gradients.at(name).view(), gradient.view()), tolerance) << name;
  EXPECT_EQ(got.used, got.measured);
}

class GpuStep : public testing::Test {
 protected:
  void SetUp() override {
    if (device::count() == 0) GTEST_SKIP() << "no GPU";
  }
};

TEST_F(GpuStep, Gpt2InFp32) {
  expect_near(run(gpt2(), {Device::cuda, DType::f32}), run(gpt2(), {Device::cpu, DType::f64}),
              1e-5);
}

TEST_F(GpuStep, LlamaInFp32) {
  expect_near(run(llama(), {Device::cuda, DType::f32}), run(llama(), {Device::cpu, DType::f64}),
              1e-5);
}

TEST_F(GpuStep, Gpt2InBf16) {
  expect_near(run(gpt2(), {Device::cuda, DType::bf16}), run(gpt2(), {Device::cpu, DType::f64}),
              1e-2);
}

TEST_F(GpuStep, LlamaInBf16WithDocuments) {
  expect_near(run(llama(), {Device::cuda, DType::bf16, true}),
              run(llama(), {Device::cpu, DType::f64, true}), 1e-2);
}

TEST_F(GpuStep, LlamaInFp16) {
  Result got = run(llama(), {Device::cuda, DType::f16, false, 1024});
  for (auto& [name, gradient] : got.gradients)
    for (double& x : gradient.span<double>()) x /= 1024;
  expect_near(got, run(llama(), {Device::cpu, DType::f64}), 1e-2);
}

TEST_F(GpuStep, SameBitsAgain) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Result first = run(gpt2(), {Device::cuda, dtype});
    for (int again = 0; again < 3; ++again) {
      const Result second = run(gpt2(), {Device::cuda, dtype});
      EXPECT_EQ(second.losses, first.losses);
      for (const auto& [name, master] : first.masters)
        EXPECT_SAME_BITS(second.masters.at(name).view(), master.view());
    }
  }
}

}  // namespace
}  // namespace mt
