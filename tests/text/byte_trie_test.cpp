#include "text/sentencepiece/byte_trie.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>

namespace mt {

TEST(ByteTrie, FindsWhatAMapFinds) {
  std::mt19937 random(1);
  std::map<std::string, std::int32_t> expected;
  while (expected.size() < 20000) {
    std::string key;
    const std::size_t size = 1 + random() % 6;
    while (key.size() < size) key += static_cast<char>(random() % 3 == 0 ? random() % 256 : 'a');
    expected.emplace(key, static_cast<std::int32_t>(expected.size()));
  }
  const ByteTrie trie({expected.begin(), expected.end()});
  for (const auto& [key, value] : expected) {
    ASSERT_EQ(trie.find(key), value);
    const std::string longer = key + "zzz";
    const auto match = trie.longest_prefix(longer);
    ASSERT_EQ(match.value, trie.find(longer.substr(0, match.length)));
    ASSERT_GE(match.length, key.size());
    const auto known = expected.find(longer);
    ASSERT_EQ(trie.find(longer), known == expected.end() ? ByteTrie::kNone : known->second);
  }
}

TEST(ByteTrie, EmptyAndDoubleKeys) {
  EXPECT_EQ(ByteTrie().find("a"), ByteTrie::kNone);
  EXPECT_EQ(ByteTrie().longest_prefix("a").length, 0u);
  const ByteTrie trie({{"", 1}, {"a", 2}, {"a", 3}, {std::string_view("\0", 1), 4}});
  EXPECT_EQ(trie.find(""), ByteTrie::kNone);
  EXPECT_EQ(trie.find("a"), 3);
  EXPECT_EQ(trie.find(std::string_view("\0", 1)), 4);
  EXPECT_EQ(trie.find(std::string_view("\0\0", 2)), ByteTrie::kNone);
}

TEST(ByteTrie, OfNestedKeysAsManyAsAskedFor) {
  const ByteTrie trie({{"a", 1}, {"aa", 2}, {"aaa", 3}});
  EXPECT_EQ(trie.longest_prefix("aaaa").length, 3u);
  EXPECT_EQ(trie.longest_prefix("aaaa", 2).value, 2);
}

}  // namespace mt
