#include "model/config/attention_config.h"

#include <charconv>

#include "base/error.h"
#include "model/config/ranges.h"

namespace mt {

void AttentionConfig::check(std::int64_t layers) const {
  check_range("--num-query-groups", kv_heads(), between(1, kMany));
  if (num_attention_heads % kv_heads() != 0)
    fail(Exit::bad_config, "--num-query-groups ", num_query_groups,
         ": does not divide --num-attention-heads ", num_attention_heads);
  const auto& skip = window_attn_skip_freq;
  tokens_before();
  if (window_size.empty() && !skip.empty())
    fail(Exit::bad_config, "--window-attn-skip-freq: needs --window-size");
  if (skip.size() > 1 && std::ssize(skip) != layers)
    fail(Exit::bad_config, "--window-attn-skip-freq: ", skip.size(), " numbers for ", layers,
         " layers");
  if (skip.size() == 1 && skip[0] < 1)
    fail(Exit::bad_config, "--window-attn-skip-freq ", skip[0], ": expected at least 1");
}

std::int64_t AttentionConfig::tokens_before() const {
  if (window_size.empty()) return -1;
  std::int64_t before = 0;
  std::string_view pair = window_size;
  if (pair.starts_with('(') && pair.ends_with(')')) pair = pair.substr(1, pair.size() - 2);
  const char* const end = pair.data() + pair.size();
  const auto [comma, error] = std::from_chars(pair.data(), end, before);
  const std::string_view after(comma, end);
  if (error != std::errc() || before < -1 || (after != ",0" && after != ", 0"))
    fail(Exit::bad_config, "--window-size ", window_size,
         ": expected A,0: A tokens before, or -1 for all, and none after");
  return before;
}

std::int64_t AttentionConfig::window(std::int64_t layer) const {
  const auto& skip = window_attn_skip_freq;
  const bool has_window = skip.empty()       ? true
                          : skip.size() == 1 ? (layer + 1) % skip[0] != 0
                                             : skip[static_cast<std::size_t>(layer)] != 0;
  return has_window ? tokens_before() : -1;
}

}  // namespace mt
