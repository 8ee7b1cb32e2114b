#include "train/run/term.h"

#include <algorithm>

namespace mt {

std::string member_of(const TermValues& values, std::size_t term) {
  std::string name = term == 0 ? "loss" : values[term].name;
  std::ranges::replace(name, ' ', '_');
  return name;
}

}  // namespace mt
