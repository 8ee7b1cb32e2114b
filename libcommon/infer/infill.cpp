#include "infer/infill.h"

#include "text/put_in_front.h"

namespace mt {

namespace {

struct Form {
  std::string_view before, behind, middle;
};

constexpr Form kForms[] = {
    {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},
    {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},
    {"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},
    {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"},
};

}  // namespace

std::optional<std::vector<std::int32_t>> infill(const Tokenizer& tokenizer, std::string_view before,
                                                std::string_view behind) {
  const auto one = [&](std::string_view name) {  // -1: no token of this name
    std::vector<std::int32_t> ids;
    encode_alone(tokenizer, name, ids);
    return ids.size() == 1 ? ids.front() : -1;
  };
  for (const Form& form : kForms) {
    const std::int32_t first = one(form.before), second = one(form.behind),
                       third = one(form.middle);
    // Where names are unknown, they may all be the token of what is unknown.
    if (first < 0 || second < 0 || third < 0 || first == second || second == third) continue;
    std::vector<std::int32_t> ids = put_in_front(tokenizer);
    ids.push_back(first);
    encode_alone(tokenizer, before, ids);
    ids.push_back(second);
    encode_alone(tokenizer, behind, ids);
    ids.push_back(third);
    return ids;
  }
  return {};
}

}  // namespace mt
