#include "model/config/adapter_config.h"

#include <algorithm>
#include <cmath>

namespace mt {

double AdapterConfig::lora_scale() const {
  const auto rank = static_cast<double>(lora_rank);
  return lora_alpha / (use_rslora ? std::sqrt(rank) : rank);
}

std::vector<std::string> AdapterConfig::targets() const {
  std::vector<std::string> each;
  for (std::size_t begin = 0; begin < lora_targets.size();) {
    const std::size_t end = std::min(lora_targets.find(',', begin), lora_targets.size());
    each.push_back(lora_targets.substr(begin, end - begin));
    begin = end + 1;
  }
  return each;
}

std::vector<std::string> AdapterConfig::adapted_parts(std::string_view module) const {
  std::vector<std::string> parts;
  if (!has_adapters()) return parts;
  for (const std::string& target : targets()) {
    if (!target.starts_with(module)) continue;
    const std::string rest = target.substr(module.size());
    if (rest.empty() || rest.front() == '.') parts.push_back(rest.substr(rest.empty() ? 0 : 1));
  }
  return parts;
}

}  // namespace mt
