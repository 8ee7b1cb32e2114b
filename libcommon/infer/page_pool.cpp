#include "infer/page_pool.h"

namespace mt {

std::size_t PagePool::Hash::operator()(const Name& name) const {  // FNV-1a
  constexpr std::uint64_t kPrime = 0x100000001B3;
  std::uint64_t hash = 0xCBF29CE484222325 ^ name.before;
  hash = (hash ^ static_cast<std::uint64_t>(name.kind)) * kPrime;
  for (const std::int32_t id : name.ids) hash = (hash ^ static_cast<std::uint32_t>(id)) * kPrime;
  return hash;
}

void PagePool::grow(std::int64_t size) {
  for (auto page = static_cast<std::int32_t>(size) - 1; page >= this->size(); --page)
    free_.push_back(page);
  pages_.resize(static_cast<std::size_t>(size));
}

std::optional<std::int32_t> PagePool::take() {
  std::int32_t page = 0;
  if (!free_.empty()) {
    page = free_.back();
    free_.pop_back();
  } else if (!idle_.empty()) {
    page = idle_.begin()->second;
    idle_.erase(idle_.begin());
    lose_name(at(page));
  } else {
    return std::nullopt;
  }
  at(page) = {.holders = 1};
  return page;
}

void PagePool::lose_name(Page& page) {
  if (page.name != nullptr) named_.erase(Name(*page.name));
  page = {};
}

void PagePool::drop(std::int32_t number) {
  Page& page = at(number);
  if (--page.holders > 0) return;
  if (page.name == nullptr) {
    page = {};
    free_.push_back(number);
  } else {
    page.left = ++clock_;
    idle_.emplace(page.left, number);
  }
}

PagePool::Name PagePool::name_of(std::optional<std::int32_t> before,
                                 std::span<const std::int32_t> ids, std::int64_t kind) const {
  return {.before = before ? at(*before).text : 0, .kind = kind, .ids = {ids.begin(), ids.end()}};
}

void PagePool::name(std::int32_t page, std::optional<std::int32_t> before,
                    std::span<const std::int32_t> ids, std::int64_t kind) {
  const auto [found, is_new] = named_.try_emplace(name_of(before, ids, kind), page);
  at(page).text = is_new ? ++texts_ : at(found->second).text;
  if (is_new) at(page).name = &found->first;
}

std::optional<std::int32_t> PagePool::find(std::optional<std::int32_t> before,
                                           std::span<const std::int32_t> ids, std::int64_t kind) {
  const auto found = named_.find(name_of(before, ids, kind));
  if (found == named_.end()) return std::nullopt;
  Page& page = at(found->second);
  if (page.holders++ == 0) idle_.erase({page.left, found->second});
  return found->second;
}

void PagePool::forget() {
  for (const auto& [left, page] : idle_) {
    lose_name(at(page));
    free_.push_back(page);
  }
  idle_.clear();
}

}  // namespace mt
