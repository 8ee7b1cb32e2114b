// `mt-preprocess samples`: makes the maps of datasets of BERT, T5 or ICT and their blend, in the
// folder of --data-cache-path if there is one, and prints samples with their masks marked.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "data/corpus/preprocess.h"
#include "data/samples/sample_options.h"

namespace mt {

struct ShowSamplesOptions {
  std::string dataset;                 // bert, t5 or ict
  std::vector<std::string> data_path;  // prefixes, or weights and prefixes
  std::string split = "969, 30, 1", part = "train";
  std::int64_t seq_length = 0;
  std::uint64_t seed = 1234;
  std::optional<std::int64_t> num_samples;  // of the run; absent: one epoch
  std::string cache_path;
  TokenizerOptions tokenizer;
  std::int64_t first = 0, count = 10;
  bool json = false;
  // Options of some kinds of datasets.
  MaskOptions masks;
  std::optional<double> query_in_block_prob;
  bool use_one_sent_docs = false;
  std::vector<std::string> titles_path;  // a prefix for each of data_path

  void add_to(CommandLine& cl);
};

// A sample is a line that says what it is made of, and one for each of its texts:
//   sample 0: wiki_text_sentence, sentences 5 to 9, 16 tokens, swapped
//     text: "[CLS] the [MASK]{cat} sat [SEP] on the mat [SEP]"
// where {} holds what was at a masked place; or, with `json`, one object with the fields that
// Megatron-LM's datasets have, by their names:
//   {"schema":"mt-samples/1","dataset":"bert","sample":0,"file":"wiki_text_sentence","sentences":[5,9],"is_random":1,…}
void show_samples(const ShowSamplesOptions& options, const RunContext& context, std::ostream& out);

}  // namespace mt
