#include "infer/infill.h"

#include "text/put_in_front.h"

namespace mt {

namespace {

struct Form {
  std::string_view before, behind, middle = {};  // without a middle: behind comes first
  std::string_view end = {};
};

constexpr Form kForms[] = {
    {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},
    {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},
    {"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},
    {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"},
    {"▁<PRE>", "▁<SUF>", "▁<MID>", "▁<EOT>"},
    {"[PREFIX]", "[SUFFIX]"},
};

}  // namespace

std::optional<Infill> infill(const Tokenizer& tokenizer, std::string_view before,
                             std::string_view behind) {
  const auto one = [&](std::string_view name) {  // -1: no token of this name
    std::vector<std::int32_t> ids;
    encode_alone(tokenizer, name, ids);
    return ids.size() == 1 ? ids.front() : -1;
  };
  for (const Form& form : kForms) {
    const bool has_middle = !form.middle.empty();
    const std::int32_t first = one(form.before), second = one(form.behind),
                       third = has_middle ? one(form.middle) : second;
    // Where names are unknown, they may all be the token of what is unknown.
    if (first < 0 || second < 0 || third < 0 || first == second || first == third ||
        (has_middle && second == third))
      continue;
    Infill made{.ids = put_in_front(tokenizer)};
    const auto put_before = [&] {
      made.ids.push_back(first);
      encode_alone(tokenizer, before, made.ids);
    };
    if (has_middle) put_before();
    made.ids.push_back(second);
    encode_inside(tokenizer, behind, made.ids);
    if (has_middle)
      made.ids.push_back(third);
    else
      put_before();
    if (const std::int32_t end = form.end.empty() ? -1 : one(form.end); end >= 0) made.end = end;
    return made;
  }
  return {};
}

}  // namespace mt
