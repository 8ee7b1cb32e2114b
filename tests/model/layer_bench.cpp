// layer_bench: the time of layers of a hybrid on a GPU in bf16, forward and backward with gradients
// of weights in fp32, their norms and residuals included, without embedding, head and optimizer.
// Prints one line of JSON: medians of so many rounds, in milliseconds, of all layers together.
//
//   layer_bench [pattern=M] [hidden=2560] [heads=80] [groups=1] [attention-heads=32]
//               [kv-heads=8] [ffn=10240] [experts=8] [chosen=2] [gated=0] [tokens=8192]
//               [sequences=1] [rounds=30]
//
// pattern: a letter for each layer, as --hybrid-override-pattern has them.  heads, groups: of a
// mixer, of 64 channels and states of 128.  experts, chosen: of layers E, and to how many of them a
// token goes; gated: MLPs and experts have SwiGLU, else squared ReLU.  tokens: of a sequence.
#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "kernels/step_record.h"
#include "model/layers/layer_rows.h"
#include "model/model.h"
#include "nn/stack.h"
#include "nn/weight_grads.h"
#include "ops/ops.h"
#include "tensor/arena.h"
#include "tensor/buffer.h"
#include "tensor/device.h"
#include "tensor/host_copy.h"

namespace mt {
namespace {

struct Sizes {
  std::string pattern = "M";
  std::map<std::string, std::int64_t> of = {
      {"hidden", 2560}, {"heads", 80},    {"groups", 1},    {"attention-heads", 32},
      {"kv-heads", 8},  {"ffn", 10240},   {"experts", 8},   {"chosen", 2},
      {"gated", 0},     {"tokens", 8192}, {"sequences", 1}, {"rounds", 30}};

  Sizes(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
      const std::string argument = argv[i];
      const std::size_t equals = argument.find('=');
      const std::string name = argument.substr(0, equals);
      if (equals == std::string::npos || (name != "pattern" && !of.contains(name)))
        fail(Exit::usage, argument, ": expected NAME=N or pattern=LETTERS");
      if (name == "pattern")
        pattern = argument.substr(equals + 1);
      else
        of[name] = std::atoll(argv[i] + equals + 1);
    }
  }
  std::int64_t at(const char* name) const { return of.at(name); }
};

ModelConfig config_of(const Sizes& sizes) {
  ModelConfig c;
  c.family = ModelFamily::mamba;
  c.hybrid_pattern = sizes.pattern;
  c.num_layers = std::ssize(sizes.pattern);
  c.hidden_size = sizes.at("hidden");
  c.mamba_num_heads = sizes.at("heads");
  c.mamba_num_groups = sizes.at("groups");
  c.num_attention_heads = sizes.at("attention-heads");
  c.kv_channels = 128;
  c.group_query_attention = true;
  c.num_query_groups = sizes.at("kv-heads");
  c.ffn_hidden_size = sizes.at("ffn");
  c.swiglu = sizes.at("gated") != 0;
  c.squared_relu = !c.swiglu;
  if (sizes.pattern.find('E') != std::string::npos) {
    c.num_experts = sizes.at("experts");
    c.moe_router_topk = sizes.at("chosen");
  }
  c.vocab_size = 64;
  c.max_position_embeddings = sizes.at("tokens");
  c.position_embedding_type = "none";
  c.normalization = "RMSNorm";
  c.add_bias_linear = false;
  c.attention_dropout = c.hidden_dropout = 0;
  c.complete();
  return c;
}

class Bench {
 public:
  explicit Bench(const Sizes& sizes)
      : config_(config_of(sizes)),
        stack_(make_stack({table_, config_}, {.begin = 0, .end = config_.num_layers}, {})),
        sequences_(sizes.at("sequences")),
        length_(sizes.at("tokens")),
        positions_(Device::cuda,
                   static_cast<std::size_t>(sequences_ * length_) * sizeof(std::int32_t)) {
    table_.allocate(Device::cuda, DType::bf16, true);
    for (const Param& row : table_.rows()) initialize(row, row.value, 1234, stream_);
    const HostCopy positions = HostCopy::for_writing(this->positions());
    for (std::int64_t i = 0; i < sequences_ * length_; ++i)
      positions.tensor().as<std::int32_t>()[i] = static_cast<std::int32_t>(i % length_);
    positions.upload();
    const Shape shape{sequences_ * length_, config_.hidden_size};
    const std::size_t bytes = static_cast<std::size_t>(shape.numel()) * size_of(DType::bf16);
    for (Buffer* const buffer : {&x_, &dy_, &spent_}) *buffer = Buffer(Device::cuda, bytes);
    const ElementRun all{.count = shape.numel()};
    fill_normal(x_.tensor(DType::bf16, shape), 1, RandomKey::make(1, 1), {&all, 1}, stream_);
    fill_normal(dy_.tensor(DType::bf16, shape), 1e-3, RandomKey::make(1, 2), {&all, 1}, stream_);
    search_products(stream_);
    for (EventHandle& event : events_) event = device::make_timer();
  }
  Bench(const Bench&) = delete;
  ~Bench() {
    for (EventHandle event : events_) device::destroy_event(event);
  }

  // Seconds of the forward and of the backward.
  std::array<double, 2> round() {
    for (Arena* const arena : {&keep_, &layer_, &deferred_}) arena->rewind(0);
    // Gradients of matrices are replaced, as in a step of one micro-batch.
    weight_grads_.begin();
    Step s{.stream = stream_,
           .keep = keep_,
           .layer = layer_,
           .deferred = deferred_,
           .weight_grads = weight_grads_,
           .record = static_cast<const StepRecord*>(record_.data()),
           .dtype = DType::bf16,
           .training = true,
           .tokens = {.sequences = sequences_, .length = length_, .positions = positions()}};
    const Shape shape{sequences_ * length_, config_.hidden_size};
    const Tensor dy = spent_.tensor(DType::bf16, shape);
    copy(dy, dy_.tensor(DType::bf16, shape), stream_);
    Stack::Saved saved;
    device::record(events_[0], stream_.handle());
    stack_.forward(s, x_.tensor(DType::bf16, shape), &saved);
    device::record(events_[1], stream_.handle());
    stack_.backward(s, dy, saved);
    device::record(events_[2], stream_.handle());
    stream_.synchronize();
    return {device::seconds_between(events_[0], events_[1]),
            device::seconds_between(events_[1], events_[2])};
  }

 private:
  static constexpr std::size_t kBytes = std::size_t{20} << 30;

  Tensor positions() const { return positions_.tensor(DType::i32, {sequences_ * length_}); }

  ModelConfig config_;
  ParamTable table_;
  Stream stream_{Device::cuda};
  Stack stack_;
  std::int64_t sequences_, length_;
  Buffer positions_;
  Buffer x_, dy_, spent_, record_{Device::cuda, sizeof(StepRecord)};
  Arena keep_{Buffer(Device::cuda, kBytes)}, layer_{Buffer(Device::cuda, kBytes)},
      deferred_{Buffer(Device::cuda, kBytes)};
  WeightGrads weight_grads_;
  std::array<EventHandle, 3> events_{};
};

double median(std::vector<double> x) {
  std::ranges::nth_element(x, x.begin() + std::ssize(x) / 2);
  return x[x.size() / 2];
}

void run(int argc, char** argv) {
  const Sizes sizes(argc, argv);
  Bench bench(sizes);
  constexpr std::int64_t kWarmUp = 10;
  std::vector<double> forward, backward, both;
  for (std::int64_t i = 0; i < kWarmUp + sizes.at("rounds"); ++i) {
    const auto [there, back] = bench.round();
    if (i < kWarmUp) continue;
    forward.push_back(1000 * there);
    backward.push_back(1000 * back);
    both.push_back(1000 * (there + back));
  }
  std::printf("{\"pattern\": \"%s\", \"forward_ms\": %.4f, \"backward_ms\": %.4f, \"ms\": %.4f}\n",
              sizes.pattern.c_str(), median(forward), median(backward), median(both));
}

}  // namespace
}  // namespace mt

int main(int argc, char** argv) {
  try {
    mt::run(argc, argv);
  } catch (const mt::Error& error) {
    std::fprintf(stderr, "layer_bench: %s\n", error.what());
    return static_cast<int>(error.code());
  }
  return 0;
}
