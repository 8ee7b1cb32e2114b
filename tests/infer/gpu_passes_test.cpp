// Generation and scoring on a GPU beside the CPU's: logits with the cache token by token, in pieces
// and for several sequences, and scores; and what a T5's decoder says to texts.
#include <gtest/gtest.h>

#include <optional>

#include "base/half.h"
#include "infer/cached_pass.h"
#include "infer/sampling.h"
#include "infer/score_pass.h"
#include "nn/packed_weight.h"
#include "ops/ops.h"
#include "tensor/device.h"
#include "tensor/host_copy.h"
#include "tests/infer/random_requests.h"
#include "tests/infer/small_gpt.h"
#include "tests/infer/small_t5.h"
#include "tests/support/host_tensor.h"

namespace mt {
namespace {

constexpr std::int64_t kVocabulary = 500;

ModelConfig widened(ModelConfig config) {
  config.hidden_size = 64 * config.num_attention_heads;
  config.max_position_embeddings = 600;
  config.vocab_size = kVocabulary;
  config.init_method_std = 0.08;
  return config;
}

ModelConfig gpt2() { return widened(small_gpt2()); }

ModelConfig llama() {
  ModelConfig config = widened(small_llama());
  config.ffn_hidden_size = 384;
  return config;
}

// With latents of as many channels as DeepSeek's, which only kernels for wide heads hold.
ModelConfig latent() {
  ModelConfig config = widened(small_latent());
  config.kv_lora_rank = 512;
  config.qk_head_dim = 32;
  config.qk_pos_emb_head_dim = 64;
  config.v_head_dim = 40;
  return config;
}

// What else a layer may have: norms of the heads, rotation of some channels in the other order, a
// window, biases of queries, keys and values, squared ReLU.
ModelConfig unusual() {
  ModelConfig config = llama();
  config.qk_layernorm = true;
  config.rotary_percent = 0.5;
  config.rotary_interleaved = true;
  config.window_size = "40,0";
  config.add_qkv_bias = true;
  config.swiglu = false;
  config.squared_relu = true;
  return config;
}

// With states that are passed on, of heads as Mamba-2's.
ModelConfig hybrid(std::int64_t groups) {
  ModelConfig config = llama();
  config.family = ModelFamily::mamba;
  config.hybrid_pattern = "M*-M";
  config.num_layers = 4;
  config.mamba_head_dim = 64;
  config.mamba_state_dim = 128;
  config.mamba_num_groups = groups;
  return config;
}
ModelConfig one_group() { return hybrid(1); }
ModelConfig two_groups() { return hybrid(2); }

// With the gated delta rule, of heads as Qwen3-Next's, between layers whose attention has a gate.
ModelConfig delta() {
  ModelConfig config = widened(small_delta());
  config.ffn_hidden_size = 384;
  config.linear_conv_kernel_dim = 4;
  config.linear_key_head_dim = config.linear_value_head_dim = 128;
  config.linear_num_key_heads = 2;
  config.linear_num_value_heads = 4;
  return config;
}
// With heads of no whole packs.
ModelConfig odd_delta() { return widened(small_delta()); }

// Some numbers in a block of q8_0, int4_128 or e4m3.
void put_block(std::uint8_t* to, BlockType type, const float* x) {
  const std::int64_t count = form_of(type).elements;
  float most = 1e-6F;
  for (std::int64_t i = 0; i < count; ++i) most = std::max(most, std::fabs(x[i]));
  const Fp16 of_q8(most / 127), of_int4(most / 7);
  const float of_e4m3 = most / 448;
  const auto nearest = [&](std::int64_t i, const Fp16& scale) {
    return static_cast<int>(std::lround(x[i] / static_cast<float>(scale)));
  };
  if (type == BlockType::q8_0) {
    std::memcpy(to, &of_q8.bits, 2);
    for (std::int64_t i = 0; i < count; ++i)
      to[2 + i] = static_cast<std::uint8_t>(nearest(i, of_q8));
  } else if (type == BlockType::int4_128) {
    std::memcpy(to, &of_int4.bits, 2);
    to[2] = 8;
    for (std::int64_t i = 0; i < count; ++i)
      to[4 + i / 32 * 16 + i % 16] |=
          static_cast<std::uint8_t>(std::clamp(nearest(i, of_int4) + 8, 0, 15) << i % 32 / 16 * 4);
  } else {
    std::memcpy(to, &of_e4m3, 4);
    for (std::int64_t i = 0; i < count; ++i) to[4 + i] = Fp8(x[i] / of_e4m3).bits;
  }
}

// Fills a row that is held in tiles with blocks of these values, which become those that the blocks
// stand for.
void put_blocks(const Param& row, BlockType type, float* values) {
  const std::vector<BlockType> types(static_cast<std::size_t>(row.shape[0]), type);
  const BlockForm form = form_of(type);
  fill_blocks(row, types, [&](std::uint8_t* packed) {
    const PackedRows rows(packed);
    const PackedRows::Run& run = rows.runs()[0];
    std::memset(packed + run.offset, 0,
                static_cast<std::size_t>(rows.rows() * rows.row_bytes(run)));
    for (std::int64_t i = 0; i < row.shape.numel() / form.elements; ++i)
      put_block(packed + run.offset + i * form.bytes, type, values + i * form.elements);
    cpu::unpack_rows(values, packed);
  });
}

// The same values on the CPU, rounded to what the GPU has, and on the GPU, where matrices lie in
// tiles if a type is given.
struct Pair {
  std::unique_ptr<Model> cpu, gpu;

  Pair(ModelConfig config, DType dtype, std::optional<BlockType> blocks = {})
      : cpu(make_small_model(config, DType::f32)) {
    config.complete();
    gpu = make_model(config, {{.end = config.all_layers()}});
    for (Param& row : gpu->table().rows())
      if (blocks && row.reads_blocks)
        hold_in_blocks(row, std::vector<BlockType>(static_cast<std::size_t>(row.shape[0]), *blocks),
                       Device::cuda);
    gpu->table().allocate(Device::cuda, dtype, false);
    Stream stream(Device::cuda);
    if (!blocks) gpu->initialize(1, stream);
    stream.synchronize();
    for (std::size_t i = 0; i < cpu->table().rows().size(); ++i) {
      const Param &here_row = cpu->table().rows()[i], &there_row = gpu->table().rows()[i];
      if (there_row.packed_as == PackedAs::tiles) {
        put_blocks(there_row, *blocks, here_row.value.as<float>());
        continue;
      }
      if (blocks) {
        const Buffer wide(Device::cuda, here_row.value.bytes());
        const Tensor values = wide.tensor(DType::f32, here_row.shape);
        const HostCopy first = HostCopy::for_writing(values);
        std::memcpy(first.tensor().data(), here_row.value.data(), values.bytes());
        first.upload();
        copy(there_row.value, values, stream);
        stream.synchronize();
      }
      Buffer wide(Device::cuda, cpu->table().rows()[i].value.bytes());
      const Tensor values = wide.tensor(DType::f32, cpu->table().rows()[i].shape);
      copy(values, gpu->table().rows()[i].value, stream);
      stream.synchronize();
      const HostCopy here = HostCopy::of(values);
      std::memcpy(cpu->table().rows()[i].value.data(), here.tensor().data(), values.bytes());
    }
  }
};

struct Case {
  const char* name;
  ModelConfig (*config)();
  DType dtype;
  double tolerance;  // of the largest logit
  bool in_codes = false;
  std::optional<BlockType> blocks = {};
};

class GpuPasses : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (device::count() == 0) GTEST_SKIP() << "no GPU";
    if (GetParam().blocks && !has_tiles_products()) GTEST_SKIP() << "no products of tiles";
    pair_ = std::make_unique<Pair>(GetParam().config(), GetParam().dtype, GetParam().blocks);
  }
  CachedPass on_cpu(std::int64_t sequences = 1) const {
    return CachedPass(*pair_->cpu,
                      {.vocab_size = kVocabulary - 3, .sequences = sequences, .form = form()});
  }
  CachedPass on_gpu(std::int64_t sequences = 1, std::int64_t page_tokens = 0) const {
    return CachedPass(*pair_->gpu, {.vocab_size = kVocabulary - 3,
                                    .sequences = sequences,
                                    .page_tokens = page_tokens,
                                    .form = form()});
  }
  static CacheForm form() { return {.in_codes = GetParam().in_codes}; }
  bool passes_states_on() const {
    const ModelConfig& config = pair_->gpu->config();
    return config.family == ModelFamily::mamba || config.may_have_linear_layers();
  }
  std::unique_ptr<Pair> pair_;
};

INSTANTIATE_TEST_SUITE_P(
    Of, GpuPasses,
    testing::Values(
        Case{"Gpt2InFp32", gpt2, DType::f32, 2e-5}, Case{"LlamaInFp32", llama, DType::f32, 2e-5},
        Case{"UnusualInFp32", unusual, DType::f32, 2e-5},
        Case{"Gpt2InBf16", gpt2, DType::bf16, 2e-2}, Case{"LlamaInBf16", llama, DType::bf16, 2e-2},
        Case{"UnusualInBf16", unusual, DType::bf16, 2e-2},
        Case{"LatentInFp32", latent, DType::f32, 2e-5},
        Case{"LatentInBf16", latent, DType::bf16, 2e-2},
        Case{"LlamaInFp16", llama, DType::f16, 4e-3},
        Case{"CodesInFp32", llama, DType::f32, 1e-2, true},
        Case{"CodesInBf16", llama, DType::bf16, 1e-1, true},
        Case{"UnusualCodesInFp16", unusual, DType::f16, 5e-2, true},
        Case{"HybridInFp32", one_group, DType::f32, 1e-4},
        Case{"HybridInBf16", one_group, DType::bf16, 5e-2},
        Case{"HybridInFp16", one_group, DType::f16, 1e-2},
        Case{"GroupsInBf16", two_groups, DType::bf16, 5e-2},
        Case{"DeltaInFp32", delta, DType::f32, 1e-4}, Case{"DeltaInBf16", delta, DType::bf16, 5e-2},
        Case{"DeltaInFp16", delta, DType::f16, 1e-2},
        Case{"OddDeltaInFp32", odd_delta, DType::f32, 1e-4},
        Case{"TilesInBf16", llama, DType::bf16, 3e-2, false, BlockType::q8_0},
        Case{"FourBitsInBf16", llama, DType::bf16, 3e-2, false, BlockType::int4_128},
        Case{"EightBitsInBf16", llama, DType::bf16, 3e-2, false, BlockType::e4m3}),
    [](const auto& which) { return std::string(which.param.name); });

TEST_P(GpuPasses, LogitsAsTheCpus) {
  CachedPass cpu = on_cpu(), gpu = on_gpu();
  const auto ids = some_tokens(400, kVocabulary);
  const std::span all(ids);
  EXPECT_TENSORS_NEAR(gpu.next_logits(0, all.first(300)), cpu.next_logits(0, all.first(300)),
                      GetParam().tolerance);
  for (std::size_t i = 300; i < 330; ++i)
    EXPECT_TENSORS_NEAR(gpu.next_logits(0, all.subspan(i, 1)),
                        cpu.next_logits(0, all.subspan(i, 1)), GetParam().tolerance)
        << i;
  // A piece behind what is cached.
  EXPECT_TENSORS_NEAR(gpu.next_logits(0, all.subspan(330, 70)),
                      cpu.next_logits(0, all.subspan(330, 70)), GetParam().tolerance);
}

TEST_P(GpuPasses, CachedAsUncached) {
  CachedPass cached = on_gpu(), uncached = on_gpu();
  const auto ids = some_tokens(40, kVocabulary);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const HostTensor stepped = clone(cached.next_logits(0, std::span(ids).subspan(i, 1)));
    uncached.start(0);
    EXPECT_TENSORS_NEAR(stepped.view(), uncached.next_logits(0, std::span(ids).first(i + 1)),
                        GetParam().tolerance);
  }
}

// A sequence gets the same bits alone and beside others of other lengths.
TEST_P(GpuPasses, SequencesDoNotNoticeEachOther) {
  const std::vector<std::size_t> prompts{1,   500, 7,  256, 33, 255, 2, 17,
                                         257, 100, 16, 64,  3,  5,   9, 12};
  constexpr std::size_t kSteps = 4;
  const auto ids = some_tokens(600, kVocabulary);
  std::vector<std::vector<HostTensor>> alone;
  for (const std::size_t length : prompts) {
    CachedPass pass = on_gpu();
    pass.next_logits(0, std::span(ids).first(length));
    std::vector<HostTensor>& logits = alone.emplace_back();
    for (std::size_t i = 0; i < kSteps; ++i)
      logits.push_back(clone(pass.next_logits(0, std::span(ids).subspan(length + i, 1))));
  }
  for (const std::size_t together : {std::size_t{2}, std::size_t{7}, prompts.size()}) {
    CachedPass pass = on_gpu(static_cast<std::int64_t>(prompts.size()));
    std::vector<std::int64_t> sequences;  // the last of them, backwards
    for (std::size_t n = prompts.size(); n-- > prompts.size() - together;) {
      sequences.push_back(static_cast<std::int64_t>(n));
      pass.next_logits(sequences.back(), std::span(ids).first(prompts[n]));
    }
    for (std::size_t i = 0; i < kSteps; ++i) {
      std::vector<std::int32_t> next;
      for (const std::int64_t n : sequences)
        next.push_back(ids[prompts[static_cast<std::size_t>(n)] + i]);
      const ConstTensor logits = pass.next_logits(sequences, next);
      for (std::size_t row = 0; row < together; ++row)
        EXPECT_SAME_BITS(
            logits.rows(static_cast<std::int64_t>(row), static_cast<std::int64_t>(row) + 1),
            alone[static_cast<std::size_t>(sequences[row])][i].view())
            << together << " together, sequence " << sequences[row] << ", step " << i;
    }
  }
}

// Several tokens of a sequence in a pass get the bits that they get one by one: beside others, over
// the end of a tile of keys and that of a page, many times, as blocks run in any order.
TEST_P(GpuPasses, TokensOfASequenceSeeEachOther) {
  if (passes_states_on()) GTEST_SKIP() << "one token of a sequence at a time";
  const std::vector<std::int64_t> times{5, 1, 16, 2};
  const std::vector<std::size_t> prompts{14, 250, 505, 1};
  const auto ids = some_tokens(600, kVocabulary);
  CachedPass apart = on_gpu(4);
  CachedPass together(*pair_->gpu,
                      {.vocab_size = kVocabulary - 3, .sequences = 4, .rows = 64, .form = form()});
  std::vector<std::int64_t> sequences;
  std::vector<std::int32_t> next;
  std::vector<HostTensor> expected;
  for (std::size_t n = 0; n < times.size(); ++n) {
    const auto number = static_cast<std::int64_t>(n);
    for (CachedPass* const pass : {&apart, &together})
      pass->next_logits(number, std::span(ids).first(prompts[n]));
    for (std::size_t i = prompts[n]; i < prompts[n] + static_cast<std::size_t>(times[n]); ++i) {
      sequences.push_back(number);
      next.push_back(ids[i]);
      expected.push_back(clone(apart.next_logits(std::span(&number, 1), std::span(&ids[i], 1))));
    }
  }
  for (int again = 0; again < 50; ++again) {
    const ConstTensor logits = together.next_logits(sequences, next);
    for (std::size_t row = 0; row < expected.size(); ++row)
      ASSERT_PRED_FORMAT2(
          same_bits,
          logits.rows(static_cast<std::int64_t>(row), static_cast<std::int64_t>(row) + 1),
          expected[row].view())
          << "sequence " << sequences[row] << ", row " << row << ", time " << again;
    for (std::size_t n = 0; n < times.size(); ++n)
      together.take_back(static_cast<std::int64_t>(n), times[n]);
  }
}

// Tokens are those that the logits give, whatever runs ahead: sequences go on, some end, others
// begin beside them, also in the place of one that has ended, a choice changes; captured steps and
// the first ones; until the positions are used up.
TEST_P(GpuPasses, TokensAsTheLogits) {
  CachedPass fast = on_gpu(4, 64), slow = on_gpu(4, 64);
  const auto ids = some_tokens(600, kVocabulary);
  const auto begin = [&](std::int64_t sequence, std::size_t length) {
    for (CachedPass* const pass : {&fast, &slow}) {
      pass->start(sequence);
      pass->next_logits(sequence, std::span(ids).first(length));
    }
  };
  std::vector<std::int32_t> last{3, 4, 5, 6};
  std::vector<Choice> choices(4);
  for (std::uint32_t i = 0; i < 4; ++i)
    choices[i] = {{.temperature = i % 2 ? 0.7 : 0, .top_k = i == 3 ? 20 : 0}, {.prompt = i}};
  choices[1].rule.top_p = 0.95;
  const std::vector<TopPDecay> decays{{}, {0.95, 0.5}, {}, {}};
  const auto step = [&](const std::vector<std::int64_t>& sequences) {
    std::vector<std::int32_t> in;
    std::vector<Choice> how, behind;
    for (const std::int64_t n : sequences) {
      in.push_back(last[static_cast<std::size_t>(n)]);
      how.push_back(choices[static_cast<std::size_t>(n)]);
      behind.push_back(following(how.back(), decays[static_cast<std::size_t>(n)]));
    }
    const auto span = fast.next_tokens(sequences, in, how, {.choices = behind});
    const std::vector<std::int32_t> got(span.begin(), span.end());
    const ConstTensor logits = slow.next_logits(sequences, in);
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      const auto row = logits.rows(static_cast<std::int64_t>(i), static_cast<std::int64_t>(i) + 1);
      const auto x = row.span<float>();
      EXPECT_EQ(got[i], cpu::sample(std::vector<double>(x.begin(), x.end()), how[i]));
      last[static_cast<std::size_t>(sequences[i])] = got[i];
      choices[static_cast<std::size_t>(sequences[i])] = behind[i];
      EXPECT_EQ(fast.length(sequences[i]), slow.length(sequences[i]));
    }
  };
  for (std::int64_t n = 0; n < 4; ++n) begin(n, static_cast<std::size_t>(3 + 120 * n));
  for (int i = 0; i < 5; ++i) step({0, 1, 2, 3});
  for (int i = 0; i < 3; ++i) step({3, 1});
  begin(1, 250);
  for (int i = 0; i < 80; ++i) step({0, 1});  // past 256 keys, and into new pages
  last[0] = 77;
  step({0, 1});
  choices[1].rule.temperature = 0;
  for (int i = 0; i < 3; ++i) step({1, 0});
  begin(3, 190);
  begin(2, 20);
  step({1, 0, 2, 3});
  step({1, 2, 3});
  begin(0, 60);
  last[0] = last[1];
  choices[0] = choices[1];
  step({1, 2, 0, 3});
  step({3, 0, 2});
  step({1, 0});
  begin(2, 594);
  for (int i = 0; i < 6; ++i) step({2});
  EXPECT_EQ(fast.length(2), fast.max_tokens());
}

// Two steps that run ahead by turns, as where more sequences go on than share one.
TEST_P(GpuPasses, TurnsRunAhead) {
  const auto more = 2 * CachedPass::kTogether;
  CachedPass by_turns = on_gpu(more, 64), alone = on_gpu(4, 64);
  const auto ids = some_tokens(600, kVocabulary);
  std::vector<std::int32_t> last{7, 8, 9, 10};
  std::vector<Choice> choices(4);
  for (std::uint32_t n = 0; n < 4; ++n) {
    choices[n] = {{.temperature = 0.8}, {.prompt = n}};
    for (CachedPass* const pass : {&by_turns, &alone})
      pass->next_logits(n, std::span(ids).first(10 + 60 * n));
  }
  const auto step = [&](const std::vector<std::int64_t>& sequences, std::size_t turn) {
    std::vector<std::int32_t> in;
    std::vector<Choice> how;
    for (const std::int64_t n : sequences) {
      in.push_back(last[static_cast<std::size_t>(n)]);
      how.push_back(choices[static_cast<std::size_t>(n)]);
    }
    const auto expected = alone.next_tokens(sequences, in, how);
    const std::vector<std::int32_t> tokens(expected.begin(), expected.end());
    EXPECT_TRUE(
        std::ranges::equal(by_turns.next_tokens(sequences, in, how, {.turn = turn}), tokens));
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      const auto n = static_cast<std::size_t>(sequences[i]);
      last[n] = tokens[i];
      choices[n] = following(choices[n]);
    }
  };
  for (int i = 0; i < 20; ++i) {
    step({0, 1}, 0);
    step({2, 3}, 1);
  }
  step({0, 2, 1}, 0);  // one comes from the other turn
  step({3}, 1);
  for (int i = 0; i < 60; ++i) {
    step({0, 2, 1}, 0);
    step({3}, 1);
  }
}

// A cache that grows while a step runs ahead, in pages of which one ends then, changes no bit.
TEST_P(GpuPasses, TheCacheGrows) {
  const auto with = [&](std::int64_t cache_tokens) {
    return CachedPass(*pair_->gpu, {.vocab_size = kVocabulary - 3,
                                    .sequences = 3,
                                    .cache_tokens = cache_tokens,
                                    .page_tokens = 64});
  };
  CachedPass growing = with(0), whole = with(1800);
  const auto ids = some_tokens(600, kVocabulary);
  std::vector<std::int32_t> last{7, 8};
  std::vector<Choice> choices(2);
  for (CachedPass* const pass : {&growing, &whole}) {
    pass->next_logits(0, std::span(ids).first(250));
    pass->next_logits(1, std::span(ids).first(3));
  }
  EXPECT_EQ(growing.pages().size(), 8);
  const std::vector<std::int64_t> both{0, 1};
  for (int step = 0; step < 20; ++step) {
    const auto expected = whole.next_tokens(both, last, choices);
    const auto got = growing.next_tokens(both, last, choices);
    ASSERT_TRUE(std::ranges::equal(got, expected)) << step;
    last.assign(got.begin(), got.end());
    for (Choice& choice : choices) ++choice.place.token;
    if (step == 12) {
      const HostTensor logits = clone(growing.next_logits(2, std::span(ids).first(200)));
      EXPECT_SAME_BITS(logits.view(), whole.next_logits(2, std::span(ids).first(200)));
    }
  }
  EXPECT_EQ(growing.pages().size(), 16);
}

// Who begins with tokens that another has left gets the bits that it gets alone.
TEST_P(GpuPasses, BeginningsAreShared) {
  if (passes_states_on()) GTEST_SKIP() << "states are not shared";
  const auto with = [&](std::int64_t sequences) {
    return CachedPass(*pair_->gpu,
                      {.vocab_size = kVocabulary - 3, .sequences = sequences, .page_tokens = 64});
  };
  CachedPass pass = with(2), alone = with(1);
  const auto ids = some_tokens(400, kVocabulary);
  pass.see(0, std::span(ids).first(300));
  ASSERT_EQ(pass.start(1, ids), 256);
  const HostTensor logits = clone(pass.next_logits(1, std::span(ids).subspan(256)));
  EXPECT_SAME_BITS(logits.view(), alone.next_logits(0, ids));
}

// In a cache that is too small for them, in pieces, with cancellations: each becomes what it
// becomes alone.
TEST_P(GpuPasses, RandomPrompts) {
  const std::vector<Request> requests = random_requests(40, 1);
  for (const EngineLimits& limits :
       {EngineLimits{.max_requests = 6, .cache_tokens = 600},
        EngineLimits{.max_requests = 20, .cache_tokens = 1500, .prefill_tokens = 100},
        EngineLimits{.max_requests = 17, .prefill_tokens = 1000}}) {
    const EngineRun run = in_engine(*pair_->gpu, requests, limits, 64);
    EXPECT_EQ(run.counts.held_pages, 0);
    for (std::size_t n = 0; n < requests.size(); ++n) {
      Request alone = requests[n];
      alone.cancelled = -1;
      Ids expected = in_engine(*pair_->gpu, {alone}, {.max_requests = 1}, 64).made[0];
      expected.resize(run.made[n].size());
      EXPECT_EQ(run.made[n], expected) << n;
    }
  }
}

// Texts of one prompt are read once, in pieces that fill pages and one that does not, and each
// becomes what it becomes alone.
TEST_P(GpuPasses, TextsOfOnePromptReadItOnce) {
  const std::vector<std::int32_t> ids = some_tokens(150, kVocabularyOfLetters);
  std::vector<Request> requests(7, {.prompt = ids, .tokens = 12});
  requests[3].prompt.pop_back();
  const EngineRun run =
      in_engine(*pair_->gpu, requests, {.max_requests = 7, .prefill_tokens = 1}, 64);
  for (std::size_t n = 0; n < requests.size(); ++n)
    EXPECT_EQ(run.made[n], in_engine(*pair_->gpu, {requests[n]}, {.max_requests = 1}, 64).made[0])
        << n;
  if (passes_states_on())
    EXPECT_EQ(run.counts.shared, 0);
  else
    EXPECT_GE(run.counts.shared, 2 * 150 + 128);
}

TEST_P(GpuPasses, ScoresAsTheCpus) {
  const auto ids = some_tokens(601, kVocabulary);
  const auto score = [&](const Model& model) {
    ScorePass scorer(model, {.vocab_size = kVocabulary - 3, .window = 600, .batch = 2});
    std::vector<std::vector<double>> nll{std::vector<double>(600), std::vector<double>(3),
                                         std::vector<double>(20)};
    std::vector<std::span<const std::int32_t>> texts{std::span(ids), std::span(ids).first(9),
                                                     std::span(ids).first(200)};
    const std::vector<std::span<double>> to(nll.begin(), nll.end());
    scorer.score(texts, to);
    return nll;
  };
  const auto got = score(*pair_->gpu), expected = score(*pair_->cpu);
  for (std::size_t i = 0; i < expected.size(); ++i)
    for (std::size_t j = 0; j < expected[i].size(); ++j)
      EXPECT_NEAR(got[i][j], expected[i][j], 4 * GetParam().tolerance * expected[i][j])
          << i << ", " << j;
}

// Layers that predict further tokens guess; each text becomes what it becomes alone without them.
class GpuGuesses : public GpuPasses {};

ModelConfig further_llama() { return further(llama(), 2); }
ModelConfig further_latent() { return further(latent(), 2); }

INSTANTIATE_TEST_SUITE_P(Of, GpuGuesses,
                         testing::Values(Case{"LlamaInFp32", further_llama, DType::f32, 0},
                                         Case{"LlamaInBf16", further_llama, DType::bf16, 0},
                                         Case{"LatentInFp32", further_latent, DType::f32, 0},
                                         Case{"LatentInBf16", further_latent, DType::bf16, 0}),
                         [](const auto& which) { return std::string(which.param.name); });

TEST_P(GpuGuesses, ChangeNoText) {
  const std::vector<Request> requests = random_requests(20, 3);
  std::vector<Ids> alone;
  for (Request request : requests) {
    request.cancelled = -1;
    alone.push_back(in_engine(*pair_->gpu, {request}, {.max_requests = 1}, 64).made[0]);
  }
  for (const EngineLimits& limits :
       {EngineLimits{
            .max_requests = 6, .cache_tokens = 600, .draft_tokens = 4, .further_layers = 2},
        EngineLimits{.max_requests = 20, .draft_tokens = 1, .further_layers = 2}}) {
    const EngineRun run = in_engine(*pair_->gpu, requests, limits, 64);
    EXPECT_GT(run.counts.guessed, 0);
    EXPECT_EQ(run.counts.held_pages, 0);
    for (std::size_t n = 0; n < requests.size(); ++n) {
      Ids expected = alone[n];
      expected.resize(run.made[n].size());
      EXPECT_EQ(run.made[n], expected) << n;
    }
  }
}

ModelConfig learned() { return widened(learned_t5()); }
ModelConfig rope() { return widened(rope_t5()); }
ModelConfig relative() { return widened(relative_t5()); }

class GpuT5 : public GpuPasses {};

INSTANTIATE_TEST_SUITE_P(Of, GpuT5,
                         testing::Values(Case{"LearnedInFp32", learned, DType::f32, 2e-5},
                                         Case{"RopeInFp32", rope, DType::f32, 2e-5},
                                         Case{"RelativeInFp32", relative, DType::f32, 2e-5},
                                         Case{"RopeInBf16", rope, DType::bf16, 2e-2},
                                         Case{"RelativeInBf16", relative, DType::bf16, 2e-2}),
                         [](const auto& which) { return std::string(which.param.name); });

// Texts of many lengths, alone and beside each other; tokens are those that the logits give.
TEST_P(GpuT5, SaysWhatTheCpuSays) {
  const auto ids = some_tokens(600, kVocabulary);
  const std::span all(ids);
  const std::vector<std::size_t> read{300, 1, 33, 599};
  CachedPass cpu = on_cpu(4), gpu = on_gpu(4), fast = on_gpu(4);
  const std::vector<std::int64_t> sequences{0, 1, 2, 3};
  for (const std::int64_t n : sequences) {
    const auto text = all.first(read[static_cast<std::size_t>(n)]);
    const HostTensor expected = clone(cpu.next_logits(n, all.first(1), text));
    EXPECT_TENSORS_NEAR(gpu.next_logits(n, all.first(1), text), expected.view(),
                        GetParam().tolerance)
        << n;
    fast.next_logits(n, all.first(1), text);
  }
  std::vector<std::int32_t> last{3, 4, 5, 6};
  std::vector<Choice> choices(4, {{.temperature = 0}, {}});
  for (int step = 0; step < 20; ++step) {
    const HostTensor expected = clone(cpu.next_logits(sequences, last));
    const HostTensor logits = clone(gpu.next_logits(sequences, last));
    EXPECT_TENSORS_NEAR(logits.view(), expected.view(), GetParam().tolerance) << step;
    const auto chosen = fast.next_tokens(sequences, last, choices);
    for (std::size_t i = 0; i < last.size(); ++i) {
      const auto row =
          logits.view().rows(static_cast<std::int64_t>(i), static_cast<std::int64_t>(i) + 1);
      const auto x = row.span<float>();
      EXPECT_EQ(chosen[i], cpu::sample(std::vector<double>(x.begin(), x.end()), choices[i]));
    }
    last.assign(chosen.begin(), chosen.end());
    for (Choice& choice : choices) ++choice.place.token;
  }
}

}  // namespace
}  // namespace mt
