// Samples of BERT and T5 and ICT's blocks against Megatron-LM's own, as hashes
// (scripts/make-masked-goldens.py, which may name another file of them in MT_GOLDEN).
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "data/samples/bert_dataset.h"
#include "data/samples/blend_index.h"
#include "data/samples/split.h"
#include "data/samples/t5_dataset.h"
#include "tests/data/fnv.h"
#include "tests/data/index_arrays.h"
#include "tests/data/support.h"

namespace mt {
namespace {

// The script's tokenizer().
WordPieces pieces() {
  WordPieces result{{.cls = 1, .sep = 2, .mask = 3, .pad = 0, .bos = 4, .eos = 5}, {}};
  for (std::int32_t id = 0; id < 300; ++id)
    result.continues_word.push_back(id >= 20 && id % 7 == 3);
  for (std::int32_t id = 250; id < 300; ++id) result.special.extra.push_back(id);
  return result;
}

// The script's write_corpus().
void write_corpus(const std::string& prefix, std::uint32_t seed, int documents, int longest) {
  IndexedDatasetWriter sentences(prefix, TokenType::u16, {});
  IndexedDatasetWriter titles(prefix + "-titles", TokenType::u16, {});
  RandomState random(seed);
  for (int d = 0; d < documents; ++d) {
    std::vector<std::int32_t> tokens, lengths;
    for (std::int64_t left = random.randint(0, 9); left > 0; --left) {
      const std::int64_t length = random.randint(0, 60) == 0 ? 513 : random.randint(0, longest);
      lengths.push_back(static_cast<std::int32_t>(length));
      for (std::int64_t i = 0; i < length; ++i)
        tokens.push_back(static_cast<std::int32_t>(random.randint(6, 250)));
    }
    sentences.add_document(tokens, lengths);
    const auto title = static_cast<std::size_t>(random.randint(1, 9));
    titles.add_document(std::vector<std::int32_t>(title, 7),
                        std::vector{static_cast<std::int32_t>(title)});
  }
  for (IndexedDatasetWriter* writer : {&sentences, &titles}) {
    writer->finish();
    writer->commit({});
  }
}

class Golden {
 public:
  explicit Golden(const std::string& path) : lines_(path) { next(); }

  void check_all() {
    while (!kind_.empty()) {
      SCOPED_TRACE(text_);
      if (kind_ == "file") {
        check_file();
      } else if (kind_ == "blocks") {
        check_blocks();
      } else if (kind_ == "blend") {
        check_blend();
      } else {
        check_case();
      }
      if (testing::Test::HasFailure()) return;
    }
  }
  int sets = 0, blocks = 0, blends = 0;

 private:
  // Moves to the next line that is not a comment; kind_ is empty after the last.
  void next() {
    kind_.clear();
    while (kind_.empty() && std::getline(lines_, text_)) {
      line_ = std::istringstream(text_);
      if (text_.empty() || text_[0] == '#') continue;
      line_ >> kind_;
    }
  }
  template <class T = std::int64_t>
  T word() {
    T value{};
    line_ >> value;
    EXPECT_FALSE(line_.fail()) << text_;
    return value;
  }

  std::string prefix(const std::string& number) const { return scratch_.path(number); }

  void check_file() {
    const auto number = word<std::uint32_t>();
    const std::string name = prefix(std::to_string(number));
    const auto documents = word<int>(), longest = word<int>();
    write_corpus(name, number, documents, longest);
    EXPECT_EQ(hash_of_file(idx_path(name)), word<std::string>());
    next();
  }

  void check_blocks() {
    const std::string name = prefix(word<std::string>());
    const IndexedDataset data(name), titles(name + "-titles");
    BlockMapOptions options;
    options.documents = {0, word()};
    options.max_length = word();
    options.one_sentence = word() == 1;
    options.seed = word<std::uint32_t>();
    if (const auto samples = word<std::string>(); samples != "-")
      options.num_samples = std::stoll(samples);
    const BlockMap map(data, titles, options);
    EXPECT_EQ(map.size(), word());
    EXPECT_EQ(hash_of(std::get<0>(map.rows().array())), word<std::string>());
    ++blocks;
    next();
  }

  // Of all four files, without a split.
  void check_blend() {
    const auto kind = word<std::string>();
    const auto seed = word<std::uint32_t>();
    const auto seq_length = word();
    const auto mask_prob = word<double>(), short_prob = word<double>();
    const auto samples = word();
    const std::vector<double> weights =
        normalized(std::array{word<double>(), word<double>(), word<double>(), word<double>()});
    std::vector<IndexedDataset> files;
    for (const char* number : {"0", "1", "2", "3"}) files.emplace_back(prefix(number));
    std::int64_t size = 0;
    for (const double weight : weights) size += blend_target(samples, weight);
    const auto of_kind = [&]<class Dataset>(const auto& make) {
      std::vector<Dataset> datasets;
      for (std::size_t i = 0; i < files.size(); ++i)
        datasets.push_back(make(files[i], blend_build_size(samples, weights[i])));
      check_blended(datasets, {.weights = weights, .samples = size});
    };
    if (kind == "t5")
      of_kind.operator()<T5Dataset>([&](const IndexedDataset& file, std::int64_t n) {
        return T5Dataset(file, pieces_,
                         {.documents = {0, file.documents()},
                          .seq_length = seq_length,
                          .decoder_seq_length = seq_length,
                          .seed = seed,
                          .num_samples = n,
                          .mask_prob = mask_prob,
                          .short_seq_prob = short_prob});
      });
    else
      of_kind.operator()<BertDataset>([&](const IndexedDataset& file, std::int64_t n) {
        return BertDataset(file, pieces_,
                           {.documents = {0, file.documents()},
                            .seq_length = seq_length,
                            .seed = seed,
                            .num_samples = n,
                            .mask_prob = mask_prob,
                            .short_seq_prob = short_prob,
                            .binary_head = kind == "bert"});
      });
    ++blends;
    next();
  }

  template <class Dataset>
  void check_blended(const std::vector<Dataset>& datasets, const BlendPlan& plan) {
    const BlendIndex blend = blend_of(datasets, plan);
    EXPECT_EQ(blend.size(), word());
    EXPECT_EQ(hash_of(blend.dataset_index()), word<std::string>());
    EXPECT_EQ(hash_of(dataset_sample_index_of(blend)), word<std::string>());
    EXPECT_EQ(hash_of_items(datasets, blend), word<std::string>());
  }

  template <class Dataset>
  static BlendIndex blend_of(const std::vector<Dataset>& datasets, const BlendPlan& plan) {
    std::vector<BlendIndex::Dataset> sizes;
    for (const Dataset& dataset : datasets) sizes.push_back({dataset.name(), dataset.size()});
    return BlendIndex(sizes, plan);
  }

  void check_case() {
    const std::string kind = kind_;
    const IndexedDataset data(prefix(word<std::string>()));
    const auto seed = word<std::uint32_t>();
    const auto seq_length = word();
    const auto split = word<std::string>();
    const auto mask_prob = word<double>(), short_prob = word<double>();
    const std::array samples = {word(), word(), word()};
    next();
    const auto ranges = split_ranges("--split", split, data.documents());
    for (std::size_t i = 0; i < kSplits; ++i) {
      if (!ranges[i]) continue;
      ASSERT_EQ(kind_, "set");
      if (kind == "t5")
        check_set(T5Dataset{data,
                            pieces_,
                            {.documents = *ranges[i],
                             .seq_length = seq_length,
                             .decoder_seq_length = seq_length,
                             .seed = seed,
                             .num_samples = samples[i],
                             .mask_prob = mask_prob,
                             .short_seq_prob = short_prob}});
      else
        check_set(BertDataset{data,
                              pieces_,
                              {.documents = *ranges[i],
                               .seq_length = seq_length,
                               .seed = seed,
                               .num_samples = samples[i],
                               .mask_prob = mask_prob,
                               .short_seq_prob = short_prob,
                               .binary_head = kind == "bert"}});
      ++sets;
      next();
    }
  }

  template <class Dataset>
  void check_set(Dataset dataset) {
    EXPECT_EQ(dataset.size(), word());
    EXPECT_EQ(hash_of(std::get<0>(dataset.map().rows().array())), word<std::string>());
    std::vector<Dataset> alone;
    alone.push_back(std::move(dataset));
    EXPECT_EQ(hash_of_items(alone, blend_of(alone, {.alone = true})), word<std::string>());
  }

  using Fields = std::vector<std::vector<std::int32_t>>;

  static Fields item(const BertDataset& data, std::int64_t k) {
    Fields f(5, std::vector<std::int32_t>(static_cast<std::size_t>(data.seq_length()), -7));
    const auto facts = data.get(k, {f[0], f[1], f[2], f[3], f[4]});
    f.push_back({facts.is_random, facts.truncated});
    return f;
  }
  static Fields item(const T5Dataset& data, std::int64_t k) {
    Fields f(6, std::vector<std::int32_t>(static_cast<std::size_t>(data.seq_length()), -7));
    const auto facts = data.get(k, {.encoder = f[0],
                                    .decoder = f[1],
                                    .labels = f[2],
                                    .loss_mask = f[3],
                                    .encoder_mask = f[4],
                                    .decoder_mask = f[5]});
    f.push_back({facts.truncated});
    return f;
  }

  template <class Dataset>
  static std::string hash_of_items(const std::vector<Dataset>& datasets, const BlendIndex& blend) {
    Fnv fnv;
    for (std::int64_t k = 0; k < std::min<std::int64_t>(blend.size(), 60); ++k) {
      const BlendIndex::Place at = blend.place(k);
      for (const auto& field : item(datasets[at.dataset], at.sample))
        fnv.update(std::as_bytes(std::span(field)));
    }
    return fnv.hex();
  }

  Scratch scratch_;
  WordPieces pieces_ = pieces();
  std::ifstream lines_;
  std::string text_, kind_;
  std::istringstream line_;
};

TEST(Masked, AsMegatronMakesThem) {
  const char* other = std::getenv("MT_GOLDEN");
  Golden golden(other != nullptr ? other : MT_TESTDATA "/data/masked.golden");
  golden.check_all();
  EXPECT_GT(golden.sets, 30);
  EXPECT_GT(golden.blocks, 20);
  EXPECT_GT(golden.blends, 5);
}

}  // namespace
}  // namespace mt
