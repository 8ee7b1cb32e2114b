// Token files and datasets against Megatron-LM's own, as hashes (scripts/make-data-goldens.py).
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "data/files/indexed_dataset.h"
#include "data/samples/gpt_dataset.h"
#include "data/samples/numpy_random.h"
#include "data/samples/split.h"
#include "tests/data/fnv.h"
#include "tests/data/index_arrays.h"
#include "tests/data/support.h"

namespace mt {
namespace {

constexpr std::int64_t kEod = 7;

// The script's write_corpus().
void write_corpus(const std::string& prefix, TokenType type) {
  IndexedDatasetWriter writer(prefix, type, {});
  RandomState random(2024);
  for (int document = 0; document < 203; ++document) {
    const int sequences = document % 17 == 16 ? 0 : document % 10 == 9 ? 3 : 1;
    std::vector<std::int32_t> tokens, lengths;
    for (int i = 0; i < sequences; ++i) {
      const auto length = random.randint(0, 9) == 0 ? random.randint(0, 8) : random.randint(1, 300);
      lengths.push_back(static_cast<std::int32_t>(length));
      for (std::int64_t t = 0; t < length; ++t)
        tokens.push_back(static_cast<std::int32_t>(random.randint(0, 50000)));
    }
    writer.add_document(tokens, lengths);
  }
  writer.finish();
  writer.commit({});
}

std::string hash_of_items(const GptDataset& dataset) {
  const auto S = static_cast<std::size_t>(dataset.seq_length());
  std::vector<std::int32_t> tokens(S), labels(S), positions(S);
  std::vector<float> mask(S);
  std::vector<std::byte> all;
  for (std::int64_t k = 0; k < dataset.size(); ++k) {
    dataset.get(k, {tokens, labels, positions, {}, mask});
    for (const Bytes bytes : {std::as_bytes(std::span(tokens)), std::as_bytes(std::span(labels)),
                              std::as_bytes(std::span(mask))})
      all.insert(all.end(), bytes.begin(), bytes.end());
  }
  return hash_of(all);
}

void check_file(std::istream& line, const Scratch& folder) {
  int code = 0;
  std::int64_t sequences = 0;
  std::string bin_hash, idx_hash;
  line >> code >> sequences >> bin_hash >> idx_hash;
  const std::string prefix = folder.path("type" + std::to_string(code));
  write_corpus(prefix, static_cast<TokenType>(code));
  EXPECT_EQ(IndexedDataset(prefix).sequences(), sequences);
  EXPECT_EQ(hash_of_file(bin_path(prefix)), bin_hash);
  EXPECT_EQ(hash_of_file(idx_path(prefix)), idx_hash);
}

// Returns whether the dataset's last epoch is shuffled by itself.
bool check_case(std::istream& line, const IndexedDataset& data) {
  std::string split, name, samples, documents_hash, samples_hash, shuffle_hash, items_hash;
  std::uint32_t seed = 0;
  std::int64_t seq_length = 0, size = 0, documents = 0;
  bool drop = true;
  line >> split >> seed >> seq_length >> name >> samples >> drop >> size >> documents;
  line >> documents_hash >> samples_hash >> shuffle_hash >> items_hash;
  const int part = name == "train" ? 0 : name == "valid" ? 1 : 2;
  GptDatasetOptions options{.eod_id = kEod, .eod_mask_loss = !drop};
  options.index = {.sequences = split_ranges("--split", split, data.sequences())[part].value(),
                   .seq_length = seq_length,
                   .seed = seed,
                   .drop_last_partial = drop || name != "valid"};
  if (samples != "-") options.index.num_samples = std::stoll(samples);
  const GptDataset dataset(data, options);
  const GptIndex& index = dataset.index();
  EXPECT_EQ(index.size(), size);
  EXPECT_EQ(index.document_index().size(), static_cast<std::size_t>(documents));
  EXPECT_EQ(hash_of(index.document_index()), documents_hash);
  EXPECT_EQ(hash_of(sample_index_of(index)), samples_hash);
  EXPECT_EQ(hash_of(shuffle_index_of(index)), shuffle_hash);
  EXPECT_EQ(hash_of_items(dataset), items_hash);
  return index.separate_last_epoch();
}

TEST(GptGolden, EqualsMegatron) {
  const Scratch folder;
  std::ifstream golden(MT_TESTDATA "/data/gpt_dataset.golden");
  std::string text, kind;
  int files = 0, cases = 0, separate = 0;
  while (std::getline(golden, text)) {
    SCOPED_TRACE(text);
    std::istringstream line(text);
    line >> kind;
    if (kind == "file") {
      check_file(line, folder);
      ++files;
    } else if (kind == "case") {
      separate += check_case(line, IndexedDataset(folder.path("type8")));
      ++cases;
    }
  }
  EXPECT_EQ(files, 2);
  EXPECT_EQ(cases, 29);
  EXPECT_GE(separate, 3) << "goldens must cover a last epoch shuffled by itself";
  EXPECT_LE(separate, cases - 10);
}

}  // namespace
}  // namespace mt
