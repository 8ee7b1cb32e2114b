// Splits, blends, indexes and masks against Megatron-LM's own, as hashes
// (scripts/compare-data-index.py, which may name another file of them in MT_GOLDEN).
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/file.h"
#include "data/samples/numpy_random.h"
#include "tests/data/fnv.h"
#include "tests/data/index_arrays.h"
#include "tests/data/support.h"
#include "tests/train/samples.h"

namespace mt {
namespace {

constexpr std::int32_t kEod = 379;  // of the tokenizer in testdata

using Words = std::vector<std::string>;

// The script's write_corpus().
void write_corpus(const std::string& prefix, std::uint32_t seed, int sequences,
                  std::int64_t longest) {
  Documents documents(static_cast<std::size_t>(sequences));
  RandomState random(seed);
  for (auto& tokens : documents) {
    tokens.resize(static_cast<std::size_t>(random.randint(1, longest + 1)));
    for (std::int32_t& token : tokens)
      token = random.randint(0, 8) == 0 ? kEod : static_cast<std::int32_t>(random.randint(0, kEod));
  }
  write_documents(prefix, TokenType::u16, documents);
}

class Golden {
 public:
  explicit Golden(const std::string& path) : lines_(path) { next(); }

  void check_all() {
    while (!kind_.empty()) {
      SCOPED_TRACE(text_);
      if (kind_ == "file") {
        check_file();
      } else if (kind_ == "order") {
        check_order();
      } else {
        ASSERT_EQ(kind_, "case");
        check_case();
      }
      if (testing::Test::HasFailure()) return;
    }
  }
  int files = 0, orders = 0, cases = 0, blends = 0, parts = 0, apart = 0, epochs = 0;

 private:
  // Moves to the next line that is not a comment; kind_ is empty after the last.
  void next() {
    kind_.clear();
    while (kind_.empty() && std::getline(lines_, text_)) {
      line_ = std::istringstream(text_);
      if (!text_.starts_with('#')) line_ >> kind_;
    }
  }

  void check_file() {
    std::string name, hash;
    std::uint32_t seed = 0;
    int sequences = 0, longest = 0;
    line_ >> name >> seed >> sequences >> longest >> hash;
    write_corpus(scratch_.path(name), seed, sequences, longest);
    EXPECT_EQ(hash_of_file(idx_path(scratch_.path(name))), hash);
    ++files;
    next();
  }

  void check_order() {
    std::int64_t size = 0;
    std::uint64_t seed = 0;
    std::string hash;
    line_ >> size >> seed >> hash;
    EXPECT_EQ(hash_of(torch_permutation(size, seed)), hash);
    ++orders;
    next();
  }

  static std::optional<std::int64_t> count_of(const std::string& text) {
    if (text == "-") return std::nullopt;
    return std::stoll(text);
  }

  DataOptions options_of_case() {
    DataOptions o;
    std::string split, word;
    line_ >> o.reset_position_ids >> o.reset_attention_mask >> o.eod_mask_loss >> split;
    std::array<Words, kSplits> words;
    for (std::size_t i = 0; line_ >> word;) {
      if (word == "/")
        ++i;
      else
        words.at(i).push_back(word.starts_with('f') ? scratch_.path(word) : word);
    }
    if (split == "-") {
      o.sources.split_paths = words;
    } else {
      o.sources.data_path = words.front();
      o.sources.split = split;
    }
    const std::string folder = std::string(MT_TESTDATA) + "/gpt2_bpe/";
    o.tokenizer = {"GPT2BPETokenizer", folder + "vocab.json", folder + "merges.txt"};
    o.dataloader_type = "cyclic";  // which takes any number of samples
    return o;
  }

  void check_case() {
    std::uint64_t seed = 0;
    std::int64_t seq_length = 0;
    std::string train, valid, test;
    line_ >> seed >> seq_length >> train >> valid >> test;
    DataOptions o = options_of_case();
    o.seq_length = seq_length;
    o.full_validation = valid == "-";
    const std::int64_t eval_iters = count_of(test).value();
    TrainData data(o);
    ASSERT_EQ(data.tokenizer().eod(), kEod);
    data.build({.train_samples = count_of(train).value(),
                .train_iters = count_of(valid).value_or(eval_iters) / eval_iters - 1,
                .eval_iters = eval_iters,
                .full_validation = o.full_validation},
               seed, {.type = o.dataloader_type}, {});
    ++cases;
    next();
    std::array<std::size_t, kSplits> sets = {};
    while (kind_ == "set") {
      std::string name;
      line_ >> name;
      const int split = name == "train" ? 0 : name == "valid" ? 1 : 2;
      ASSERT_EQ(data.sets(static_cast<Split>(split)).size(), 1U) << name;
      check_set(blended(*data.sets(static_cast<Split>(split)).front()), o.reset_attention_mask);
      ++sets[static_cast<std::size_t>(split)];
    }
    for (int i = 0; i < kSplits; ++i)
      EXPECT_EQ(data.sets(static_cast<Split>(i)).size(), sets[static_cast<std::size_t>(i)]);
  }

  void check_set(const Blended& data, bool has_first_key) {
    SCOPED_TRACE(text_);
    std::int64_t size = 0;
    std::string datasets, samples, items;
    line_ >> size >> datasets >> samples >> items;
    EXPECT_EQ(data.size(), size);
    EXPECT_EQ(data.index().dataset_index().empty(), datasets == "-");
    if (datasets != "-") {
      EXPECT_EQ(hash_of(data.index().dataset_index()), datasets);
      EXPECT_EQ(hash_of(dataset_sample_index_of(data.index())), samples);
      ++blends;
    }
    EXPECT_EQ(hash_of_items(data, has_first_key), items);
    next();
    for (const auto& part : data.datasets()) check_part(gpt_index(*part));
  }

  void check_part(const GptIndex& index) {
    SCOPED_TRACE(text_);
    ASSERT_EQ(kind_, "part");
    std::int64_t size = 0;
    std::size_t count = 0;
    std::string documents, samples, shuffle;
    line_ >> size >> count >> documents >> samples >> shuffle;
    EXPECT_EQ(index.size(), size);
    EXPECT_EQ(index.document_index().size(), count);
    EXPECT_EQ(hash_of(index.document_index()), documents);
    EXPECT_EQ(hash_of(sample_index_of(index)), samples);
    EXPECT_EQ(hash_of(shuffle_index_of(index)), shuffle);
    ++parts;
    apart += index.separate_last_epoch();
    epochs += index.epochs() > 1;
    next();
  }

  // The script's items_hash().
  static std::string hash_of_items(const Blended& data, bool has_first_key) {
    const std::int64_t length = data.fields().front().per_sample;
    const HostTensor room(DType::u8, {fields_bytes(data.fields(), 1, DType::f32)});
    const Fields sample = fields_in(room.view(), data.fields(), 1, DType::f32);
    EXPECT_EQ(bool(sample[Field::first_key]), has_first_key);
    const std::vector<std::int32_t> zeros(static_cast<std::size_t>(length));
    Fnv fnv;
    for (std::int64_t k = 0; k < std::min<std::int64_t>(4, data.size()); ++k) {
      data.get(k, sample);
      for (const Field field :
           {Field::ids, Field::labels, Field::loss_mask, Field::positions, Field::first_key}) {
        const Tensor& numbers = sample[field];
        fnv.update(numbers ? Bytes(static_cast<const std::byte*>(numbers.data()), numbers.bytes())
                           : std::as_bytes(std::span(zeros)));
      }
    }
    return fnv.hex();
  }

  Scratch scratch_;
  std::ifstream lines_;
  std::string text_, kind_;
  std::istringstream line_;
};

TEST(BlendGolden, EqualsMegatron) {
  const char* other = std::getenv("MT_GOLDEN");
  Golden golden(other ? other : MT_TESTDATA "/data/blends.golden");
  golden.check_all();
  std::printf(
      "%d files, %d orders, %d cases, %d blends, %d datasets; %d of several epochs, %d of "
      "them with the last apart\n",
      golden.files, golden.orders, golden.cases, golden.blends, golden.parts, golden.epochs,
      golden.apart);
  EXPECT_EQ(golden.files, 8);
  EXPECT_EQ(golden.orders, 20);
  EXPECT_GE(golden.cases, 20);
  EXPECT_GE(golden.blends, golden.cases / 2);
  EXPECT_GE(golden.parts, 2 * golden.cases);
  EXPECT_GE(golden.apart, golden.cases / 4) << "goldens must cover a last epoch shuffled by itself";
  EXPECT_GE(golden.epochs - golden.apart, golden.cases / 4);
}

}  // namespace
}  // namespace mt
