// Training a model of Punkt on JSON lines or plain text: `mt-preprocess punkt`.
#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"
#include "base/run_context.h"
#include "data/corpus/corpus_reader.h"

namespace mt {

struct PunktOptions {
  CorpusOptions corpus;
  std::string output_dir;                // gets the files of a model (punkt_model.h)
  std::string collocations = "numbers";  // or abbreviations, or all
  void add_to(CommandLine& cl);
};

struct PunktSummary {
  std::int64_t input_files = 0, input_bytes = 0, lines = 0, bad_lines = 0;
  std::int64_t words = 0, abbreviations = 0, collocations = 0, starters = 0, contexts = 0;
  void write(JsonWriter& json) const;  // schema mt-punkt/1
};

// Learns what nltk's PunktTrainer learns of one text: of text files all of their lines, of JSON
// lines their texts with a blank line behind each.  The model does not depend on the number of
// threads.  Throws Exit::bad_data where there is no word.
PunktSummary train_punkt_model(const PunktOptions& options, const RunContext& context);

}  // namespace mt
