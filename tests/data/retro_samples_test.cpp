// RetroSamples: a GPT's samples with the tokens of what was retrieved for their chunks.
#include "data/samples/retro_samples.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "tests/data/support.h"
#include "text/null_tokenizer.h"

namespace mt {
namespace {

// Five samples of four tokens, 100 k + t.
class Numbers final : public Samples {
 public:
  const std::string& name() const override { return name_; }
  std::int64_t size() const override { return 5; }
  const FieldSpecs& fields() const override { return fields_; }
  void get(std::int64_t k, const Fields& sample) const override {
    for (std::int32_t t = 0; t < 4; ++t)
      sample.span<std::int32_t>(Field::ids)[static_cast<std::size_t>(t)] =
          static_cast<std::int32_t>(100 * k) + t;
  }
  std::vector<std::string> lines(std::int64_t k, const Tokenizer&) const override {
    return {concat("sample ", k)};
  }
  void write(std::int64_t k, const Tokenizer&, JsonWriter& json) const override {
    json.member("k", k);
  }
  Indexes indexes() const override { return {}; }

 private:
  std::string name_ = "numbers";
  FieldSpecs fields_{{.field = Field::ids, .per_sample = 4}};
};

// A database of six chunks of two tokens, 2 c and 2 c + 1, but for the last, whose second is
// padding,
// 9.  The i-th chunk of samples has the neighbours i, i + 1 and -1.
class Database final : public RetrievedChunks {
 public:
  explicit Database(std::int64_t queried = 10) : queried_(queried) {}
  std::int64_t size() const override { return 6; }
  void read(std::int64_t chunk, std::span<std::int32_t> tokens) const override {
    tokens[0] = static_cast<std::int32_t>(2 * chunk);
    tokens[1] = chunk == 5 ? 9 : tokens[0] + 1;
  }
  std::int64_t queried(Split) const override { return queried_; }
  std::vector<std::int64_t> neighbors(Split, std::int64_t first, std::int64_t count,
                                      std::int64_t each) const override {
    std::vector<std::int64_t> found;
    for (std::int64_t i = first; i < first + count; ++i)
      for (const std::int64_t n : {i % 6, (i + 1) % 6, std::int64_t{-1}})
        if (std::ssize(found) < (i - first + 1) * each) found.push_back(n);
    return found;
  }

 private:
  std::int64_t queried_;
};

RetroSampleOptions options(std::int64_t neighbors, std::int64_t queried = 10) {
  return {.chunk_length = 2,
          .neighbors = neighbors,
          .retrieved_chunks = 2,
          .eod_id = 9,
          .retrieved = std::make_shared<Database>(queried)};
}

struct Read {
  std::vector<std::int32_t> ids, tokens, positions;
};

Read read(const RetroSamples& samples, std::int64_t k) {
  Read read{std::vector<std::int32_t>(4), {}, {}};
  Fields fields;
  const auto put = [&](Field field, std::vector<std::int32_t>& numbers) {
    fields[field] = Tensor(numbers.data(), DType::i32, {std::ssize(numbers)});
  };
  put(Field::ids, read.ids);
  for (const FieldSpec& spec : samples.fields()) {
    if (spec.field == Field::encoder_ids)
      read.tokens.resize(static_cast<std::size_t>(spec.per_sample));
    if (spec.field == Field::encoder_positions)
      read.positions.resize(static_cast<std::size_t>(spec.per_sample));
  }
  put(Field::encoder_ids, read.tokens);
  put(Field::encoder_positions, read.positions);
  samples.get(k, fields);
  return read;
}

using List = std::vector<std::int32_t>;

TEST(RetroSamples, NeighboursAreChunksAndThoseBehindThem) {
  const RetroSamples samples(std::make_unique<Numbers>(), Split::train, 5, 4, options(2));
  const Read second = read(samples, 1);
  EXPECT_EQ(second.ids, (List{100, 101, 102, 103}));
  EXPECT_EQ(second.tokens, (List{4, 5, 6, 7, 6, 7, 8, 9, 6, 7, 8, 9, 8, 9, 10, 9}));
  EXPECT_EQ(second.positions, (List{0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3}));
}

TEST(RetroSamples, BehindTheLastChunkIsTheFirstAndNoneIsTheLast) {
  const RetroSamples samples(std::make_unique<Numbers>(), Split::train, 5, 4, options(3));
  const Read third = read(samples, 2);                                   // chunks 4 and 5
  EXPECT_EQ(third.tokens, (List{8,  9, 10, 9, 10, 9, 0, 1, 10, 9, 0, 1,  //
                                10, 9, 0,  1, 0,  1, 2, 3, 10, 9, 0, 1}));
}

TEST(RetroSamples, PositionsStartAgainBehindEndsOfDocuments) {
  RetroSampleOptions again = options(2);
  again.reset_position_ids = true;
  const RetroSamples samples(std::make_unique<Numbers>(), Split::train, 5, 4, again);
  EXPECT_EQ(read(samples, 2).positions, (List{0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 2, 3}));
}

TEST(RetroSamples, NumbersAreTakenModuloTheSamplesThatAreAskedFor) {
  const RetroSamples samples(std::make_unique<Numbers>(), Split::train, 3, 4, options(2, 6));
  EXPECT_EQ(samples.size(), 5);
  EXPECT_EQ(read(samples, 4).ids, read(samples, 1).ids);
  EXPECT_EQ(read(samples, 4).tokens, read(samples, 1).tokens);
}

TEST(RetroSamples, AnotherNumberOfChunksIsRefusedUnlessItMayBe) {
  const auto make = [](const RetroSampleOptions& of) {
    return RetroSamples(std::make_unique<Numbers>(), Split::valid, 5, 4, of);
  };
  RetroSampleOptions fewer = options(2, 6);
  EXPECT_EQ(error_of([&] { make(fewer); }),
            "78 the project has neighbours for 6 chunks of validation, and this run asks for 10; "
            "--retro-no-verify-neighbor-count takes those");
  fewer.verify_count = false;
  EXPECT_EQ(read(make(fewer), 3).ids, (List{0, 1, 2, 3}));
  RetroSampleOptions none = options(2, 1);
  none.verify_count = false;
  EXPECT_EQ(
      error_of([&] { make(none); }),
      "78 the project has neighbours for 1 chunks of validation, expected at least the 2 of a "
      "sample");
}

TEST(RetroSamples, AreShownWithTheTextOfTheirNeighbours) {
  const NullTokenizer tokenizer(24);
  const RetroSamples samples(std::make_unique<Numbers>(), Split::train, 5, 4, options(1));
  EXPECT_EQ(samples.lines(1, tokenizer),
            (std::vector<std::string>{"sample 1", "chunk 0, neighbour from chunk 2: \"4 5 6 7\"",
                                      "chunk 1, neighbour from chunk 3: \"6 7 8 9\""}));
  JsonWriter json;
  json.begin_object();
  samples.write(1, tokenizer, json);
  json.end_object();
  EXPECT_EQ(json.text(), R"({"k":1,"neighbors":[{"chunk":0,"retrieved":[2,3],"text":"4 5 6 7"},)"
                         R"({"chunk":1,"retrieved":[3,4],"text":"6 7 8 9"}]})");
}

}  // namespace
}  // namespace mt
