#include "serve/served_adapters.h"

#include <utility>

namespace mt {

ServedAdapters::ServedAdapters(const std::vector<std::string>& names, RuntimeAdapters runtime)
    : runtime_(std::move(runtime)) {
  for (const std::string& name : names) all_.push_back({name});
}

std::optional<std::int64_t> ServedAdapters::find(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < all_.size(); ++i)
    if (all_[i].is_there && all_[i].name == name) return static_cast<std::int64_t>(i + 1);
  return std::nullopt;
}

const std::string& ServedAdapters::name(std::int64_t adapter) const {
  const std::lock_guard lock(mutex_);
  return all_.at(static_cast<std::size_t>(adapter - 1)).name;
}

std::vector<std::int64_t> ServedAdapters::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::int64_t> numbers;
  for (std::size_t i = 0; i < all_.size(); ++i)
    if (all_[i].is_there) numbers.push_back(static_cast<std::int64_t>(i + 1));
  return numbers;
}

void ServedAdapters::add(std::string name) {
  const std::lock_guard lock(mutex_);
  all_.push_back({std::move(name)});
}

void ServedAdapters::remove(std::int64_t adapter) {
  const std::lock_guard lock(mutex_);
  all_.at(static_cast<std::size_t>(adapter - 1)).is_there = false;
}

}  // namespace mt
