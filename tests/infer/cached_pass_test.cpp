// The ways to run a model agree: with the cache token by token, in pieces, or all at once, in pages
// that grow or do not.
#include "infer/cached_pass.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "model/layers.h"
#include "tests/infer/small_gpt.h"
#include "tests/support/host_tensor.h"
#include "tests/support/workbench.h"

namespace mt {
namespace {

class CachedPassOf : public testing::TestWithParam<ModelConfig (*)()> {};

TEST_P(CachedPassOf, TokenByTokenEqualsAllAtOnce) {
  const auto model = make_gpt(GetParam()());
  CachedPass pass(*model, {.vocab_size = 30, .threads = 1});
  const auto count = static_cast<std::size_t>(pass.max_tokens());
  const std::vector<std::int32_t> ids = some_tokens(count);
  const std::span all(ids);

  CachedPass stepping(*model, {.vocab_size = 30, .threads = 2});
  stepping.start(0);
  for (std::size_t i = 0; i < count; ++i) {
    SCOPED_TRACE(i);
    const HostTensor stepped = clone(stepping.next_logits(0, all.subspan(i, 1)));
    EXPECT_EQ(stepping.length(0), static_cast<std::int64_t>(i) + 1);
    EXPECT_EQ(stepped.view().shape(), (Shape{1, 30}));
    pass.start(0);
    const HostTensor at_once = clone(pass.next_logits(0, all.first(i + 1)));
    EXPECT_TENSORS_NEAR(stepped.view(), at_once.view(), 1e-12);
  }
}

TEST_P(CachedPassOf, PiecesOfAnyLength) {
  const auto model = make_gpt(GetParam()());
  CachedPass pass(*model, {.vocab_size = 30, .threads = 1});
  const std::vector<std::int32_t> ids = some_tokens(12);
  const std::span all(ids);
  pass.start(0);
  const HostTensor expected = clone(pass.next_logits(0, all));
  for (std::size_t cut = 1; cut < ids.size(); ++cut) {
    pass.start(0);
    pass.next_logits(0, all.first(cut));
    EXPECT_TENSORS_NEAR(pass.next_logits(0, all.subspan(cut)), expected.view(), 1e-12);
  }
}

std::string name_of_model(const testing::TestParamInfo<ModelConfig (*)()>& which) {
  return which.param == small_gpt2            ? "Gpt2"
         : which.param == small_llama         ? "Llama"
         : which.param == small_hybrid        ? "Hybrid"
         : which.param == small_delta         ? "Delta"
         : which.param == small_latent        ? "Latent"
         : which.param == small_latent_hybrid ? "LatentHybrid"
         : which.param == small_wide_latent   ? "WideLatent"
                                              : "Mixture";
}
INSTANTIATE_TEST_SUITE_P(Models, CachedPassOf,
                         testing::Values(small_gpt2, small_llama, small_hybrid, small_delta,
                                         small_mixture, small_latent, small_latent_hybrid,
                                         small_wide_latent),
                         name_of_model);

// In single precision: the cache is within rounding of none.
TEST(CachedPass, CachedEqualsUncachedInSinglePrecision) {
  ModelConfig config = small_llama();
  config.hidden_size = 64;
  config.max_position_embeddings = 100;
  config.init_method_std = 0.1;  // as trained weights, it does not amplify rounding
  const auto model = make_gpt(config, DType::f32);
  CachedPass cached(*model, {.vocab_size = 30}), uncached(*model, {.vocab_size = 30});
  const std::vector<std::int32_t> ids = some_tokens(100);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const HostTensor stepped = clone(cached.next_logits(0, std::span(ids).subspan(i, 1)));
    uncached.start(0);
    EXPECT_TENSORS_NEAR(stepped.view(), uncached.next_logits(0, std::span(ids).first(i + 1)), 1e-6);
  }
}

// A sequence gets the same bits alone and beside others of other lengths, on any number of threads.
TEST(CachedPass, SequencesDoNotNoticeEachOther) {
  for (ModelConfig config : {small_gpt2(), small_llama(), small_hybrid(), small_delta(),
                             small_mixture(), small_latent()}) {
    config.hidden_size = 48;
    config.max_position_embeddings = 40;
    const auto model = make_gpt(config, DType::f32);
    std::vector<std::vector<HostTensor>> alone;
    const std::vector<std::size_t> prompts{1, 20, 7, 33, 2, 17, 16};
    const auto ids = some_tokens(40);
    for (const std::size_t length : prompts) {
      CachedPass pass(*model, {.vocab_size = 30, .threads = 1});
      std::vector<HostTensor>& logits = alone.emplace_back();
      logits.push_back(clone(pass.next_logits(0, std::span(ids).first(length))));
      for (std::size_t i = length; i < length + 6; ++i)
        logits.push_back(clone(pass.next_logits(0, std::span(ids).subspan(i, 1))));
    }
    for (const int threads : {1, 3}) {
      CachedPass pass(*model, {.vocab_size = 30, .sequences = 7, .threads = threads});
      std::vector<std::int64_t> sequences;
      for (std::size_t n = 0; n < prompts.size(); ++n) {
        sequences.push_back(static_cast<std::int64_t>(n));
        EXPECT_SAME_BITS(pass.next_logits(sequences.back(), std::span(ids).first(prompts[n])),
                         alone[n][0].view());
      }
      for (std::size_t i = 0; i < 6; ++i) {
        std::vector<std::int32_t> next;
        for (const std::size_t length : prompts) next.push_back(ids[length + i]);
        const HostTensor logits = clone(pass.next_logits(sequences, next));
        for (std::size_t n = 0; n < prompts.size(); ++n)
          EXPECT_SAME_BITS(logits.view().rows(sequences[n], sequences[n] + 1),
                           alone[n][i + 1].view());
      }
    }
  }
}

// Pages are made for what comes, and what lies in them, and states, move as the cache grows: no bit
// changes.
class CacheOf : public testing::TestWithParam<ModelConfig (*)()> {};
INSTANTIATE_TEST_SUITE_P(Models, CacheOf,
                         testing::Values(small_llama, small_hybrid, small_delta, small_latent),
                         name_of_model);

TEST_P(CacheOf, Grows) {
  ModelConfig config = GetParam()();
  config.max_position_embeddings = 1000;
  const auto model = make_gpt(config, DType::f32);
  const auto ids = some_tokens(700);
  CachedPass growing(*model, {.vocab_size = 30, .sequences = 5}),
      whole(*model, {.vocab_size = 30, .sequences = 5, .cache_tokens = 5000});
  EXPECT_EQ(growing.page_tokens(), 128);
  const auto same = [&](std::int64_t sequence, std::size_t begin, std::size_t count) {
    const auto some = std::span(ids).subspan(begin, count);
    const HostTensor logits = clone(growing.next_logits(sequence, some));
    EXPECT_SAME_BITS(logits.view(), whole.next_logits(sequence, some));
  };
  const auto expect_pages = [&](std::int64_t held, std::int64_t all) {
    EXPECT_EQ(growing.pages().held(), held);
    EXPECT_EQ(growing.pages().size(), all);
    EXPECT_EQ(whole.pages().size(), 40);
  };
  same(0, 0, 3);
  expect_pages(1, 1);
  same(1, 100, 253);
  expect_pages(3, 4);
  same(0, 3, 1);
  same(1, 353, 4);
  expect_pages(4, 4);
  same(2, 0, 1);
  expect_pages(5, 8);
  same(0, 4, 596);
  same(4, 50, 2);
  const std::vector<std::int64_t> all{4, 0, 2, 1};
  const std::vector<std::int32_t> next{1, 2, 3, 4};
  const HostTensor logits = clone(growing.next_logits(all, next));
  EXPECT_SAME_BITS(logits.view(), whole.next_logits(all, next));
  expect_pages(10, 16);
}

// Address space for so many bytes more than there are now.
class LittleMemory {
 public:
  explicit LittleMemory(std::size_t bytes) {
    ::getrlimit(RLIMIT_AS, &before_);
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlimit little{pages * static_cast<std::size_t>(::getpagesize()) + bytes,
                        before_.rlim_max};
    ::setrlimit(RLIMIT_AS, &little);
  }
  ~LittleMemory() { ::setrlimit(RLIMIT_AS, &before_); }

 private:
  rlimit before_;
};

// Where memory ends the cache stays as large as it could become, and goes on with what it has.
TEST(CachedPass, TakesTheMemoryThatThereIs) {
#if defined(MT_SANITIZE_ADDRESSES) || defined(MT_SANITIZE_THREADS)
  GTEST_SKIP() << "sanitizers need address space of their own";
#endif
  ModelConfig config = small_llama();
  config.num_attention_heads = config.num_query_groups = 16;
  config.hidden_size = 64;
  config.kv_channels = 64;
  config.num_layers = 4;
  config.max_position_embeddings = 512;
  const auto model = make_gpt(config, DType::f32);
  constexpr std::int64_t kSequences = 60;
  CachedPass growing(*model, {.vocab_size = 30, .sequences = kSequences, .threads = 1}),
      whole(*model, {.vocab_size = 30, .sequences = kSequences, .threads = 1, .cache_tokens = 512});
  const auto ids = some_tokens(130);
  const auto some = std::span(ids).first(100);
  whole.next_logits(0, some);
  growing.next_logits(0, some);
  std::int64_t sequence = 1;
  {  // Pages of 4 MiB: 16 become 32 in the first layer and not in the second.
    const LittleMemory little(std::size_t{104} << 20);
    while (sequence < kSequences && growing.reserve(sequence, 1)) ++sequence;
  }
  EXPECT_GT(sequence, 16);
  EXPECT_LT(sequence, 26);
  EXPECT_EQ(growing.pages().size(), sequence);
  EXPECT_FALSE(growing.reserve(0, 29));  // a second page
  growing.start(1);
  EXPECT_TRUE(growing.reserve(0, 29));
  const auto rest = std::span(ids).last(30);
  const HostTensor logits = clone(growing.next_logits(0, rest));
  EXPECT_SAME_BITS(logits.view(), whole.next_logits(0, rest));
}

// A cache that may not grow says so, and has room again once a sequence is started anew.
TEST(CachedPass, TheCacheIsFull) {
  ModelConfig config = small_llama();
  config.max_position_embeddings = 100;
  const auto model = make_gpt(config, DType::f32);
  CachedPass pass(*model, {.vocab_size = 30, .sequences = 3, .cache_tokens = 40, .page_tokens = 8});
  EXPECT_EQ(pass.max_tokens(), 40);
  const auto ids = some_tokens(40);
  pass.see(0, std::span(ids).first(17));
  EXPECT_TRUE(pass.reserve(1, 16));
  EXPECT_FALSE(pass.reserve(2, 1));
  EXPECT_FALSE(pass.reserve(1, 17));
  EXPECT_TRUE(pass.reserve(0, 7));
  EXPECT_FALSE(pass.reserve(0, 8));
  EXPECT_THROW(pass.next_logits(2, std::span(ids).first(1)), Error);
  pass.start(0);
  EXPECT_TRUE(pass.reserve(2, 24));
}

// The cache has a token's latent and turning key once, however many heads there are, unless they
// are wider than what attention on a GPU takes; then it has the keys and values of heads.
TEST(CachedPass, LatentsAreKeptOnceAToken) {
  const auto numbers = [](ModelConfig config) {  // of a token and a layer, of two
    config.complete();
    const auto bytes = [&](std::int64_t pages) {
      return KvCache::bytes(cache_of(config, {.pages = pages, .page_tokens = 128}), DType::f32);
    };
    return (bytes(3) - bytes(2)) / sizeof(float) / 128 / 2;
  };
  EXPECT_EQ(numbers(small_latent()), 10U + 4);
  ModelConfig config = small_wide_latent();
  EXPECT_EQ(numbers(config), 2U * 3 * 11);
  config.kv_lora_rank = 572;
  EXPECT_EQ(numbers(config), 572U + 4);
}

// The losses of what the model's layers say of further tokens, each of this one, behind all of
// `ids`, of which it has seen all but as many as there are layers.
std::vector<double> further_losses(const Gpt& model, std::span<const std::int32_t> ids,
                                   std::int32_t said) {
  const std::int64_t depths = model.config().mtp_num_layers, seen = std::ssize(ids) - depths;
  HostTensor read(DType::i32, {seen}), further_ids(DType::i32, {depths * seen}),
      labels(DType::i32, {depths * seen});
  std::ranges::copy(ids.first(static_cast<std::size_t>(seen)), read.view().as<std::int32_t>());
  for (std::int64_t depth = 0; depth < depths; ++depth)
    std::ranges::copy(
        ids.subspan(static_cast<std::size_t>(depth + 1), static_cast<std::size_t>(seen)),
        further_ids.view().as<std::int32_t>() + depth * seen);
  std::ranges::fill(labels.span<std::int32_t>(), said);
  const HostTensor loss(DType::f64, {seen}), of_further(DType::f64, {depths * seen});
  Workbench bench({.sequences = 1, .seq_length = seen, .training = false});
  Fields batch;
  batch[Field::ids] = read;
  batch[Field::labels] = labels.view().rows(0, seen);
  batch[Field::further_ids] = further_ids;
  batch[Field::further_labels] = labels;
  Step s = bench.step();
  Wire none;
  model.forward(s, none, {}, batch, {.loss = loss, .further_loss = of_further}, nullptr);
  std::vector<double> losses;
  for (std::int64_t depth = 1; depth <= depths; ++depth)
    losses.push_back(element(of_further.view(), depth * seen - 1));
  return losses;
}

// What further tokens are guessed is what their layers say of the whole text, which is seen in
// pieces, in pages that another has left, and with tokens that are taken back.
TEST(CachedPass, GuessesAreWhatFurtherLayersSay) {
  for (ModelConfig config : {further(small_llama(), 1), further(small_latent(), 3)}) {
    const std::int64_t depths = config.mtp_num_layers;
    config.max_position_embeddings = 40;
    const auto model = make_gpt(config);
    CachedPass pass(*model,
                    {.vocab_size = 30, .sequences = 2, .page_tokens = 8, .guesses = depths});
    std::vector<std::int32_t> all = some_tokens(30), others(8, 7);
    pass.see(1, std::span(all).first(24));
    for (const std::size_t seen : {1U, 3U, 8U, 17U, 18U, 25U}) {
      SCOPED_TRACE(testing::Message() << seen << " tokens, " << depths << " layers");
      const std::int64_t shared = pass.start(0, std::span(all).first(seen));
      EXPECT_EQ(shared, (static_cast<std::int64_t>(seen) - 1) / 8 * 8);
      pass.see(0, std::span(all).subspan(static_cast<std::size_t>(shared),
                                         seen - static_cast<std::size_t>(shared)));
      const std::int64_t twice[] = {0, 0};
      pass.next_logits(twice, std::span(others).first(2));
      pass.take_back(0, 2);
      std::vector<std::int32_t> text(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(seen));
      text.push_back(all[seen]);
      std::vector<std::int32_t> guessed;
      for (std::int64_t depth = 1; depth <= depths; ++depth) {
        const std::int64_t alone = 0;
        guessed.push_back(
            pass.guess(std::span(&alone, 1), std::span(&text.back(), 1), depth).at(0));
        text.push_back(guessed.back());
      }
      EXPECT_EQ(pass.length(0), static_cast<std::int64_t>(seen));
      text.pop_back();
      std::vector<double> least(guessed.size(), 1e9);
      std::vector<std::int32_t> likeliest(guessed.size());
      for (std::int32_t said = 0; said < 30; ++said) {
        const std::vector<double> losses = further_losses(*model, text, said);
        for (std::size_t i = 0; i < losses.size(); ++i)
          if (losses[i] < least[i]) least[i] = losses[i], likeliest[i] = said;
      }
      EXPECT_EQ(guessed, likeliest);
    }
  }
}

// Pieces of a prompt that make heads of the latents before them, of more than are made at a time,
// one piece that has nothing before it, and tokens that come one by one and make none.
TEST(CachedPass, LatentsBecomeHeadsOfPieces) {
  ModelConfig config = small_latent();
  config.kv_lora_rank = 24;
  config.max_position_embeddings = 2400;
  const auto model = make_gpt(config);
  const auto ids = some_tokens(2400);
  const std::span all(ids);
  CachedPass pieces(*model, {.vocab_size = 30, .page_tokens = 64}),
      whole(*model, {.vocab_size = 30, .page_tokens = 4096}), tokens(*model, {.vocab_size = 30});
  const auto expect_same = [&](std::size_t count) {
    whole.start(0);
    HostTensor expected = clone(whole.next_logits(0, all.first(count)));
    pieces.start(0);
    pieces.next_logits(0, all.first(37));  // the next begins in the middle of a page
    EXPECT_TENSORS_NEAR(pieces.next_logits(0, all.subspan(37, count - 37)), expected.view(), 1e-11);
    return expected;
  };
  const HostTensor expected = expect_same(300);
  for (std::size_t i = 0; i + 1 < 300; ++i) tokens.see(0, all.subspan(i, 1));
  EXPECT_TENSORS_NEAR(tokens.next_logits(0, all.subspan(299, 1)), expected.view(), 1e-11);
  expect_same(2400);
}

// Who begins with tokens that another has left begins with its pages, and gets the bits that it
// gets alone.  Widths of heads, and of latents, of both of the CPU's ways.
TEST(CachedPass, BeginningsAreShared) {
  ModelConfig narrow = small_llama(), wide = small_llama(), latent = small_latent();
  wide.hidden_size = 4 * 16;
  latent.kv_lora_rank = 12;
  for (ModelConfig config : {narrow, wide, small_latent(), latent}) {
    config.max_position_embeddings = 500;
    const auto model = make_gpt(config, DType::f32);
    const auto ids = some_tokens(300);
    const std::span all(ids);
    CachedPass pass(*model, {.vocab_size = 30, .sequences = 3, .page_tokens = 64}),
        alone(*model, {.vocab_size = 30, .page_tokens = 64});
    EXPECT_EQ(pass.start(0, all), 0);
    pass.next_logits(0, all);
    const auto expect_shared = [&](std::int64_t sequence, const std::vector<std::int32_t>& text,
                                   std::int64_t shared) {
      ASSERT_EQ(pass.start(sequence, text), shared);
      const HostTensor logits = clone(
          pass.next_logits(sequence, std::span(text).subspan(static_cast<std::size_t>(shared))));
      alone.start(0);
      EXPECT_SAME_BITS(logits.view(), alone.next_logits(0, text));
    };
    expect_shared(1, {ids.begin(), ids.begin() + 200}, 192);
    expect_shared(1, {ids.begin(), ids.begin() + 192}, 128);  // the last is seen anew
    std::vector<std::int32_t> other = ids;
    other[130] ^= 1;
    expect_shared(2, other, 128);
    expect_shared(2, {ids.begin() + 64, ids.end()}, 0);  // the same page behind others
    EXPECT_EQ(pass.pages().held(), 5 + 1 + 4);
    pass.start(0);
    pass.start(1);
    EXPECT_EQ(pass.pages().held(), 4);
    expect_shared(1, ids, 256);  // nobody had them any more
  }
}

// Who starts behind settle() finds no page of before, nor one that followed such a page; and what
// is seen from then on is found.
TEST(CachedPass, NoPageIsOfValuesThatWere) {
  ModelConfig config = small_llama();
  config.max_position_embeddings = 500;
  const auto model = make_gpt(config, DType::f32);
  const auto ids = some_tokens(300);
  const std::span all(ids);
  CachedPass pass(*model, {.vocab_size = 30, .sequences = 3, .page_tokens = 64});
  pass.see(0, all.first(128));
  EXPECT_EQ(pass.start(1, all), 128);
  EXPECT_TRUE(pass.has_same_pages(0, 1));
  pass.settle();
  pass.see(0, all.subspan(128));
  EXPECT_EQ(pass.start(2, all), 0);
  pass.see(2, all);
  EXPECT_EQ(pass.start(1, all), 256);
  pass.start(0, all.first(257));
  EXPECT_TRUE(pass.has_same_pages(0, 1));
}

// States pass on, so that no page tells of what was before it: nothing is shared.
TEST(CachedPass, SequencesWithStatesBeginAlone) {
  ModelConfig config = small_hybrid();
  config.max_position_embeddings = 500;
  const auto model = make_gpt(config, DType::f32);
  const auto ids = some_tokens(300);
  CachedPass pass(*model, {.vocab_size = 30, .sequences = 2, .page_tokens = 64});
  EXPECT_EQ(pass.start(0, ids), 0);
  const HostTensor first = clone(pass.next_logits(0, ids));
  EXPECT_EQ(pass.start(1, ids), 0);
  EXPECT_SAME_BITS(pass.next_logits(1, ids), first.view());
  pass.start(0);
  EXPECT_EQ(pass.start(0, ids), 0);
  EXPECT_SAME_BITS(pass.next_logits(0, ids), first.view());
}

}  // namespace
}  // namespace mt
