#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>

#include "base/file.h"
#include "tests/train/samples.h"
#include "train/run/objective.h"

namespace mt {
namespace {

// One document of 100 tokens, each its own position; with an end after every tenth if asked.
Documents counting(bool with_ends) {
  std::vector<std::int32_t> tokens(100);
  std::iota(tokens.begin(), tokens.end(), 0);
  if (with_ends)
    for (std::size_t i = 9; i < tokens.size(); i += 10) tokens[i] = kEod;
  return {tokens};
}

TEST(FillBatch, LabelsAreTheNextTokens) {
  const FileSamples sample(counting(false), false);
  const BatchMemory memory(3, DType::f32);
  fill(sample.set, 2, 3, memory.batch());
  for (std::size_t i = 0; i < 3; ++i) {
    const std::size_t at = i * kLength;
    const auto start =
        sample.index().sample(sample.index().shuffled(2 + static_cast<std::int64_t>(i)));
    for (std::size_t t = 0; t < kLength; ++t) {
      EXPECT_EQ(memory.ids.span<std::int32_t>()[at + t],
                start.offset + static_cast<std::int32_t>(t));
      EXPECT_EQ(memory.labels.span<std::int32_t>()[at + t],
                memory.ids.span<std::int32_t>()[at + t] + 1);
      EXPECT_EQ(memory.positions.span<std::int32_t>()[at + t], static_cast<std::int32_t>(t));
    }
  }
}

// The mask, and the number of tokens that it counts.
TEST(FillBatch, EndsOfDocumentsCountUnlessMasked) {
  for (const bool mask_ends : {false, true}) {
    const FileSamples sample(counting(true), mask_ends);
    const BatchMemory memory(6, DType::f64);
    fill(sample.set, 0, 6, memory.batch());
    const double counted = LanguageModelling().count(0, memory.batch());
    const auto mask = memory.mask.span<double>();
    EXPECT_EQ(counted, std::accumulate(mask.begin(), mask.end(), 0.0));
    EXPECT_EQ(counted < 6 * kLength, mask_ends);
    for (std::size_t t = 0; t < mask.size(); ++t)
      EXPECT_EQ(mask[t], !mask_ends || memory.ids.span<std::int32_t>()[t] != kEod ? 1 : 0);
  }
}

// A sample past the end is read like any other, but counts nowhere.
TEST(FillBatch, PaddingDoesNotCount) {
  const FileSamples sample(counting(false), false, PastEnd::padding);
  ASSERT_EQ(sample.set.samples->size(), 12);
  const BatchMemory memory(4, DType::f32);
  fill(sample.set, 10, 4, memory.batch());
  EXPECT_EQ(LanguageModelling().count(0, memory.batch()), 2 * kLength);
  for (std::size_t t = 0; t < 4 * kLength; ++t)
    EXPECT_EQ(memory.mask.span<float>()[t], t < 2 * kLength ? 1 : 0);
}

// Where there are first keys they are filled, and so are positions that start again.
TEST(FillBatch, DocumentsInABatch) {
  const Scratch scratch;
  const IndexedDataset file(FileSamples::write(scratch, counting(true)));
  const SampleSet set{
      "",
      std::make_unique<GptDataset>(
          file, GptDatasetOptions{.index = {.sequences = {0, 1}, .seq_length = kLength},
                                  .eod_id = kEod,
                                  .reset_position_ids = true,
                                  .reset_attention_mask = true}),
      Sampler(12, {})};
  const BatchMemory memory(3, DType::f32);
  HostTensor first_key(DType::i32, {3 * kLength});
  Fields batch = memory.batch();
  batch[Field::first_key] = first_key;
  fill(set, 0, 3, batch);
  int ends = 0;
  for (std::size_t row = 0; row < 3; ++row)
    for (std::size_t t = 0, begin = 0; t < kLength; ++t) {
      const std::size_t at = row * kLength + t;
      EXPECT_EQ(first_key.span<std::int32_t>()[at], static_cast<std::int32_t>(begin));
      EXPECT_EQ(memory.positions.span<std::int32_t>()[at], static_cast<std::int32_t>(t - begin));
      if (memory.ids.span<std::int32_t>()[at] != kEod) continue;
      begin = t + 1;
      ++ends;
    }
  EXPECT_GT(ends, 0);
}

// Token files a, b and c of 20 sequences of 50 tokens, which say which file they are of.
class Files : public testing::Test {
 protected:
  Files() {
    for (const char* name : {"a", "b", "c"})
      write_documents(path(name), TokenType::u16,
                      Documents(20, std::vector<std::int32_t>(50, name[0])));
  }
  std::string path(const std::string& name) const { return scratch_.path(name); }

  static DataOptions options(const DataSourceOptions& sources) {
    const std::string folder = std::string(MT_TESTDATA) + "/gpt2_bpe/";
    DataOptions o;
    o.sources = sources;
    o.seq_length = kLength;
    o.tokenizer = {"GPT2BPETokenizer", folder + "vocab.json", folder + "merges.txt"};
    return o;
  }
  static TrainData built(const DataOptions& options, const TrainingLength& length) {
    TrainData data(options);
    data.build(length, 1, {.type = options.dataloader_type}, quiet());
    return data;
  }
  static std::string error(const DataOptions& options, const TrainingLength& length) {
    return error_of([&] { built(options, length); });
  }
  static Log quiet() { return Log({.level = Log::Level::quiet, .descriptor = -1}); }

  // The files that the first `count` samples come from, one letter each.
  static std::string letters(const SampleSet& set, std::int64_t count) {
    std::string result;
    const BatchMemory memory(1, DType::f32);
    for (std::int64_t k = 0; k < count; ++k) {
      fill(set, k, 1, memory.batch());
      result += static_cast<char>(memory.ids.span<std::int32_t>().front());
    }
    return result;
  }

  Scratch scratch_;
};

constexpr TrainingLength kLength10{
    .train_iters = 10, .eval_iters = 2, .eval_interval = 5, .global_batch_size = 4};

TEST_F(Files, OneIsCutIntoThreeParts) {
  const TrainData data = built(options({.data_path = {path("a")}, .split = "80,10,10"}), kLength10);
  EXPECT_GE(data.training().samples->size(), 10 * 4);
  ASSERT_EQ(data.sets(Split::valid).size(), 1U);
  ASSERT_EQ(data.sets(Split::test).size(), 1U);
  const Blended& valid = blended(*data.sets(Split::valid).front());
  EXPECT_GE(valid.size(), (10 / 5 + 1) * 2 * 4);
  EXPECT_GE(data.sets(Split::test).front()->samples->size(), 2 * 4);
  for (std::int64_t k = 0; k < valid.size(); ++k)
    for (const GptDataset::Part& part : gpt_dataset(*valid.datasets().front()).parts(k)) {
      EXPECT_GE(part.sequence, 16);
      EXPECT_LT(part.sequence, 18);
    }
}

TEST_F(Files, WithoutEvaluationThereIsOnlyTraining) {
  const TrainData data = built(options({.data_path = {path("a")}}), {.train_iters = 1});
  EXPECT_GE(data.training().samples->size(), 1);
  EXPECT_TRUE(data.sets(Split::valid).empty());
  EXPECT_TRUE(data.sets(Split::test).empty());
}

// Forty samples of training: 20 and 20; made are 0.5 % more of each, rounded up.
TEST_F(Files, WeightsBlend) {
  const TrainData data = built(
      options({.data_path = {"1", path("a"), "1", path("b")}, .split = "80,10,10"}), kLength10);
  EXPECT_EQ(data.training().samples->size(), 40);
  EXPECT_EQ(letters(data.training(), 6), "ababab");
  EXPECT_EQ(gpt_index(*blended(data.training()).datasets().front()).epochs(), 1);
  EXPECT_EQ(letters(*data.sets(Split::valid).front(), 4), "abab");
  const TrainData skewed = built(
      options({.data_path = {".5", path("a"), ".3", path("b"), ".2", path("c")}, .split = "8,1,1"}),
      kLength10);
  EXPECT_EQ(letters(skewed.training(), 10), "abcabacaba");
  const TrainData one = built(options({.data_path = {"7", path("a")}, .split = "1"}), kLength10);
  EXPECT_EQ(one.training().samples->size(), 40);
  EXPECT_EQ(blended(one.training()).index().dataset_index().size(), 40U);
}

// 800 and 400 tokens make 99 and 49 samples of 8; without weights each comes in that proportion.
TEST_F(Files, WithoutWeightsSizesBlend) {
  write_documents(path("d"), TokenType::u16, Documents(10, std::vector<std::int32_t>(50, 'd')));
  const TrainData data =
      built(options({.data_path = {path("a"), path("d")}, .split = "80,20"}), kLength10);
  EXPECT_EQ(data.training().samples->size(), 40);
  EXPECT_EQ(letters(data.training(), 9), "adaadaada");
  EXPECT_EQ(error(options({.data_path = {path("a"), path("d")}, .split = "80,20"}),
                  {.train_iters = 37, .eval_iters = 0, .global_batch_size = 4}),
            "");
  EXPECT_EQ(error(options({.data_path = {path("a"), path("d")}, .split = "80,20"}),
                  {.train_iters = 38, .eval_iters = 0, .global_batch_size = 4}),
            concat("78 ", path("a"),
                   " and others: one epoch without weights gives 148 samples, training needs 152; "
                   "weights before the prefixes repeat them"));
}

TEST_F(Files, EachSplitMayHaveItsOwn) {
  const TrainData data = built(options({.split_paths = {std::vector<std::string>{path("a")},
                                                        {"1", path("b"), "3", path("c")},
                                                        {}}}),
                               kLength10);
  EXPECT_EQ(letters(data.training(), 3), "aaa");
  EXPECT_EQ(letters(*data.sets(Split::valid).front(), 8), "cbccbccc");
  EXPECT_TRUE(data.sets(Split::test).empty());
  const TrainData weighted = built(
      options({.split_paths = {std::vector<std::string>{"0.1", path("a")}, {}, {}}}), kLength10);
  EXPECT_TRUE(blended(weighted.training()).index().dataset_index().empty())
      << "one file is no blend";
}

TEST_F(Files, ValidationMayHaveSeveralSets) {
  DataOptions o =
      options({.split_paths = {std::vector<std::string>{path("a")}, {path("b"), path("c")}, {}}});
  EXPECT_EQ(built(o, kLength10).sets(Split::valid).size(), 1U);
  o.multiple_validation_sets = true;
  const TrainData data = built(o, kLength10);
  ASSERT_EQ(data.sets(Split::valid).size(), 2U);
  EXPECT_EQ(data.sets(Split::valid)[0]->name, "b");
  EXPECT_EQ(letters(*data.sets(Split::valid)[0], 3), "bbb");
  EXPECT_EQ(data.sets(Split::valid)[1]->name, "c");
  EXPECT_EQ(letters(*data.sets(Split::valid)[1], 3), "ccc");
  o.sources.split_paths[1] = {"1", path("b"), "2", path("c")};
  EXPECT_EQ(error(o, kLength10), concat("78 --multiple-validation-sets: ", path("b"),
                                        " has a weight, but each set is evaluated by itself"));
  o = options({.data_path = {path("a")}});
  o.multiple_validation_sets = true;
  EXPECT_EQ(error(o, kLength10), "64 --multiple-validation-sets: needs --valid-data-path");
}

TEST_F(Files, FullValidationIsOneEpoch) {
  TrainingLength length = kLength10;
  length.full_validation = true;
  const TrainData data = built(options({.data_path = {path("a")}, .split = "50,50"}), length);
  const SampleSet& valid = *data.sets(Split::valid).front();
  EXPECT_EQ(valid.samples->size(), (500 - 1) / kLength);
  EXPECT_EQ(valid.order.sample(61), 61);
  EXPECT_EQ(valid.order.sample(62), std::nullopt);
  const TrainData both = built(
      options({.split_paths = {std::vector<std::string>{path("a")}, {path("b"), path("c")}, {}}}),
      length);
  EXPECT_EQ(both.sets(Split::valid).front()->samples->size(), 2 * ((1000 - 1) / kLength));
  EXPECT_EQ(error(options({.data_path = {"1", path("a"), "1", path("b")}, .split = "1,1"}), length),
            concat("78 --full-validation: ", path("a"),
                   " has a weight, which says nothing when all is read once"));
}

TEST_F(Files, CyclicReadsAgain) {
  DataOptions o = options({.data_path = {path("a"), path("b")}, .split = "1"});
  o.dataloader_type = "cyclic";
  const TrainData data = built(o, {.train_iters = 500, .eval_iters = 0, .global_batch_size = 4});
  EXPECT_EQ(data.training().samples->size(), 248);
  EXPECT_EQ(letters(data.training(), 1000).size(), 1000U);
}

TEST_F(Files, MadeUpText) {
  DataOptions o = options({.mock_data = true});
  o.tokenizer = {};
  EXPECT_EQ(error(o, kLength10),
            "64 --vocab-size 0: expected 1 to 1073741824, --tokenizer-type NullTokenizer needs it");
  o.tokenizer.vocab_size = 4999;
  o.seq_length = 1024;
  TrainData data(o);
  data.build(kLength10, 1234, {}, quiet());
  EXPECT_EQ(data.tokenizer().vocab_size(), 5000);
  EXPECT_EQ(data.tokenizer_options().type, "NullTokenizer");
  EXPECT_EQ(gpt_index(*blended(data.training()).datasets().front()).document(0), 30903);
  EXPECT_EQ(data.sets(Split::test).size(), 1U);
}

// An index of the cache gives what one made in memory gives, and whatever the number of threads.
TEST_F(Files, TheCacheChangesNothing) {
  DataOptions o =
      options({.data_path = {"2", path("a"), "1", path("b"), "1", path("c"), "1", path("a")},
               .split = "8,1,1"});
  const std::string expected = letters(built(o, kLength10).training(), 40);
  o.cache_path = path("cache");
  for (const int threads : {1, 2, 7, 1}) {
    o.threads = threads;
    EXPECT_EQ(letters(built(o, kLength10).training(), 40), expected);
  }
  // a, b and c have the same lengths, so their indexes of a split are one file; and three blends.
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(o.cache_path))
    files += entry.path().extension() == ".index" ? 1 : 0;
  EXPECT_EQ(files, 6U);
  write_file_atomically(path("file"), "", false);
  o.cache_path = path("file");
  EXPECT_EQ(error(o, kLength10),
            concat("73 ", path("file"), ": is a file, expected a folder for indexes"));
}

TEST_F(Files, WrongInputsAreNamed) {
  EXPECT_EQ(error(options({.data_path = {path("none")}}), kLength10),
            concat("66 ", path("none.idx"), ": cannot open: No such file or directory; in ",
                   parent_directory(path("none")), ": a, b, c"));
  EXPECT_EQ(error(options({.data_path = {"1", path("a"), "2", path("none"), "3", path("gone")}}),
                  kLength10),
            concat("66 ", path("none.idx"), ": cannot open: No such file or directory; in ",
                   parent_directory(path("none")), ": a, b, c"));
  write_documents(path("empty"), TokenType::u16, {});
  EXPECT_EQ(error(options({.data_path = {path("empty")}}), kLength10),
            concat("65 ", path("empty"), ": holds no sequences, expected at least one"));
  // A token that the tokenizer does not have is found when its sample is read.
  write_documents(path("large"), TokenType::u16, {std::vector<std::int32_t>(50, 60000)});
  const TrainData data = built(options({.data_path = {path("large")}}), {.train_iters = 1});
  const BatchMemory memory(1, DType::f32);
  EXPECT_EQ(code_of([&] { fill(data.training(), 0, 1, memory.batch()); }), Exit::bad_data);
}

TEST_F(Files, AnEmptyShareIsAnErrorWhereItWasAskedFor) {
  const DataSourceOptions asked{.data_path = {path("a")}, .split = "969,30,1"};
  EXPECT_EQ(error(options(asked), kLength10),
            concat("78 --split 969,30,1: leaves none of the 20 sequences of ", path("a"),
                   " to test, expected a larger share, or 0"));
  EXPECT_EQ(error(options(asked), {.train_iters = 1}), "") << "nothing is evaluated";
  const TrainData by_default = built(options({.data_path = {path("a")}}), kLength10);
  EXPECT_EQ(by_default.sets(Split::valid).size(), 1U);
  EXPECT_TRUE(by_default.sets(Split::test).empty()) << "a small file, with a warning";
  EXPECT_EQ(error(options({.data_path = {"1", path("a"), "1", path("b")}}), kLength10),
            concat("78 --split 969, 30, 1: leaves none of the 20 sequences of ", path("a"),
                   " to test, expected a larger share, or 0"));
  EXPECT_EQ(error(options({.data_path = {path("a")}, .split = "1,999,0"}), kLength10),
            concat("78 --split 1,999,0: leaves none of the 20 sequences of ", path("a"),
                   " to training, expected a larger share"));
  EXPECT_EQ(error(options({.data_path = {path("a")}, .split = "0,1,1"}), kLength10),
            "78 --split 0,1,1: leaves nothing to train on");
}

TEST_F(Files, ResetsThatHaveNoEffectAreErrors) {
  DataOptions o = options({.data_path = {path("a")}});
  o.reset_attention_mask = true;
  o.attention_mask_in_dataloader = false;
  EXPECT_EQ(
      error(o, kLength10),
      "64 --reset-attention-mask: has no effect with --no-create-attention-mask-in-dataloader");
}

}  // namespace
}  // namespace mt
