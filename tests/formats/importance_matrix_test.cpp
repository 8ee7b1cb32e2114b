// How much errors in a model's columns count: files of llama.cpp's, and GGUF files that are made by
// one.
#include "formats/gguf/importance_matrix.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "base/file.h"
#include "ckpt/gguf.h"
#include "tests/formats/convert_support.h"

namespace mt {
namespace {

struct Importance : Convert {
  struct Tensor {
    std::string name;
    std::int64_t matrices;
    std::vector<float> sums, counts;
  };
  std::string write_gguf(const std::vector<Tensor>& tensors) {
    std::vector<GgufWriter::Entry> entries;
    for (const Tensor& t : tensors) {
      const std::int64_t columns = std::ssize(t.sums) / t.matrices;
      entries.push_back({t.name + ".in_sum2", GgufType::f32, {t.matrices, columns}});
      entries.push_back({t.name + ".counts", GgufType::f32, {std::ssize(t.counts), 1}});
    }
    GgufKeyValues values;
    values.text("general.type", "imatrix");
    const std::string path = scratch_.path("imatrix.gguf");
    GgufWriter writer(path, values, entries);
    for (const Tensor& t : tensors) {
      writer.write(t.name + ".in_sum2",
                   {t.sums.data(), DType::f32, {t.matrices, std::ssize(t.sums) / t.matrices}});
      writer.write(t.name + ".counts", {t.counts.data(), DType::f32, {std::ssize(t.counts), 1}});
    }
    writer.close();
    return path;
  }
  static std::string dat(const std::string& name, std::int32_t calls,
                         const std::vector<float>& numbers) {
    std::string bytes;
    const auto put = [&](std::int32_t value) {
      bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    };
    put(1);
    put(static_cast<std::int32_t>(name.size()));
    bytes += name;
    put(calls);
    put(static_cast<std::int32_t>(numbers.size()));
    bytes.append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float));
    return bytes;
  }
  std::string write_dat(const std::string& bytes) {
    const std::string path = scratch_.path("imatrix.dat");
    File::create(path).write(bytes);
    return path;
  }
};

TEST_F(Importance, IsReadOfBothForms) {
  const ImportanceMatrix of_gguf(
      write_gguf({{"a.weight", 1, {2, 4, 6}, {2}}, {"e.weight", 2, {1, 2, 3, 4}, {4, 0}}}));
  EXPECT_EQ(of_gguf.tensors(), 2U);
  const auto list = [](std::span<const float> x) { return std::vector(x.begin(), x.end()); };
  EXPECT_EQ(list(of_gguf.of("a.weight", 0, 1, 3)), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(list(of_gguf.of("e.weight", 0, 2, 2)), (std::vector<float>{0.25, 0.5}));
  EXPECT_EQ(list(of_gguf.of("e.weight", 1, 2, 2)), (std::vector<float>{1, 1}));
  EXPECT_TRUE(of_gguf.of("b.weight", 0, 1, 3).empty());
  EXPECT_EQ(error_of([&] { of_gguf.of("a.weight", 0, 1, 4); }),
            "65 " + scratch_.path("imatrix.gguf") +
                ": a.weight: has 3 numbers, expected one for each of 4 columns");
  const ImportanceMatrix of_dat(write_dat(dat("a.weight", 4, {2, 4, 8}) + "what follows"));
  EXPECT_EQ(list(of_dat.of("a.weight", 0, 1, 3)), (std::vector<float>{0.5, 1, 2}));
}

TEST_F(Importance, DamagedFilesAreRefused) {
  const std::string whole = dat("a.weight", 4, {2, 4, 8});
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_EQ(error_of([&] { ImportanceMatrix(write_dat(whole.substr(0, size))); }).substr(0, 3),
              "65 ")
        << size;
  constexpr float kNone = std::numeric_limits<float>::quiet_NaN(),
                  kInfinite = std::numeric_limits<float>::infinity();
  for (const float wrong : {-1.0F, kInfinite, kNone, 1e21F}) {
    EXPECT_EQ(error_of([&] { ImportanceMatrix(write_dat(dat("a", 1, {wrong}))); }),
              "65 " + scratch_.path("imatrix.dat") +
                  ": a: has numbers that are below 0, or above 1e+20, or none");
    if (wrong == 1e21F) continue;
    EXPECT_EQ(error_of([&] {
                ImportanceMatrix(write_gguf({{"a", 1, {1, 2}, {wrong}}}));
              }),
              "65 " + scratch_.path("imatrix.gguf") +
                  ": tensor a.counts: has numbers that are below 0 or not finite");
  }
  std::string large = whole;
  large[0] = large[3] = 0x7f;
  EXPECT_NE(error_of([&] { ImportanceMatrix(write_dat(large)); }).find("or damaged"),
            std::string::npos);
  for (const std::size_t counts : {2, 3})
    EXPECT_EQ(error_of([&] {
                ImportanceMatrix(write_gguf({{"a", 1, {1, 2, 3}, std::vector<float>(counts, 1)}}));
              }),
              concat("65 ", scratch_.path("imatrix.gguf"), ": tensor a.counts: has ", counts,
                     " numbers, expected one for each of 1 matrices"));
}

// The blocks of a file are those of the matrix, and what is read back is compared with them;
// tensors of which it has nothing are as without.
TEST_F(Importance, MakesAFilesBlocks) {
  ModelConfig config = config_named("llama");
  config.num_layers = 1;
  config.hidden_size = 256;
  config.kv_channels = 64;
  config.ffn_hidden_size = 256;
  write_hugging_face(scratch_.path("hf"), config, DType::f32);
  std::vector<float> sums;
  for (int i = 0; i < 256; ++i) sums.push_back(static_cast<float>(i % 5 == 0 ? 40 : i % 3));
  ConvertOptions options;
  options.dtype = "q4_k_s";
  options.verify = true;
  convert("hf", "without", "gguf", options);
  options.imatrix = write_gguf({{"blk.0.attn_q.weight", 1, sums, {2}}});
  convert("hf", "with", "gguf", options);
  const GgufReader without(scratch_.path("without/model.gguf")),
      with(scratch_.path("with/model.gguf"));
  const auto same = [&](const std::string& name) {
    const Bytes a = without.blocks_of_row(without.at(name), 3),
                b = with.blocks_of_row(with.at(name), 3);
    return std::ranges::equal(a, b);
  };
  EXPECT_FALSE(same("blk.0.attn_q.weight"));
  EXPECT_TRUE(same("blk.0.attn_k.weight"));
  options.imatrix = write_gguf({{"blk.7.attn_q.weight", 1, sums, {2}}});
  EXPECT_EQ(error("hf", "other", "gguf", options),
            "65 " + options.imatrix + ": is of another model: none of 1 tensors is one of this");
  // Before anything is written, whatever else is right.
  options.imatrix = write_gguf(
      {{"blk.0.attn_q.weight", 1, sums, {2}}, {"blk.0.ffn_down.weight", 1, {1, 2}, {2}}});
  options.load = scratch_.path("hf");
  options.save = scratch_.path("other");
  options.saver = "gguf";
  EXPECT_EQ(error_of([&] { describe_conversion(options); }),
            "65 " + options.imatrix +
                ": blk.0.ffn_down.weight: has 2 numbers, expected one for each of 256 columns");
  options.imatrix = write_gguf({{"blk.0.attn_q.weight", 1, {1, 2}, {2}}});
  EXPECT_EQ(error("hf", "other", "gguf", options),
            "65 " + options.imatrix +
                ": blk.0.attn_q.weight: has 2 numbers, expected one for each of 256 columns");
}

}  // namespace
}  // namespace mt
