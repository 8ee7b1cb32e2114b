// What a tokenizer.json leaves to others: which tokens are put around a text, and which begin and
// end a document.  The first is its post_processor; the second stand in tokenizer_config.json
// beside it, or else in special_tokens_map.json, as transformers reads them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/string_map.h"

namespace mt {

class JsonObject;

// The ids around each text.
struct HfTemplate {
  std::vector<std::int32_t> before = {}, after = {};
};

// Known are TemplateProcessing, ByteLevel, BertProcessing, RobertaProcessing and Sequence; others
// are refused by name, and so are templates that have not the one text they are for once.
HfTemplate read_hf_template(const JsonObject& post_processor, std::int32_t vocab_size);

struct HfConfig {
  std::int32_t bos = -1, eos = -1;  // -1: none is named
  // tokenizer_class is one of Llama's or Gemma's: add_bos_token (by default true) and add_eos_token
  // (false) then say what is put around a text, whatever the post_processor is.
  bool llama = false, add_bos = true, add_eos = false;
};

// One of the two files: what errors call it, and what it holds.
struct HfConfigFile {
  std::string path, content;
};

// The names of the two files that are there, with their folder.
std::vector<std::string> hf_config_files(const std::string& folder);

// Reads what these files say; where more than one speaks of a thing, the first counts.
// Exit::bad_data for a token that is not in `ids`.
HfConfig read_hf_config(const std::vector<HfConfigFile>& files, const StringMap<std::int32_t>& ids);

}  // namespace mt
