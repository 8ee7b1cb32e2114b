// preprocess: JSON lines to token files, as Megatron-LM's tools/preprocess_data.py does it
// (core_v0.12.1): for each key a dataset PREFIX_KEY_document, one document a line, one sequence for
// the text or for each text of a list; empty texts give no sequence.  With sentences split a
// dataset PREFIX_KEY_sentence, one sequence for each sentence.  Other than upstream a bad line
// (malformed, without a key, not text) is an error, every key's dataset is completed, and sentences
// are split in the same run and not kept in a file.  Two forms have one dataset PREFIX: text whose
// lines are documents, newline and all (tools/preprocess_data_nmt.py), and JSON lines with an image
// for each (tools/preprocess_mmdata.py; image_folder.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/run_context.h"
#include "data/corpus/bad_lines.h"
#include "data/corpus/sentence_splitter.h"
#include "data/files/manifest.h"
#include "text/tokenizer.h"

namespace mt {

class CommandLine;

struct PreprocessOptions {
  std::vector<std::string> inputs;  // files, patterns, "-"
  std::string format = "jsonl";     // or text
  std::string output_prefix;
  std::vector<std::string> json_keys = {"text"};
  std::string image_folder;     // not empty: the i-th line has the i-th image
  std::int64_t pad_length = 0;  // with images: tokens of each text
  SentenceOptions sentences;
  TokenizerOptions tokenizer;
  bool append_eod = false, prepend_bos = false;
  bool overwrite = false;
  bool resume = false;            // keep a journal, and go on from it
  std::string shard = "0/1";      // "2/8": the third of eight parts of the input
  int workers = 0;                // 0: all cores; changes no byte
  std::int64_t memory = 512;      // MiB that the lines in work take; changes no byte
  std::int64_t log_interval = 0;  // documents between two events of the log; 0: none
  std::string on_error = "stop";  // stop, skip or quarantine=FILE

  void add_to(CommandLine& cl);
};

struct PreprocessSummary {
  struct Dataset {
    std::string key, prefix, dtype;
    std::int64_t sequences, documents, tokens;
  };
  std::vector<Dataset> datasets;
  std::int64_t input_files = 0, input_bytes = 0;  // bytes as stored
  // Absent where an earlier run with --resume had done it all.
  std::optional<std::int64_t> lines, bad_lines;

  void write(JsonWriter& json) const;  // schema mt-preprocess/1
};

PreprocessSummary preprocess(const PreprocessOptions& options, const RunContext& context);

}  // namespace mt
