// Normal forms and lower case as Hugging Face's tokenizers have them (text/hf/hf_tables.h).
#pragma once

#include <string>
#include <string_view>

namespace mt {

enum class NormalForm { nfd, nfkd, nfc, nfkc };  // Unicode 15, 3.11

// `text`, well-formed UTF-8, in its normal form.
std::string hf_normal_form(std::string_view text, NormalForm form);

// Appends the lower case of a character that has one (HfFlag::lower): a capital sigma becomes the
// same letter at the end of a word too.
void append_hf_lower(std::string& out, char32_t point);

}  // namespace mt
