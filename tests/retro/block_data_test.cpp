// Vectors in files of Megatron-LM's: what is written, byte for byte, and what is read.
#include "retro/block_data.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "ckpt/pickle.h"
#include "tests/base/scratch.h"

namespace mt {
namespace {

TEST(BlockData, IsWhatWasWritten) {
  const Scratch scratch;
  BlockDataWriter file(scratch.path("vectors.pkl"), false);
  const std::vector<std::int64_t> ids = {7, 300, 70000, -2, std::int64_t{1} << 40};
  std::vector<float> vectors;
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < 2100; ++i) {
    all.push_back(i < 5 ? ids[static_cast<std::size_t>(i)] : 1000 + i);
    for (int c = 0; c < 3; ++c) vectors.push_back(static_cast<float>(i % 9 - 4) / 8);
    file.add(all.back(), std::span(vectors).last(3));
  }
  file.commit();
  const BlockData read = read_block_data(scratch.path("vectors.pkl"));
  EXPECT_EQ(read.columns, 3);
  EXPECT_EQ(read.ids, all);
  EXPECT_EQ(read.vectors, vectors);
  EXPECT_THROW(BlockDataWriter(scratch.path("vectors.pkl"), false), Error);
}

TEST(BlockData, WhatIsNoSuchFileIsRefused) {
  const Scratch scratch;
  const auto refused = [&](const std::string& bytes) {
    write_file_atomically(scratch.path("x.pkl"), bytes, true);
    EXPECT_THROW(read_block_data(scratch.path("x.pkl")), Error) << bytes;
  };
  refused("");
  refused("\x80\x02}.");
  refused(write_pickle(PyValue::dict({{"embed_data", PyValue::dict()}})));
  refused(write_pickle(PyValue::dict({{"embed_data", PyValue::dict({{1, "a"}})}})));
  EXPECT_THROW(BlockDataWriter(scratch.path("big.pkl"), false).add(1, std::vector{1e6F}), Error);
}

TEST(BlockData, AnArrayHasAsManyNumbersAsItSays) {
  const Scratch scratch;
  const auto read = [&](std::int64_t count, const std::string& bytes) {
    const PyValue dtype = PyValue::call(PyValue::global("numpy", "dtype"), {"f4", false, true});
    const PyValue array =
        PyValue::call(PyValue::global("numpy.core.numeric", "_frombuffer"),
                      {PyValue::bytes(bytes), dtype, PyValue::tuple({count}), "C"});
    write_file_atomically(
        scratch.path("x.pkl"),
        write_pickle(PyValue::dict({{"embed_data", PyValue::dict({{1, array}})}})), true);
    return read_block_data(scratch.path("x.pkl"));
  };
  EXPECT_EQ(read(2, std::string(8, '\0')).vectors, (std::vector<float>{0, 0}));
  for (const auto& [count, bytes] : {std::pair{std::int64_t{1} << 62, 0},
                                     {std::int64_t{1} << 62, 4},
                                     {std::int64_t{-1}, 0},
                                     {std::int64_t{1}, 0},
                                     {std::int64_t{1}, 3},
                                     {std::int64_t{1}, 5},
                                     {std::int64_t{1}, 8},
                                     {std::int64_t{2}, 4}}) {
    const auto size = static_cast<std::size_t>(bytes);
    EXPECT_NE(error_of([&] { read(count, std::string(size, '\0')); }).find("has another size"),
              std::string::npos)
        << count << ", " << bytes;
  }
}

}  // namespace
}  // namespace mt
