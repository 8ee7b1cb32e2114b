// What a folder of the library sentence-transformers says of embeddings, beside the model that they
// are made by: modules.json, which lists what a text goes through (the model, a pooling, a
// normalisation), the pooling's config.json, sentence_bert_config.json and
// config_sentence_transformers.json, as versions up to 6 of the library write and read them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "infer/text_embedder.h"

namespace mt {

struct SentenceFolder {
  bool is_there = false;
  TextPooling pooling = TextPooling::mean;
  bool normalize = false;
  bool lower_case = false;                          // texts become small letters first
  std::int64_t max_tokens = 0;                      // to which a text is cut; 0: the model's
  std::map<std::string, std::string> prompts = {};  // by name: what stands in front of a text
  std::string default_prompt = {};                  // the one where none is named; may be ""
};

// Empty where `folder` has no modules.json.  Exit::bad_data where texts go through what is not
// computed here: another pooling, a dense layer.
std::optional<SentenceFolder> read_sentence_folder(const std::string& folder);

}  // namespace mt
