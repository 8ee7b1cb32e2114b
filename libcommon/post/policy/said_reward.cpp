#include "post/policy/said_reward.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "base/fits_float.h"

namespace mt {
namespace {

// A number, or null, which is NaN.
bool is_reward(simdjson::dom::element said, double& reward) {
  reward = NAN;
  return said.is_null() || (!said.get(reward) && fits_float(reward));
}

bool is_name(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("_-./").find(static_cast<char>(c)) != std::string_view::npos;
  });
}

std::string take_named(simdjson::dom::object said, double& reward, NamedRewards& named) {
  reward = 0;
  for (const auto& [name, value] : said) {
    double number = 0;
    if (!is_reward(value, number)) return "has a named reward that is no number";
    if (!is_name(name)) return "has a reward's name of other characters than letters, digits, _-./";
    if (std::ranges::count(named, name, &NamedRewards::value_type::first) > 0)
      return "has two rewards of one name";
    named.emplace_back(name, number);
    reward += number;
  }
  return named.empty() ? "has no reward" : "";
}

}  // namespace

std::string take_reward(simdjson::dom::element said, double& reward, NamedRewards& named) {
  simdjson::dom::object several;
  if (!said.get(several)) return take_named(several, reward, named);
  return is_reward(said, reward) ? "" : "has no reward that is a number or null";
}

}  // namespace mt
