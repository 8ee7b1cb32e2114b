// The classes of transformers that change what a tokenizer.json says, and the tokens that each has
// by default.  A class that is not known changes nothing and has no token.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace mt {

// The roles in the order in which transformers goes through them.
inline constexpr std::array<std::string_view, 7> kHfRoles = {
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};

struct HfClass {
  enum Effect : std::uint32_t {
    none = 0,
    ends = 1 << 0,           // add_bos_token and add_eos_token say what is put around a text
    begins = 1 << 1,         // add_bos_token is true by default
    bert = 1 << 2,           // do_lower_case, strip_accents and tokenize_chinese_chars count
    deep_prefix = 1 << 3,    // add_prefix_space counts inside of a Sequence too
    own_prefix = 1 << 4,     // add_prefix_space is none by default, and leaves ByteLevel alone
    marks = 1 << 5,          // add_prefix_space says how the first U+2581 comes, as for Llama
    from_nothing = 1 << 6,   // version 5 makes all but vocabulary and merges anew
    around = 1 << 7,         // the class puts cls_token before a text and sep_token behind it
    keeps_chinese = 1 << 8,  // of `bert`: tokenize_chinese_chars does not count in version 4
    // A mask_token without flags takes the white space before it along, as of version 4 or 5 too;
    // and it is looked for in normalized text.
    mask_left = 1 << 9,
    mask_left5 = 1 << 10,
    mask_normal = 1 << 11,
    unread = 1 << 12,     // code that nothing here stands for makes the tokenizer
    unread5 = 1 << 13,    // in version 5
    from_file = 1 << 14,  // is known only where there is a tokenizer.json
    pieces = 1 << 15,     // of `from_nothing`: a Unigram model, of a tokenizer.json alone
    // What version 5 puts around a text: cls_token and sep_token, bos_token and eos_token, or
    // eos_token behind it.
    around5 = 1 << 16,
    bos_eos5 = 1 << 17,
    eos_behind5 = 1 << 18,
  };
  using Roles = std::array<std::string_view, kHfRoles.size()>;

  std::string_view name;  // without "Fast"
  Roles roles;            // of version 4
  std::uint32_t effects;
  std::uint8_t flagged = 0;  // a bit for each role whose token has flags of its own, all false

  bool has(Effect effect) const { return (effects & effect) != 0; }
};

// `name`: with or without "Fast".
const HfClass& hf_class(std::string_view name);
// Whether version 4 or 5 of transformers has a class of that name.
bool hf_class_is_known(std::string_view name, int version);

// The roles of a class as version 4 or 5 of transformers has them.
HfClass::Roles hf_class_roles(const HfClass& kind, int version);

// The class of a model_type of config.json; empty: it is not known.
std::string_view hf_class_of_model(std::string_view model_type, int version);

// The class where a tokenizer_config.json names one beside such a model.  Version 5 takes the
// generic one for models that it has registered with that, and for those whose published folders
// name a wrong one the model's own.
std::string_view hf_class_beside(std::string_view named, std::string_view model_type, int version);

}  // namespace mt
