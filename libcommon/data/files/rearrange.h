// Token files made of others' documents: `mt-preprocess merge` and `split`.  The results are whole
// token files with manifests of their own, which keep what the sources' manifests say of inputs and
// tokenizer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/corpus/preprocess.h"

namespace mt {

// What to merge, as Megatron-LM's tools/merge_datasets.py does it (core_v0.12.1): all token files
// of a folder, in the order of their names; or those that are named, in that order.
struct MergeOptions {
  std::string input;                  // a folder; or
  std::vector<std::string> prefixes;  // these
  std::string output_prefix;
  bool overwrite = false;
  void add_to(CommandLine& cl);
};

// Throws Exit::bad_data where element types or modes differ, Exit::bad_config where tokenizers do.
void merge_datasets(const MergeOptions& options, const RunContext& context);

struct SplitOptions {
  std::string input_prefix, output_prefix;
  std::string weights;  // "98,1,1": OUTPUT_train, _valid and _test, cut as --split cuts
  std::optional<std::int64_t> documents;  // or so many in each of OUTPUT_00000, OUTPUT_00001 ...
  bool overwrite = false;
  void add_to(CommandLine& cl);
};

void split_dataset(const SplitOptions& options, const RunContext& context);

}  // namespace mt
