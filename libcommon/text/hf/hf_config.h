// What the files beside a tokenizer.json say of it, as AutoTokenizer of transformers reads them:
// which tokens there are beyond it, which stand for what, and how the class is set up.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/hf/hf_added_tokens.h"
#include "text/hf/hf_classes.h"

namespace mt {

class JsonObject;

// A setting of tokenizer_config.json.
struct HfFlag3 {
  enum { absent, null, no, yes } value = absent;

  bool is_given() const { return value == no || value == yes; }
  bool or_else(bool other) const { return is_given() ? value == yes : other; }
  // Takes null for no, as Python does.
  bool true_or(bool other) const { return value == absent ? other : value == yes; }
};

// A token by its role.  Where no more is said than its text, its flags do not count.
struct HfRoleToken {
  HfAddedToken token;
  bool has_flags = false;
  bool is_role = true;     // that is said, so that it has the flags of the token that is there
  bool is_listed = false;  // among others, without a name
  bool is_known = true;    // to added_tokens.json, whose tokens of its text are special
};

struct HfConfig {
  const HfClass* tokenizer_class = &hf_class("");
  bool has_class = false;     // one is named, or follows from the model
  std::string unknown_class;  // that is named, and that the version has not
  bool from_file = true;      // there is a tokenizer.json
  bool has_config = false;    // there is a tokenizer_config.json
  // Where a role is not spoken of, the class decides; where it is null, nothing has it.
  std::array<std::optional<std::optional<HfRoleToken>>, kHfRoles.size()> roles;
  std::vector<HfRoleToken> more_special;  // additional_special_tokens and extra_special_tokens
  std::size_t num_listed = 0;             // so many of these come first in version 4, of the former
  bool has_list_key = false;              // additional_special_tokens is spoken of
  bool has_list = false;                  // and is not null

  // added_tokens_decoder; without one, what added_tokens.json has.  By the ids that they give.
  bool has_decoder = false;
  std::map<std::int64_t, HfAddedToken> added;
  // Version 4 takes any role with the text of the last token that special_tokens_map.json lists for
  // the last token of added_tokens.json.
  std::optional<std::pair<std::string, HfAddedToken>> mistaken;

  // Does anything but the tokenizer.json speak?  Else that counts alone.
  bool is_said() const { return has_config || has_class; }

  HfFlag3 add_bos, add_eos, add_prefix_space, legacy, clean_up, split_special;
  HfFlag3 lower_case, strip_accents, keep_accents, chinese, split_by_punct;
  int extra_ids = 100;                        // of T5: how many <extra_id_N> there are
  std::string source_language;                // of translators; empty: the class's own
  bool language_behind = false;               // of NLLB, whose other way is older
  std::string question_token = "[QUESTION]";  // of Splinter
  std::string mask_token_sent = "<mask_1>";   // of Pegasus
  std::optional<std::size_t> unknown_id;      // of XLNet and DeBERTa
  std::size_t offset = 103;                   // of Pegasus: how many special tokens there are
  // Of CodeLlama, around what is to be filled in; empty: there is none.
  std::array<std::string, 5> infills = {"▁<PRE>", "▁<MID>", "▁<SUF>", "▁<EOT>", "<FILL_ME>"};
};

// One of the files: what errors call it, and what it holds.  Which it is, the path's last part
// says; another one is tokenizer_config.json.
struct HfConfigFile {
  std::string path, content;
};

// Whether there is a file of a name in the folder that is spoken of.
using HfIsThere = std::function<bool(const std::string& name)>;

inline constexpr const char* kHfModelConfig = "config.json";
// This file of our own checkpoints keeps what a config.json said of the class.
inline constexpr const char* kHfClassFile = "tokenizer_class.json";

// The names of those files that are there; the model's config.json is the last.
std::vector<std::string> hf_config_files(const HfIsThere& is_there);

// `version`: of transformers, which decides of which class a model's tokenizer is.
HfConfig read_hf_config(const std::vector<HfConfigFile>& files, int version);

// Gives each role that nothing speaks of to the token that the class has for it, adds the other
// special tokens of the class and the flags that it gives to a text (text/hf/hf_class_tokens.cpp).
void fill_hf_roles(HfConfig& config, int version);
// The token of a role, once they are filled; empty: none has it.
std::string hf_role(const HfConfig& config, std::string_view role);

}  // namespace mt
