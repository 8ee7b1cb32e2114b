#include "model/config/head_config.h"

#include <algorithm>

namespace mt {

std::size_t HeadConfig::named_labels() const {
  return label_names.empty() ? 0
                             : 1 + static_cast<std::size_t>(std::ranges::count(label_names, '\n'));
}

std::vector<std::string> HeadConfig::labels() const {
  std::vector<std::string> labels;
  for (std::size_t begin = 0; begin < label_names.size();) {
    const std::size_t end = std::min(label_names.find('\n', begin), label_names.size());
    labels.push_back(label_names.substr(begin, end - begin));
    begin = end + 1;
  }
  for (std::int64_t i = std::ssize(labels); i < num_labels; ++i)
    labels.push_back(std::to_string(i));
  return labels;
}

}  // namespace mt
