#include "train/check/small_run.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/half.h"
#include "data/samples/gpt_dataset.h"
#include "model/config/model_config.h"
#include "model/families/gpt.h"
#include "model/pass.h"
#include "ops/kept.h"
#include "optim/optimizer.h"
#include "tensor/host_copy.h"

namespace mt {
namespace {

constexpr std::int64_t kSequences = 2, kLength = 192, kTokens = kSequences * kLength;
constexpr std::int64_t kVocabulary = 500, kDocument = 50;
constexpr int kSteps = 5;

std::int32_t token(std::int64_t n) {
  return static_cast<std::int32_t>((n * n + n / 7) % kVocabulary);
}

// Every fifth token does not count.
std::int64_t load(int micro_batch, const Fields& batch, double loss_scale) {
  for (std::int64_t t = 0; t < kTokens; ++t) {
    const std::int64_t n = micro_batch * kTokens + t;
    batch[Field::ids].as<std::int32_t>()[t] = token(n);
    batch[Field::labels].as<std::int32_t>()[t] = token(n + 1);
    batch[Field::positions].as<std::int32_t>()[t] = static_cast<std::int32_t>(t % kLength);
    if (const Tensor& first_key = batch[Field::first_key])
      first_key.as<std::int32_t>()[t] =
          static_cast<std::int32_t>(t % kLength / kDocument * kDocument);
    with_float_type(batch[Field::loss_mask].dtype(), [&]<class T>() {
      const T mask = n % 5 == 0 ? 0 : 1;
      batch[Field::loss_mask].as<T>()[t] = mask;
      batch[Field::weight].as<T>()[t] = mask * static_cast<T>(loss_scale) / T(600);
    });
  }
  return 1000 + micro_batch * kSequences;
}

void round_to(DType dtype, const Tensor& tensor) {
  if (size_of(tensor.dtype()) <= size_of(dtype)) return;
  const HostCopy here = HostCopy::of(tensor);
  with_float_type(tensor.dtype(), [&]<class T>() {
    for (T& x : here.tensor().span<T>()) {
      const auto value = static_cast<float>(x);
      x = static_cast<T>(dtype == DType::bf16  ? static_cast<float>(Bf16(value))
                         : dtype == DType::f16 ? static_cast<float>(Fp16(value))
                                               : value);
    }
  });
  here.upload();
}

std::vector<double> in_f64(const Tensor& tensor) {
  const HostCopy here = HostCopy::of(tensor);
  if (tensor.dtype() == DType::bf16) {
    const auto* const values = static_cast<const Bf16*>(here.tensor().data());
    std::vector<double> wide;
    for (std::int64_t i = 0; i < tensor.numel(); ++i) wide.push_back(static_cast<float>(values[i]));
    return wide;
  }
  return with_float_type(tensor.dtype(), [&]<class T>() {
    const auto values = here.tensor().span<T>();
    return std::vector<double>(values.begin(), values.end());
  });
}

std::vector<double> master_of(const Optimizer::Piece& piece) {
  if (!piece.master_scale) return in_f64(piece.master);
  std::vector<float> wide(static_cast<std::size_t>(piece.master.numel()));
  read_all(wide, piece.master, piece.master_scale);
  return {wide.begin(), wide.end()};
}

// The logits of all tokens of a micro-batch.
std::vector<double> logits_of(const Gpt& model, Stream& stream) {
  const PassSize size{.sequences = kSequences, .length = kLength, .rows = kTokens};
  Pass pass(model, stream, kVocabulary);
  pass.reserve([&](Pass& measured) {
    measured.input(size);
    measured.on_host(measured.logits());
  });
  const PassInput in = pass.input(size);
  for (std::int64_t t = 0; t < kTokens; ++t) {
    in.ids.as<std::int32_t>()[t] = token(t);
    in.positions.as<std::int32_t>()[t] = static_cast<std::int32_t>(t % kLength);
  }
  std::iota(in.rows.as<std::int32_t>(), in.rows.as<std::int32_t>() + kTokens, 0);
  const ConstTensor logits = pass.on_host(pass.logits());
  return with_float_type(logits.dtype(), [&]<class T>() {
    const auto values = logits.span<T>();
    return std::vector<double>(values.begin(), values.end());
  });
}

// The schedule of the first of two pipeline stages, but without messages.
Schedule one_ahead(int micro_batches) {
  Schedule list = one_f_one_b({.ranks = 2}, micro_batches);
  std::erase_if(list, [](const Action& action) {
    return action.kind != Action::Kind::forward && action.kind != Action::Kind::backward;
  });
  return list;
}

ModelConfig completed(ModelConfig config) {
  config.complete();
  return config;
}

}  // namespace

ModelConfig small_gpt2() {
  ModelConfig config;
  config.num_layers = 2;
  config.hidden_size = 128;
  config.num_attention_heads = 2;
  config.max_position_embeddings = kLength;
  config.vocab_size = kVocabulary;
  config.attention_dropout = config.hidden_dropout = 0.1;
  return config;
}

ModelConfig small_llama() {
  ModelConfig config = small_gpt2();
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

SmallRunResult run_small(const SmallRun& run) {
  const ModelConfig config = completed(run.model());
  const LanguageModelling objective;
  FieldSpecs fields = gpt_fields(kLength, run.document_masks);
  fields.push_back(objective.fields(fields).front());
  const StepShape shape{.micro_batch_size = kSequences,
                        .dtype = run.dtype,
                        .seed = 77,
                        .fields = fields,
                        .experts = config.num_experts > 0,
                        .shared_experts_aside = run.shared_experts_aside,
                        .fp8 = run.fp8};
  const Schedule schedule =
      run.ahead ? one_ahead(2 * run.micro_batches) : one_f_one_b({}, run.micro_batches);
  const auto alone = make_single_group();
  const World world(*alone, {});
  SmallRunResult result;
  Stream meta(Device::meta);
  Gpt on_meta(config);
  on_meta.table().allocate(Device::meta, run.dtype, true);
  result.planned = measure_memory(on_meta, objective, shape, schedule, {}, world, meta);

  OptimizerOptions options;
  options.loss_scale.loss_scale = run.loss_scale;
  options.grad_reduce_in_bf16 = run.bf16_gradients;
  if (run.bf16_moments) options.exp_avg_dtype = options.exp_avg_sq_dtype = "bf16";
  if (run.fp16_masters) options.main_params_dtype = "fp16";
  Stream stream(run.device);
  Gpt model(config);
  Optimizer optimizer(model.table(), run.device, run.dtype, options, world);
  optimizer.set_values(
      [&](const Param& row) {
        initialize(row, row.value, 5, stream);
        stream.synchronize();
        round_to(run.drawn, row.value);
      },
      stream);
  Executor executor(model, objective, shape, result.planned, world, stream);
  executor.use_graphs(run.graphs);
  result.logits = logits_of(model, stream);
  const LoadBatch scaled = [&](int micro_batch, const Fields& batch) {
    return load(micro_batch, batch, run.loss_scale);
  };
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_gradients(stream);
    executor.run(schedule, scaled, true);
    if (Fp8Layers* const fp8 = executor.fp8()) fp8->update_scales({}, stream);
    std::ranges::copy(executor.fetch_losses(), std::back_inserter(result.losses));
    if (step == 0)
      for (const Param& row : model.table().rows()) {
        std::vector<double> gradient = in_f64(row.grad);
        for (double& x : gradient) x /= run.loss_scale;
        result.gradients.emplace(row.name(), std::move(gradient));
      }
    optimizer.step({.learning_rate = 1e-3, .decoupled_learning_rate = 1e-3, .weight_decay = 0.1}, 1,
                   stream);
  }
  stream.synchronize();
  for (const Optimizer::Piece& piece : optimizer.pieces())
    result.weights.emplace(piece.row->name(), master_of(piece));
  result.used = executor.peak();
  result.graphs = executor.graphs();
  return result;
}

double relative_error(const std::vector<double>& got, const std::vector<double>& expected) {
  assert(got.size() == expected.size());
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    error += (got[i] - expected[i]) * (got[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  if (std::isnan(error)) return std::numeric_limits<double>::infinity();
  return error == 0 ? 0 : std::sqrt(error / norm);
}

}  // namespace mt
