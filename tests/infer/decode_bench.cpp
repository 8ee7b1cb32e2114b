// decode_bench: tokens per second of a Llama-style model, or a Mamba-2, with made-up weights, on a
// GPU in bf16 or, with cpu=1, on the CPU in fp32, by the steps that mt-generate takes, and the part
// of what memory would allow.  Prints one line of JSON: `rate` are the bytes per second of memory
// in this run, on a GPU of a large copy, read and written, on the CPU of a large array that all
// threads read, the best of five times before and behind the steps; the bound is that rate over the
// bytes of the weights (but of an embedding that is no output layer, too, of which a step reads a
// row) and of the keys and values, or of the mixers' states, in fp32, read and written.
//
//   decode_bench [layers=16] [hidden=2048] [heads=32] [kv-heads=8] [ffn=8192] [vocab=128256]
//                [ctx=1024] [new=128] [batch=1] [cpu=0] [tied=0] [blocks=0] [type=-1]
//                [mamba-heads=0] [mamba-groups=1]
//
// mamba-heads: not 0: every layer is a Mamba-2's mixer of so many, of 64 channels and states of
// 128, and nothing else.
// blocks=1: weights lie in the blocks of a GGUF file of q4_k_s without its exceptions: the output
// layer in q6_k, the rest in q4_k, or in q8_0 and q5_0 where blocks of 256 do not fit; with type, a
// number of BlockType (kernels/packed_rows.h), all in such.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/threads.h"
#include "infer/cached_pass.h"
#include "kernels/packed_rows.h"
#include "model/config/model_config.h"
#include "model/families/gpt.h"
#include "nn/packed_weight.h"
#include "ops/ops.h"
#include "tensor/device.h"

namespace mt {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::map<std::string, std::int64_t> sizes_of(int argc, char** argv) {
  std::map<std::string, std::int64_t> sizes = {
      {"layers", 16}, {"hidden", 2048},  {"heads", 32}, {"kv-heads", 8},    {"ffn", 8192},
      {"ctx", 1024},  {"vocab", 128256}, {"new", 128},  {"batch", 1},       {"cpu", 0},
      {"tied", 0},    {"blocks", 0},     {"type", -1},  {"mamba-heads", 0}, {"mamba-groups", 1}};
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const std::size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    if (equals == std::string::npos || !sizes.contains(name))
      fail(Exit::usage, argument, ": expected NAME=N");
    sizes[name] = std::atoll(argv[i] + equals + 1);
  }
  return sizes;
}

ModelConfig config_of(std::map<std::string, std::int64_t>& sizes) {
  ModelConfig c;
  c.num_layers = sizes["layers"];
  c.hidden_size = sizes["hidden"];
  c.num_attention_heads = sizes["heads"];
  c.group_query_attention = true;
  c.num_query_groups = sizes["kv-heads"];
  c.ffn_hidden_size = sizes["ffn"];
  c.vocab_size = sizes["vocab"];
  c.max_position_embeddings = sizes["ctx"];
  c.position_embedding_type = "rope";
  c.rotary_base = 500000;
  c.normalization = "RMSNorm";
  c.swiglu = true;
  c.add_bias_linear = false;
  c.untie_embeddings_and_output_weights = sizes["tied"] == 0;
  if (sizes["mamba-heads"] != 0) {
    c.family = ModelFamily::mamba;
    c.mamba_num_heads = sizes["mamba-heads"];
    c.mamba_num_groups = sizes["mamba-groups"];
    c.position_embedding_type = "none";
  }
  c.complete();
  return c;
}

std::vector<BlockType> block_types(const Param& row, bool tied, std::int64_t asked) {
  const bool is_long = row.shape[1] % 256 == 0,
             is_output = row.name() == "output_layer.weight" || (tied && row.is_vocabulary());
  const BlockType type = asked >= 0  ? static_cast<BlockType>(asked)
                         : is_output ? (is_long ? BlockType::q6_k : BlockType::q8_0)
                         : is_long   ? BlockType::q4_k
                                     : BlockType::q5_0;
  return std::vector<BlockType>(static_cast<std::size_t>(row.shape[0]), type);
}

// Bytes that are small numbers where they are scales.
void make_up_blocks(const Param& row, const std::vector<BlockType>& types) {
  fill_blocks(row, types, [&](std::uint8_t* bytes) {
    const std::int64_t count = PackedRows::bytes(types, row.shape[1]);
    std::uint32_t state = 1;
    for (std::int64_t i = 0; i < count; ++i)
      bytes[i] = (state = state * 1664525 + 1013904223) >> 24 & 0x1f;
    PackedRows::lay_out(bytes, types, row.shape[1]);
  });
}

// A few million normal numbers, again and again.
void fill_weights(const ParamTable& table, bool tied, std::int64_t type, Stream& stream) {
  const Buffer some(table.device(), std::size_t{1} << 24);
  const Tensor numbers = some.tensor(table.dtype(), {1 << 22});
  const ElementRun all{.count = numbers.numel()};
  fill_normal(numbers, 0.02, RandomKey::make(1, 1), {&all, 1}, stream);
  for (const Param& row : table.rows()) {
    if (row.packed_as != PackedAs::none) {
      make_up_blocks(row, block_types(row, tied, type));
      continue;
    }
    if (row.shape.rank() == 1) {
      fill(row.value, 1, stream);
      continue;
    }
    const Tensor value = row.value.reshape({row.value.numel()});
    for (std::int64_t i = 0; i < value.numel(); i += numbers.numel()) {
      const std::int64_t count = std::min(numbers.numel(), value.numel() - i);
      copy(value.rows(i, i + count), numbers.rows(0, count), stream);
    }
  }
  stream.synchronize();
}

double copy_rate(Stream& stream) {
  constexpr std::size_t kBytes = std::size_t{1} << 31;
  const Buffer from(Device::cuda, kBytes), to(Device::cuda, kBytes);
  device::set_zero(from.data(), kBytes, stream.handle());
  const auto copies = [&](int count) {
    for (int i = 0; i < count; ++i) device::copy(to.data(), from.data(), kBytes, stream.handle());
    stream.synchronize();
  };
  copies(3);
  const auto start = Clock::now();
  copies(20);
  return 20 * 2 * static_cast<double>(kBytes) / seconds_since(start);
}

// Of the CPU's threads, each of which adds up numbers of its own.
double read_rate(int threads) {
  constexpr std::int64_t kCount = std::int64_t{1} << 28;  // 1 GiB, as no cache has
  static const std::vector<float> numbers(kCount, 1);
  const std::int64_t each = kCount / threads;
  std::atomic<float> sink = 0;
  double best = 0;
  for (int round = 0; round < 5; ++round) {
    const auto start = Clock::now();
    {
      std::vector<std::jthread> all;
      for (int t = 0; t < threads; ++t)
        all.emplace_back([&, from = numbers.data() + t * each] {
          constexpr std::int64_t kSums = 64;
          float sums[kSums] = {};
          for (std::int64_t i = 0; i + kSums <= each; i += kSums)
            for (std::int64_t k = 0; k < kSums; ++k) sums[k] += from[i + k];
          for (const float sum : sums) sink += sum;
        });
    }
    best =
        std::max(best, static_cast<double>(each * threads) * sizeof(float) / seconds_since(start));
  }
  return best;
}

void run(int argc, char** argv) {
  auto sizes = sizes_of(argc, argv);
  const ModelConfig config = config_of(sizes);
  const std::int64_t batch = sizes["batch"], prompt = sizes["ctx"] / 2, count = sizes["new"];
  constexpr std::int64_t kWarmUp = 8;
  if (batch > CachedPass::kTogether || prompt + kWarmUp + count > sizes["ctx"])
    fail(Exit::usage, "batch: at most ", CachedPass::kTogether, "; new: at most ctx/2 - ", kWarmUp);
  const Device device = sizes["cpu"] != 0 ? Device::cpu : Device::cuda;
  const auto memory_rate = [&](Stream& stream) {
    return device == Device::cpu ? read_rate(worker_threads(0)) : copy_rate(stream);
  };
  Gpt model(config);
  for (Param& row : model.table().rows())
    if (sizes["blocks"] != 0 && row.reads_blocks)
      hold_in_blocks(row, block_types(row, sizes["tied"] != 0, sizes["type"]), device);
  model.table().allocate(device, device == Device::cpu ? DType::f32 : DType::bf16, false);
  Stream stream(device);
  fill_weights(model.table(), sizes["tied"] != 0, sizes["type"], stream);
  double weights = 0;
  for (const Param& row : model.table().rows())
    if (sizes["tied"] != 0 || row.name() != "embedding.word_embeddings.weight")
      weights += static_cast<double>(row.value.bytes());

  CachedPass pass(
      model,
      {.vocab_size = config.vocab_size, .sequences = batch, .cache_tokens = batch * sizes["ctx"]});
  std::vector<std::int64_t> sequences;
  std::vector<std::int32_t> ids;
  std::vector<Choice> choices(static_cast<std::size_t>(batch), Choice{{.temperature = 0}, {}});
  for (std::int64_t n = 0; n < batch; ++n) {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(prompt));
    for (std::size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = static_cast<std::int32_t>((i * 7919 + 31 * static_cast<std::size_t>(n)) %
                                            static_cast<std::size_t>(config.vocab_size));
    pass.next_logits(n, tokens);
    sequences.push_back(n);
    ids.push_back(tokens.back());
  }
  const auto steps = [&](std::int64_t number) {
    for (std::int64_t i = 0; i < number; ++i) {
      const auto next = pass.next_tokens(sequences, ids, choices);
      ids.assign(next.begin(), next.end());
      for (Choice& choice : choices) ++choice.place.token;
    }
  };
  const double before = memory_rate(stream);
  steps(kWarmUp);
  const auto start = Clock::now();
  steps(count);
  const double seconds = seconds_since(start) / static_cast<double>(count);
  const auto bytes = static_cast<std::int64_t>(size_of(model.table().dtype()));
  const std::int64_t of_layer =
      config.has_layer('M')
          ? 2 * static_cast<std::int64_t>(sizeof(float)) * config.mamba_inner() *
                config.mamba_state_dim
          : 2 * bytes * config.kv_heads() * config.head_dim() * (prompt + count / 2);
  const auto cached = static_cast<double>(of_layer * config.num_layers * batch);
  const double rate = std::max(before, memory_rate(stream));
  std::printf(
      "{\"layers\": %lld, \"hidden\": %lld, \"batch\": %lld, \"ms\": %.4f, "
      "\"tokens_per_second\": %.1f, \"weight_bytes\": %.0f, \"rate\": %.4g, "
      "\"of_bound\": %.3f}\n",
      static_cast<long long>(config.num_layers), static_cast<long long>(config.hidden_size),
      static_cast<long long>(batch), 1000 * seconds, static_cast<double>(batch) / seconds, weights,
      rate, (weights + cached) / rate / seconds);
}

}  // namespace
}  // namespace mt

int main(int argc, char** argv) {
  try {
    mt::run(argc, argv);
  } catch (const mt::Error& error) {
    std::fprintf(stderr, "decode_bench: %s\n", error.what());
    return static_cast<int>(error.code());
  }
  return 0;
}
