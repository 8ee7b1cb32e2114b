#include "serve/served_adapters.h"

#include <utility>

namespace mt {

ServedAdapters::ServedAdapters(const std::vector<std::string>& names, RuntimeAdapters runtime)
    : runtime_(std::move(runtime)) {
  for (const std::string& name : names) add(std::ssize(all_) + 1, name);
}

std::optional<std::int64_t> ServedAdapters::find(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [adapter, entry] : all_)
    if (entry.is_there && entry.name == name) return adapter;
  return std::nullopt;
}

const std::string& ServedAdapters::name(std::int64_t adapter) const {
  const std::lock_guard lock(mutex_);
  return all_.at(adapter).name;
}

std::vector<std::int64_t> ServedAdapters::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::int64_t> numbers;
  for (const auto& [adapter, entry] : all_)
    if (entry.is_there) numbers.push_back(adapter);
  return numbers;
}

void ServedAdapters::add(std::int64_t adapter, std::string name) {
  const std::lock_guard lock(mutex_);
  all_[adapter] = {std::move(name)};
}

void ServedAdapters::remove(std::int64_t adapter) {
  const std::lock_guard lock(mutex_);
  all_.at(adapter).is_there = false;
}

}  // namespace mt
