#include "text/string_map.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace mt {
namespace {

TEST(StringMap, IsAMapWhoseEntriesKeepTheirOrder) {
  std::mt19937 random(1);
  StringMap<int> map;
  std::map<std::string, int> expected;
  std::vector<std::string> order;
  for (int i = 0; i < 5000; ++i) {
    if (i == 1000) map.reserve(3000);
    const std::string key(random() % 20, static_cast<char>('a' + random() % 3));
    const std::string unlike = std::to_string(random() % 3000);
    for (const std::string& text : {key, unlike}) {
      const auto [entry, is_new] = map.emplace(text, i);
      EXPECT_EQ(is_new, expected.emplace(text, i).second);
      EXPECT_EQ(entry->second, expected[text]);
      if (is_new) order.push_back(text);
    }
    ++map[key];
    ++expected[key];
  }
  ASSERT_EQ(map.size(), expected.size());
  for (std::size_t i = 0; i < order.size(); ++i) EXPECT_EQ(map.begin()[i].first, order[i]);
  for (const auto& [text, value] : expected) {
    ASSERT_TRUE(map.contains(text));
    EXPECT_EQ(map.find(text)->second, value);
  }
  EXPECT_FALSE(map.contains("absent"));
  EXPECT_EQ(map.find("3001"), map.end());
}

TEST(StringMap, AnEmptyOneHasNothing) {
  const StringMap<int> map;
  EXPECT_TRUE(map.empty());
  EXPECT_EQ(map.find(""), map.end());
}

}  // namespace
}  // namespace mt
