// Rows of several samples: which samples share one, and that a row is its samples one after
// another.
#include "data/samples/bert_packs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "data/samples/sample_options.h"
#include "tensor/buffer.h"
#include "tests/data/support.h"

namespace mt {
namespace {

constexpr std::int64_t kLength = 64;

class BertPacksTest : public testing::TestWithParam<bool> {
 protected:
  BertPacksTest() {
    IndexedDatasetWriter writer(scratch_.path("text"), TokenType::u16, {});
    std::mt19937 engine(5);
    for (int d = 0; d < 80; ++d) {
      std::vector<std::int32_t> tokens, lengths;
      for (auto left = 2 + engine() % 4; left > 0; --left) {
        lengths.push_back(static_cast<std::int32_t>(1 + engine() % 12));
        for (std::int32_t i = 0; i < lengths.back(); ++i)
          tokens.push_back(static_cast<std::int32_t>(10 + engine() % 90));
      }
      writer.add_document(tokens, lengths);
    }
    writer.finish();
    writer.commit({});
    file_ = std::make_unique<IndexedDataset>(scratch_.path("text"));
  }

  BertPacks packs(std::optional<std::int64_t> rows = {}) const {
    return {*file_,
            pieces_,
            {.documents = {0, file_->documents()},
             .seq_length = kLength,
             .num_samples = rows,
             .mask_prob = 0.2,
             .binary_head = GetParam()}};
  }

  struct Item {
    explicit Item(const Samples& samples, std::int64_t k) {
      const std::int64_t bytes = fields_bytes(samples.fields(), 1, DType::f32);
      memory = Buffer(Device::cpu, static_cast<std::size_t>(bytes));
      fields = fields_in(memory.tensor(DType::u8, {bytes}), samples.fields(), 1, DType::f32);
      samples.get(k, fields);
    }
    std::vector<std::int32_t> of(Field field) const {
      const auto all = fields.span<std::int32_t>(field);
      return {all.begin(), all.end()};
    }
    std::vector<float> mask(Field field) const {
      const auto all = fields.span<float>(field);
      return {all.begin(), all.end()};
    }
    Buffer memory;
    Fields fields;
  };

  Scratch scratch_;
  std::unique_ptr<IndexedDataset> file_;
  WordPieces pieces_{{.cls = 1, .sep = 2, .mask = 3, .pad = 4}, std::vector<bool>(100)};
};
INSTANTIATE_TEST_SUITE_P(WithOrder, BertPacksTest, testing::Bool());

TEST_P(BertPacksTest, EverySampleIsInOneRow) {
  const BertPacks all = packs();
  std::vector<std::uint32_t> seen;
  for (std::int64_t k = 0; k < all.size(); ++k) {
    const auto row = all.samples_of(k);
    EXPECT_LE(std::ssize(row), kMostTextsOfRow);
    EXPECT_TRUE(std::ranges::is_sorted(row));
    std::int64_t tokens = 0;
    for (const std::uint32_t sample : row) tokens += all.samples().longest(sample);
    EXPECT_LE(tokens, kLength);
    seen.insert(seen.end(), row.begin(), row.end());
  }
  std::ranges::sort(seen);
  ASSERT_EQ(std::ssize(seen), all.samples().size());
  for (std::size_t i = 0; i < seen.size(); ++i) ASSERT_EQ(seen[i], i);
  EXPECT_LT(all.size(), all.samples().size() * 2 / 3);
}

TEST_P(BertPacksTest, ARowIsItsSamplesOneAfterAnother) {
  const BertPacks all = packs();
  std::size_t most = 0;
  for (std::int64_t k = 0; k < all.size(); ++k) {
    const Item row(all, k);
    std::vector<std::int32_t> ids, positions, types, lengths, places, labels, order;
    for (const std::uint32_t sample : all.samples_of(k)) {
      const Item one(all.samples(), sample);
      const std::int32_t length = one.of(Field::lengths)[0];
      const auto begin = static_cast<std::int32_t>(ids.size());
      const auto append = [&](std::vector<std::int32_t>& to, Field field) {
        const auto from = one.of(field);
        if (!from.empty()) to.insert(to.end(), from.begin(), from.begin() + length);
      };
      append(ids, Field::ids);
      append(positions, Field::positions);
      append(types, Field::types);
      lengths.push_back(length);
      for (std::size_t i = 0; i < one.of(Field::masked).size(); ++i) {
        if (one.mask(Field::loss_mask)[i] == 0) continue;
        places.push_back(begin + one.of(Field::masked)[i]);
        labels.push_back(one.of(Field::labels)[i]);
      }
      if (GetParam()) order.push_back(one.of(Field::order)[0]);
    }
    most = std::max(most, lengths.size());
    const auto expect = [&](Field field, std::vector<std::int32_t> begin, std::int32_t padding) {
      begin.resize(row.of(field).size(), padding);
      EXPECT_EQ(row.of(field), begin) << k;
    };
    const std::size_t masked = places.size(), texts = lengths.size();
    for (std::int32_t i = 0; std::ssize(positions) < kLength; ++i) positions.push_back(i);
    expect(Field::ids, ids, 4);
    expect(Field::positions, positions, 0);
    expect(Field::lengths, lengths, 0);
    expect(Field::masked, places, 0);
    expect(Field::labels, labels, 0);
    EXPECT_EQ(std::ranges::count(row.mask(Field::loss_mask), 1.0F), std::ssize(places));
    EXPECT_EQ(row.mask(Field::loss_mask).at(masked - 1), 1);
    if (!GetParam()) continue;
    expect(Field::types, types, 0);
    expect(Field::order, order, 0);
    std::vector<float> counts(texts, 1);
    counts.resize(static_cast<std::size_t>(kMostTextsOfRow), 0);
    EXPECT_EQ(row.mask(Field::order_mask), counts);
  }
  EXPECT_GT(most, 3U);
}

// So many epochs are read that there are enough, and the same rows come again.
TEST_P(BertPacksTest, ThereAreAsManyRowsAsAreAskedFor) {
  const std::int64_t epoch = packs().size();
  EXPECT_EQ(packs(epoch).samples().size(), packs().samples().size());
  const BertPacks many = packs(5 * epoch + 1), again = packs(5 * epoch + 1);
  EXPECT_GT(many.size(), 5 * epoch);
  EXPECT_LE(many.size(), 8 * epoch);
  ASSERT_EQ(again.size(), many.size());
  for (std::int64_t k = 0; k < many.size(); ++k)
    EXPECT_TRUE(std::ranges::equal(many.samples_of(k), again.samples_of(k))) << k;
}

}  // namespace
}  // namespace mt
