// PagePool: which pages of a cache are held, by how many sequences, and which tokens lie in them.
// A page with a name that nobody holds any more stays as it is, to be found by the next whose text
// begins alike, until a page is needed and it is the one that was left longest ago.  Not
// thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace mt {

class PagePool {
 public:
  std::int64_t size() const { return std::ssize(pages_); }
  std::int64_t idle() const { return std::ssize(idle_); }  // found by their names alone
  std::int64_t held() const { return size() - idle() - std::ssize(free_); }
  void grow(std::int64_t size);

  // A page that the caller holds; none while all are held.
  std::optional<std::int32_t> take();
  void drop(std::int32_t page);                         // the caller's; those of a text's end first
  void hold(std::int32_t page) { ++at(page).holders; }  // which somebody holds

  // What lies in a held page, and no longer changes: these tokens, behind those of a page that has
  // a name, or at the beginning of a text.  The name is no other page's; if it is, the page only
  // gives its followers theirs.  Texts of different kinds have no page in common.
  void name(std::int32_t page, std::optional<std::int32_t> before,
            std::span<const std::int32_t> ids, std::int64_t kind = 0);
  bool has_name(std::int32_t page) const { return at(page).text != 0; }
  // The page of that name, which the caller holds then.
  std::optional<std::int32_t> find(std::optional<std::int32_t> before,
                                   std::span<const std::int32_t> ids, std::int64_t kind = 0);

  void forget();  // no page has a name any more that nobody holds

 private:
  // Texts are numbered: that of a page is the one before it and its own tokens.
  struct Name {
    std::uint64_t before = 0;
    std::int64_t kind = 0;
    std::vector<std::int32_t> ids;
    bool operator==(const Name&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Name& name) const;
  };
  struct Page {
    std::int64_t holders = 0;
    std::uint64_t text = 0;      // 0: it has no name
    const Name* name = nullptr;  // by which it is found
    std::uint64_t left = 0;      // when it was
  };
  const Page& at(std::int32_t page) const { return pages_[static_cast<std::size_t>(page)]; }
  Page& at(std::int32_t page) { return pages_[static_cast<std::size_t>(page)]; }
  Name name_of(std::optional<std::int32_t> before, std::span<const std::int32_t> ids,
               std::int64_t kind) const;
  void lose_name(Page& page);

  std::vector<Page> pages_;
  std::vector<std::int32_t> free_;
  std::set<std::pair<std::uint64_t, std::int32_t>> idle_;  // by when they were left
  std::unordered_map<Name, std::int32_t, Hash> named_;
  std::uint64_t texts_ = 0, clock_ = 0;
};

}  // namespace mt
