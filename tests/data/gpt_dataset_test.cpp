#include "data/samples/gpt_dataset.h"

#include <gtest/gtest.h>

#include "data/files/indexed_dataset.h"
#include "tests/data/index_arrays.h"
#include "tests/data/support.h"

namespace mt {
namespace {

using Rows = std::vector<SamplePlace>;
using Ints = std::vector<std::int32_t>;
using Words = std::vector<std::uint32_t>;

Documents documents_of(const std::vector<int>& lengths) {
  Documents documents;
  std::int32_t next = 0;
  for (const int length : lengths) {
    documents.emplace_back();
    for (int i = 0; i < length; ++i) documents.back().push_back(next++ % 30000);
  }
  return documents;
}

// A dataset on the disk for the length of a test.
struct Corpus {
  explicit Corpus(const Documents& documents, TokenType type = TokenType::u16)
      : data((write_documents(folder.path("t"), type, documents), folder.path("t"))) {}
  Scratch folder;
  IndexedDataset data;
};

const Documents kFour = {
    {10, 11, 12, 13, 99}, {20, 21, 99}, {30, 31, 32, 33, 34, 35, 99}, {40, 99}};

GptIndexOptions options_of(const IndexedDataset& data, std::int64_t seq_length,
                           std::optional<std::int64_t> samples) {
  return {.sequences = {0, data.sequences()}, .seq_length = seq_length, .num_samples = samples};
}

template <class T>
std::vector<T> vector_of(std::span<const T> values) {
  return {values.begin(), values.end()};
}

Rows rows_of(const GptIndex& index) {
  Rows rows;
  for (std::int64_t k = 0; k <= index.size(); ++k) rows.push_back(index.sample(k));
  return rows;
}

struct Golden {
  std::optional<std::int64_t> samples;
  std::int64_t epochs;
  bool separate;
  Ints documents;
  Rows rows;
  Words shuffle;
};

const Golden kGoldens[] = {
    {std::nullopt, 1, false, {0, 1, 2, 3}, {{0, 0}, {0, 4}, {2, 0}, {2, 4}, {3, 1}}, {1, 2, 3, 0}},
    {3, 1, false, {0, 1, 2, 3}, {{0, 0}, {0, 4}, {2, 0}, {2, 4}, {3, 1}}, {1, 2, 3, 0}},
    {5,
     2,
     true,
     {0, 1, 2, 3, 1, 2, 3, 0},
     {{0, 0}, {0, 4}, {2, 0}, {2, 4}, {3, 1}, {5, 0}, {5, 4}, {6, 1}, {7, 3}},
     {0, 2, 3, 1, 7, 4, 6, 5}},
    {8,
     2,
     false,
     {2, 1, 2, 0, 0, 1, 3, 3},
     {{0, 0}, {0, 4}, {1, 1}, {2, 2}, {2, 6}, {3, 3}, {4, 2}, {5, 1}, {7, 0}},
     {5, 0, 3, 4, 2, 6, 1, 7}},
    {12,
     3,
     false,
     {3, 0, 3, 2, 1, 2, 1, 0, 0, 1, 2, 3},
     {{0, 0},
      {1, 2},
      {2, 1},
      {3, 3},
      {4, 0},
      {5, 1},
      {5, 5},
      {6, 2},
      {7, 3},
      {8, 2},
      {9, 1},
      {10, 2},
      {10, 6}},
     {7, 11, 2, 3, 1, 9, 5, 4, 0, 8, 6, 10}},
};

TEST(GptIndex, FourDocuments) {
  const Corpus corpus(kFour);
  for (const Golden& golden : kGoldens) {
    const GptIndex index(corpus.data, options_of(corpus.data, 4, golden.samples));
    EXPECT_EQ(index.epochs(), golden.epochs);
    EXPECT_EQ(index.separate_last_epoch(), golden.separate);
    EXPECT_EQ(vector_of(index.document_index()), golden.documents);
    EXPECT_EQ(rows_of(index), golden.rows);
    EXPECT_EQ(shuffle_index_of(index), golden.shuffle);
  }
}

// The document order 0 1 2 3 of seed 1234 is the identity for four documents and one epoch.
TEST(GptIndex, SampleRows) {
  const auto rows = [](const std::vector<int>& lengths, std::int64_t S, bool extra, bool drop) {
    // Zero lengths are sequences here, so they are written as such.
    Scratch folder;
    IndexedDatasetWriter writer(folder.path("t"), TokenType::u16, {});
    for (const int length : lengths)
      writer.add_document(Ints(static_cast<std::size_t>(length), 1), Ints{length});
    writer.finish();
    writer.commit({});
    const IndexedDataset data(folder.path("t"));
    GptIndexOptions options = options_of(data, S, std::nullopt);
    options.extra_token = extra;
    options.drop_last_partial = drop;
    return rows_of(GptIndex(data, options));
  };
  EXPECT_EQ(rows({5, 3, 7, 2}, 4, false, true), (Rows{{0, 0}, {0, 4}, {1, 3}, {2, 4}, {3, 1}}));
  EXPECT_EQ(rows({5, 3, 7, 2}, 5, true, true), (Rows{{0, 0}, {1, 0}, {2, 2}, {3, 0}}));
  EXPECT_EQ(rows({5, 3, 7, 2}, 5, true, false), (Rows{{0, 0}, {1, 0}, {2, 2}, {3, 0}, {3, 1}}));
  EXPECT_EQ(rows({5, 3, 7, 2}, 5, false, false), (Rows{{0, 0}, {0, 5}, {2, 2}, {2, 7}, {3, 2}}));
  EXPECT_EQ(rows({5, 0, 3, 9}, 4, true, true), (Rows{{0, 0}, {0, 4}, {3, 0}, {3, 4}, {3, 8}}));
  EXPECT_EQ(rows({5, 3, 7, 0}, 5, true, false), (Rows{{0, 0}, {1, 0}, {2, 2}, {2, 6}}))
      << "a partial sample ends with the last token there is";
}

// 2^24 + 1 tokens counted in single precision are one fewer.
TEST(GptIndex, KeptPartialSamplesAreCountedInSinglePrecision) {
  const Corpus corpus({Ints(16777217, 1)}, TokenType::u8);
  GptIndexOptions options = options_of(corpus.data, 1, std::nullopt);
  options.extra_token = false;
  options.drop_last_partial = false;
  EXPECT_EQ(GptIndex(corpus.data, options).size(), 16777216);
  options.drop_last_partial = true;
  EXPECT_EQ(GptIndex(corpus.data, options).size(), 16777217);
}

TEST(GptIndex, WithoutTokensItIsAnError) {
  const Corpus empty(Documents(2));
  EXPECT_EQ(code_of([&] { GptIndex(empty.data, options_of(empty.data, 4, 10)); }), Exit::bad_data);
  const Corpus corpus(kFour);
  GptIndexOptions options = options_of(corpus.data, 4, 10);
  options.sequences = {4, 4};
  EXPECT_EQ(code_of([&] { GptIndex(corpus.data, options); }), Exit::bad_data);
}

TEST(GptIndex, ImpossibleOptionsAreUsageErrors) {
  const Corpus corpus(kFour);
  const auto code = [&](auto change) {
    GptIndexOptions options = options_of(corpus.data, 4, 10);
    change(options);
    return code_of([&] { GptIndex(corpus.data, options); });
  };
  EXPECT_EQ(code([](auto& o) { o.seq_length = 0; }), Exit::usage);
  EXPECT_EQ(code([](auto& o) { o.seq_length = INT32_MAX; }), Exit::usage);
  EXPECT_EQ(code([](auto& o) { o.num_samples = -1; }), Exit::usage);
  EXPECT_EQ(code([](auto& o) { o.num_samples = INT64_MAX; }), Exit::usage);
  EXPECT_EQ(code([](auto& o) { o.num_samples = INT64_MAX / 8; }), Exit::usage);
  EXPECT_EQ(code([](auto& o) { o.sequences = {0, 5}; }), Exit::usage);
  EXPECT_EQ(code([](auto& o) { o.sequences = {3, 2}; }), Exit::usage);
}

struct Sample {
  Ints tokens, labels, positions, first_key;
  std::vector<float> mask;
};

Sample get(const GptDataset& dataset, std::int64_t k, bool first_key = false) {
  const auto S = static_cast<std::size_t>(dataset.seq_length());
  Sample sample{Ints(S), Ints(S), Ints(S), Ints(first_key ? S : 0), std::vector<float>(S)};
  dataset.get(k, {sample.tokens, sample.labels, sample.positions, sample.first_key, sample.mask});
  return sample;
}

TEST(GptDataset, Samples) {
  const Corpus corpus(kFour);
  const GptDataset dataset(corpus.data, {.index = options_of(corpus.data, 4, 5)});
  ASSERT_EQ(dataset.size(), 8);
  const Documents expected = {{10, 11, 12, 13, 99}, {30, 31, 32, 33, 34}, {34, 35, 99, 40, 99},
                              {99, 20, 21, 99, 30}, {99, 10, 11, 12, 13}, {99, 20, 21, 99, 30},
                              {34, 35, 99, 40, 99}, {30, 31, 32, 33, 34}};
  for (std::int64_t k = 0; k < 8; ++k) {
    const Ints& text = expected[static_cast<std::size_t>(k)];
    const Sample sample = get(dataset, k);
    EXPECT_EQ(sample.tokens, Ints(text.begin(), text.end() - 1));
    EXPECT_EQ(sample.labels, Ints(text.begin() + 1, text.end()));
    EXPECT_EQ(sample.positions, (Ints{0, 1, 2, 3}));
    EXPECT_EQ(sample.mask, std::vector<float>(4, 1.0F));
  }
}

TEST(GptDataset, PartsNameTheDocuments) {
  const Corpus corpus(kFour);
  const GptDataset dataset(corpus.data, {.index = options_of(corpus.data, 4, 5)});
  using Parts = std::vector<GptDataset::Part>;
  EXPECT_EQ(dataset.parts(0), (Parts{{0, 0, 5}}));
  EXPECT_EQ(dataset.parts(3), (Parts{{0, 4, 5}, {1, 0, 3}, {2, 0, 1}}));
}

TEST(GptDataset, APartialSampleIsPaddedAndMasked) {
  const Corpus corpus(kFour);
  GptDatasetOptions options{.index = options_of(corpus.data, 5, std::nullopt)};
  options.index.drop_last_partial = false;
  const GptDataset dataset(corpus.data, options);
  ASSERT_EQ(dataset.size(), 4);
  const Sample partial = get(dataset, [&] {
    std::int64_t k = 0;
    while (dataset.index().shuffled(k) != 3) ++k;
    return k;
  }());
  EXPECT_EQ(partial.tokens, (Ints{40, 99, 0, 0, 0}));
  EXPECT_EQ(partial.labels, (Ints{99, 0, 0, 0, 0}));
  EXPECT_EQ(partial.mask, (std::vector<float>{1, 0, 0, 0, 0}));
}

TEST(GptDataset, TokensEqualToARealPadAreMasked) {
  const Corpus corpus(kFour);
  const GptDataset dataset(corpus.data, {.index = options_of(corpus.data, 4, 5), .pad_id = 99});
  const Sample sample = get(dataset, 2);  // 34 35 99 40 99
  EXPECT_EQ(sample.tokens, (Ints{34, 35, 0, 40}));
  EXPECT_EQ(sample.labels, (Ints{35, 0, 40, 0}));
  EXPECT_EQ(sample.mask, (std::vector<float>{1, 0, 1, 0}));
}

// The end of a document belongs to it: what follows starts anew.
TEST(GptDataset, DocumentsInASample) {
  struct Case {
    Ints text, positions, first_key;
    std::vector<float> mask;
  };
  const Case cases[] = {
      {{10, 11, 99, 20, 99, 30, 5}, {0, 1, 2, 0, 1, 0}, {0, 0, 0, 3, 3, 5}, {1, 1, 0, 1, 0, 1}},
      {{99, 1, 2, 99, 99, 3, 5}, {0, 0, 1, 2, 0, 0}, {0, 1, 1, 1, 4, 5}, {0, 1, 1, 0, 0, 1}},
      {{1, 2, 3, 4, 5, 6, 99}, {0, 1, 2, 3, 4, 5}, {0, 0, 0, 0, 0, 0}, {1, 1, 1, 1, 1, 1}}};
  const Ints straight = {0, 1, 2, 3, 4, 5};
  for (const Case& c : cases)
    for (const bool positions : {false, true})
      for (const bool keys : {false, true})
        for (const bool loss : {false, true}) {
          const Corpus corpus({c.text});
          const GptDataset dataset(corpus.data, {.index = options_of(corpus.data, 6, 1),
                                                 .eod_id = 99,
                                                 .reset_position_ids = positions,
                                                 .reset_attention_mask = keys,
                                                 .eod_mask_loss = loss});
          const Sample sample = get(dataset, 0, keys);
          EXPECT_EQ(sample.positions, positions ? c.positions : straight);
          EXPECT_EQ(sample.first_key, keys ? c.first_key : Ints());
          EXPECT_EQ(sample.mask, loss ? c.mask : std::vector<float>(6, 1.0F));
        }
}

// Megatron's mask of 10 99 20: a token attends from its first key to itself.
TEST(GptDataset, FirstKeysSayWhatAMatrixWould) {
  const Corpus corpus({{10, 99, 20, 5}});
  const GptDataset dataset(
      corpus.data,
      {.index = options_of(corpus.data, 3, 1), .eod_id = 99, .reset_attention_mask = true});
  const Ints first = get(dataset, 0, true).first_key;
  std::string masked;
  for (std::int32_t row = 0; row < 3; ++row)
    for (std::int32_t key = 0; key < 3; ++key)
      masked += key >= first[static_cast<std::size_t>(row)] && key <= row ? '0' : '1';
  EXPECT_EQ(masked, "011001110");
}

TEST(GptDataset, DocumentsNeedAnEnd) {
  const Corpus corpus(kFour);
  const GptIndexOptions index = options_of(corpus.data, 4, 1);
  for (int option = 0; option < 3; ++option)
    EXPECT_EQ(code_of([&] {
                GptDataset(corpus.data, {.index = index,
                                         .reset_position_ids = option == 0,
                                         .reset_attention_mask = option == 1,
                                         .eod_mask_loss = option == 2});
              }),
              Exit::bad_config);
}

TEST(GptDataset, TokensOutsideTheVocabularyAreBadData) {
  const Corpus corpus(kFour);
  const GptDataset dataset(corpus.data, {.index = options_of(corpus.data, 4, 5), .vocab_size = 99});
  EXPECT_EQ(error_of([&] { get(dataset, 0); }),
            "65 " + corpus.folder.path("t") + ": sequence 0: token 4 is 99, expected 0 to 98");
  EXPECT_EQ(code_of([&] { get(dataset, 1); }), Exit::ok);
}

TEST(GptDataset, DocumentOrderSurvivesManyShortDocuments) {
  const Corpus corpus(documents_of({1, 1, 1, 1, 1, 1, 1, 1, 1, 1}));
  const GptDataset dataset(corpus.data, {.index = options_of(corpus.data, 3, std::nullopt)});
  ASSERT_EQ(dataset.size(), 3);
  const Ints order = {7, 2, 9, 1, 0, 8, 4, 5, 6, 3};  // RandomState(1234), ten documents
  EXPECT_EQ(vector_of(dataset.index().document_index()), order);
  for (std::int64_t k = 0; k < 3; ++k) {
    const auto first = order.begin() + 3 * dataset.index().shuffled(k);
    EXPECT_EQ(get(dataset, k).tokens, Ints(first, first + 3));
    EXPECT_EQ(get(dataset, k).labels, Ints(first + 1, first + 4));
  }
}

}  // namespace
}  // namespace mt
