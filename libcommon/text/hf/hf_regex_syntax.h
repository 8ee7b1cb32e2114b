// Rewrites a regular expression of Oniguruma's syntax for PCRE2 (text/hf/hf_regex.h).
#pragma once

#include <string>
#include <string_view>

namespace mt {

class JsonObject;

// Refuses, by `where`, what the two do not read alike.
std::string pcre2_expression(std::string_view expression, const JsonObject& where);

}  // namespace mt
