// What an index finds where its vectors are placed, beside its own search on the CPU.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "search/placed_index.h"

namespace mt::check {

constexpr std::int64_t kPlacedColumns = 32;

// Around 50 centres.
inline std::vector<float> made_vectors(std::int64_t first, std::int64_t count) {
  const auto number = [](std::int64_t i) {
    auto x = static_cast<std::uint32_t>(i) * 2654435761U;
    x = (x ^ (x >> 15)) * 2246822519U;
    x = (x ^ (x >> 13)) * 3266489917U;
    return static_cast<float>(x >> 8) / static_cast<float>(1 << 24) - 0.5F;
  };
  std::vector<float> all;
  for (std::int64_t i = first; i < first + count; ++i)
    for (std::int64_t c = 0; c < kPlacedColumns; ++c)
      all.push_back(number(i % 50 * kPlacedColumns + c + 100000000) +
                    number(i * kPlacedColumns + c) * 0.5F);
  return all;
}

constexpr const char* kPlacedStrings[] = {"Flat",
                                          "SQ8",
                                          "SQfp16",
                                          "IVF16,Flat",
                                          "IVF16,SQ8",
                                          "IVF16,SQ6",
                                          "IVF16,SQ4",
                                          "IVF16,PQ8",
                                          "PQ8",
                                          "OPQ8_16,IVF16,PQ8",
                                          "IVF16,SQbf16",
                                          "PCA16,IVF16,PQ4,RFlat",
                                          "IVF16_HNSW4,PQ8"};

constexpr const char* kListStrings[] = {"IVF16,Flat", "IVF16,SQ8", "IVF16,PQ8"};

inline VectorIndex made_index(const std::string& string, Products& products) {
  VectorIndex index = make_index("--index-str", string, kPlacedColumns);
  const std::vector<float> all = made_vectors(0, 3000);
  index.train(all, products);
  // Numbers that lists do not have in their order, with gaps where there may be some.
  const std::vector<std::uint8_t> codes = index.encode(all, products);
  const auto half = static_cast<std::size_t>(1500 * index.code_size());
  index.add_codes(std::span(codes).first(half), index.has_gaps() ? 7000000000 : 0);
  index.add_codes(std::span(codes).subspan(half), 1500);
  return index;
}

// The same distances, to rounding, and the same numbers, but for such as are as near.
inline void expect_as_found(const FoundVectors& found, const FoundVectors& expected,
                            const std::string& what) {
  ASSERT_EQ(found.ids.size(), expected.ids.size());
  std::int64_t others = 0;
  for (std::size_t i = 0; i < found.ids.size(); ++i) {
    const float far = expected.distances[i];
    ASSERT_NEAR(found.distances[i], far, 1e-5F * (1 + std::abs(far))) << what << ", place " << i;
    others += found.ids[i] != expected.ids[i];
  }
  EXPECT_LE(others, std::ssize(found.ids) / 200) << what;
}

inline void expect_placed_finds_the_same(const std::string& string, Device device) {
  Products here(2), there(
                        2, [] {}, device);
  VectorIndex index = made_index(string, here);
  PlacedIndex placed(index, there);
  const std::vector<float> queries = made_vectors(9000, 70);
  for (const std::int64_t lists : {4, 16, 1000})
    for (const std::int64_t count : {1, 10, 200}) {
      const IndexSearch options = {.count = count, .lists = lists, .ef_search = 64, .refine = 3};
      expect_as_found(placed.search(queries, options), index.search(queries, options, here),
                      concat(string, ", ", lists, " lists, ", count));
    }
}

// Vectors that have number and code in common with others, as in faiss's files of shards that count
// from 0, are as many neighbours.
inline void expect_placed_finds_repeated_ids(const std::string& string, Device device) {
  Products here(2), there(
                        2, [] {}, device);
  VectorIndex index = make_index("--index-str", string, kPlacedColumns);
  const std::vector<float> all = made_vectors(0, 3000);
  index.train(all, here);
  const std::vector<std::uint8_t> codes = index.encode(all, here);
  for (int i = 0; i < 3; ++i) index.add_codes(codes, 0);
  PlacedIndex placed(index, there);
  const std::vector<float> queries = made_vectors(9000, 70);
  for (const std::int64_t count : {1, 2, 4}) {
    const IndexSearch options = {.count = count, .lists = 16};
    const FoundVectors found = placed.search(queries, options);
    expect_as_found(found, index.search(queries, options, here), concat(string, ", ", count));
    for (std::size_t i = 0; count == 2 && i < found.ids.size(); i += 2)
      EXPECT_EQ(found.ids[i], found.ids[i + 1]) << string;
  }
}

}  // namespace mt::check
