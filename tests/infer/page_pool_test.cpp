#include "infer/page_pool.h"

#include <gtest/gtest.h>

namespace mt {
namespace {

using Ids = std::vector<std::int32_t>;

TEST(PagePool, PagesAreTakenAndDropped) {
  PagePool pool;
  EXPECT_FALSE(pool.take());
  pool.grow(3);
  for (const std::int32_t page : {0, 1, 2}) EXPECT_EQ(pool.take(), page);
  EXPECT_FALSE(pool.take());
  EXPECT_EQ(pool.held(), 3);
  pool.drop(1);
  EXPECT_EQ(pool.held(), 2);
  pool.grow(4);
  EXPECT_EQ(pool.take(), 3);
  EXPECT_EQ(pool.take(), 1);
}

TEST(PagePool, WhatHasANameIsFoundWhoeverHoldsIt) {
  PagePool pool;
  pool.grow(4);
  const auto first = *pool.take(), second = *pool.take();
  pool.name(first, {}, Ids{1, 2});
  pool.name(second, first, Ids{3, 4});
  EXPECT_EQ(pool.find({}, Ids{1, 2}), first);  // a second holder
  EXPECT_EQ(pool.find({}, Ids{3, 4}), std::nullopt);
  EXPECT_EQ(pool.find({}, Ids{1}), std::nullopt);
  pool.drop(second);
  pool.drop(first);
  EXPECT_EQ(pool.held(), 1);
  EXPECT_EQ(pool.idle(), 1);
  EXPECT_EQ(pool.find(first, Ids{3, 4}), second);
  EXPECT_EQ(pool.idle(), 0);
}

// Two sequences see the same tokens at once: what follows either is found behind the other.
TEST(PagePool, TheSameNameTwice) {
  PagePool pool;
  pool.grow(4);
  const auto one = *pool.take(), same = *pool.take(), next = *pool.take();
  pool.name(one, {}, Ids{7});
  pool.name(same, {}, Ids{7});
  pool.name(next, same, Ids{8});
  EXPECT_EQ(pool.find(one, Ids{8}), next);
  pool.drop(same);
  EXPECT_EQ(pool.idle(), 0);  // it is free: it is never found
  EXPECT_EQ(pool.take(), same);
}

// Pages without a name go first, then what was left longest ago.
TEST(PagePool, WhatWasLeftLongestAgoGoesFirst) {
  PagePool pool;
  pool.grow(3);
  for (std::int32_t i = 0; i < 3; ++i) {
    const auto page = *pool.take();
    if (page != 1) pool.name(page, {}, Ids{page});
  }
  pool.drop(2);
  pool.drop(0);
  pool.drop(1);
  EXPECT_EQ(pool.take(), 1);
  EXPECT_EQ(pool.take(), 2);
  EXPECT_EQ(pool.find({}, Ids{2}), std::nullopt);
  EXPECT_EQ(pool.find({}, Ids{0}), 0);
  EXPECT_FALSE(pool.take());
}

// A page that lies behind one which is gone is not taken for another's.
TEST(PagePool, ANameIsOfTheWholeText) {
  PagePool pool;
  pool.grow(2);
  const auto first = *pool.take(), second = *pool.take();
  pool.name(first, {}, Ids{1});
  pool.name(second, first, Ids{2});
  pool.drop(first);
  EXPECT_EQ(pool.take(), first);
  pool.name(first, {}, Ids{1});
  EXPECT_EQ(pool.find(first, Ids{2}), std::nullopt);
  pool.drop(second);
  pool.forget();
  EXPECT_EQ(pool.idle(), 0);
  EXPECT_EQ(pool.take(), second);
}

}  // namespace
}  // namespace mt
