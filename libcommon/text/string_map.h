// StringMap: a hash map with string keys that can be asked with views, of less than 2^32 entries.
// They lie one behind another in the order in which they came; a table with linear probing, at most
// half full, says where.  A new entry may move the others.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mt {

template <class Value>
class StringMap {
 public:
  using Entry = std::pair<std::string, Value>;

  StringMap() : slots_(kLeastSlots) {}

  std::size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  Entry* begin() { return entries_.data(); }
  Entry* end() { return begin() + size(); }
  const Entry* begin() const { return entries_.data(); }
  const Entry* end() const { return begin() + size(); }

  const Entry* find(std::string_view key) const {
    const Slot& slot = slots_[slot_of(key, hash_of(key))];
    return slot.entry == kFree ? end() : begin() + slot.entry;
  }
  Entry* find(std::string_view key) { return begin() + (std::as_const(*this).find(key) - begin()); }
  bool contains(std::string_view key) const { return find(key) != end(); }

  // The entry of the key, and whether it is new; the value of one that was there stays.
  std::pair<Entry*, bool> emplace(std::string_view key, Value value) {
    if (2 * (size() + 1) > slots_.size()) resize(2 * slots_.size());
    const std::uint32_t hash = hash_of(key);
    Slot& slot = slots_[slot_of(key, hash)];
    const bool is_new = slot.entry == kFree;
    if (is_new) {
      slot = {hash, static_cast<std::uint32_t>(size())};
      entries_.emplace_back(key, std::move(value));
    }
    return {begin() + slot.entry, is_new};
  }
  Value& operator[](std::string_view key) { return emplace(key, Value()).first->second; }

  void reserve(std::size_t entries) {
    entries_.reserve(entries);
    resize(std::max(slots_.size(), std::bit_ceil(2 * entries)));
  }

 private:
  static constexpr std::size_t kLeastSlots = 16;
  static constexpr std::uint32_t kFree = 0xFFFFFFFF;
  struct Slot {
    std::uint32_t hash = 0, entry = kFree;
  };

  static std::uint32_t hash_of(std::string_view key) {
    return static_cast<std::uint32_t>(std::hash<std::string_view>()(key));
  }

  // The slot that holds the key, or the free one where it belongs.
  std::size_t slot_of(std::string_view key, std::uint32_t hash) const {
    std::size_t i = hash & (slots_.size() - 1);
    while (slots_[i].entry != kFree &&
           (slots_[i].hash != hash || entries_[slots_[i].entry].first != key))
      i = (i + 1) & (slots_.size() - 1);
    return i;
  }

  void resize(std::size_t slots) {
    std::vector<Slot> old(slots);
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.entry == kFree) continue;
      std::size_t i = slot.hash & (slots - 1);
      while (slots_[i].entry != kFree) i = (i + 1) & (slots - 1);
      slots_[i] = slot;
    }
  }

  std::vector<Entry> entries_;
  std::vector<Slot> slots_;
};

}  // namespace mt
