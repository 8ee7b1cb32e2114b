// What AutoTokenizer of transformers makes of a tokenizer.json beyond what the file says, by the
// class and the settings of the folder (text/hf/hf_config.h).  Where its versions 4 (4.51.3) and 5
// (5.24.0) differ, `version` says which is meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/hf/hf_added_tokens.h"
#include "text/hf/hf_config.h"
#include "text/hf/hf_document.h"

namespace mt {

// The class of a tokenizer.json: version 5 does not take one of bytes for a Llama's.
const HfClass& hf_class_of_document(const HfDocument& document, const HfConfig& config,
                                    int version);

// Does version 5 make everything anew but vocabulary, merges and post-processor?
bool is_hf_made_anew(const HfConfig& config, int version);

// Gives roles to another token than they name, where version 4 does (HfConfig::mistaken).
void mend_hf_roles(HfConfig& config, const HfDocument& document);

// Changes normalizer, pre_tokenizer, decoder, post_processor and model as the class does.
void adapt_hf_document(HfDocument& document, const HfConfig& config, int version);

// The tokens of a tokenizer.json and of its folder, in the order in which they are added.
void add_hf_tokens(HfAddedVocabulary& added, const HfDocument& document, const HfConfig& config,
                   int version);

// Fails where code of transformers makes the tokenizer that nothing here stands for; `file` is what
// the error calls it.
void check_hf_class(const HfConfig& config, int version, const std::string& file);

// The roles of the tokens that are put around a text, whatever the post_processor says.
struct HfEnds {
  bool count = false;  // else the post_processor says it
  std::vector<std::string_view> before = {}, after = {};
  // Not a role, but this token stands for it, or the unknown one.
  static constexpr std::string_view kLanguage = "language";
  std::string language = {};
};
// `has_template`: the post_processor is there.
HfEnds hf_ends(const HfConfig& config, int version, bool has_template);

// In words, for an identity: the tokens that the file does not have, or not so.  Whether a token is
// special counts only if special ones are not looked for.
std::string hf_tokens_beyond(const HfDocument& document, const std::vector<HfAddedToken>& tokens,
                             bool special_counts);

}  // namespace mt
