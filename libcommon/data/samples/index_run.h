// `mt-preprocess index`: makes the indexes of a training run before it, in the folder of
// --data-cache-path, from which all that begin with the same options then map them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/corpus/preprocess.h"
#include "data/samples/batch_options.h"
#include "data/samples/evaluation_options.h"
#include "data/samples/length_options.h"
#include "data/samples/train_data.h"

namespace mt {

struct IndexOptions {
  std::string dataset = "gpt";  // or bert, t5
  DataOptions data;
  BatchOptions batch;
  LengthOptions length;
  EvaluationOptions evaluation;
  std::uint64_t seed = 1234;
  void add_to(CommandLine& cl);
};

struct IndexSummary {
  struct Set {
    std::string split, name;  // "training", "validation" or "test"; of several validation sets
    std::int64_t datasets = 0, samples = 0;
  };
  std::vector<Set> sets;
  std::int64_t made = 0, found = 0;  // indexes

  std::string text() const;            // a line a set
  void write(JsonWriter& json) const;  // schema mt-index/1
};

IndexSummary index_run(const IndexOptions& options, const RunContext& context);

}  // namespace mt
