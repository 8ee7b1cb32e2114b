#include "eval/tasks/compare.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "tests/base/scratch.h"

namespace mt {
namespace {

TEST(Compare, Tests) {
  EXPECT_NEAR(mcnemar_p(10, 3), 0.092285, 1e-6);
  EXPECT_EQ(mcnemar_p(0, 0), 1);
  EXPECT_EQ(mcnemar_p(4, 4), 1);
  EXPECT_NEAR(mcnemar_p(0, 5), 0.0625, 1e-12);
  const double even[] = {1, -1, 1, -1}, up[] = {1, 2, 1, 3, 2, 1, 2, 3, 1, 2};
  EXPECT_EQ(sign_flip_p(even), 1);
  EXPECT_NEAR(sign_flip_p(up), 2.0 / 1024, 2e-3);
  EXPECT_EQ(sign_flip_p(up), sign_flip_p(up));
}

std::string line(const char* task, int id, const char* hash, const char* values) {
  return std::string("{") + task + "\"doc_id\":" + std::to_string(id) + ",\"doc_hash\":\"" + hash +
         "\",\"filter\":\"none\",\"metrics\":[\"acc\",\"ll\"]," + values + "}\n";
}

TEST(Compare, MatchesDocuments) {
  const Scratch folder;
  const std::string a = folder.path("a"), b = folder.path("b");
  // The second file is the harness's: it names no task, and has another order.
  write_file_atomically(a,
                        line("\"task\":\"t\",", 0, "x", "\"acc\":1.0,\"ll\":-1") +
                            line("\"task\":\"t\",", 1, "y", "\"acc\":0.0,\"ll\":-2") +
                            line("\"task\":\"t\",", 2, "z", "\"acc\":0.0,\"ll\":-2") +
                            "{\"summary\":true}\n",
                        false);
  write_file_atomically(b,
                        line("", 7, "y", "\"acc\":1,\"ll\":-1.5") +
                            line("", 8, "x", "\"acc\":1,\"ll\":-1.5") +
                            line("", 9, "w", "\"acc\":1,\"ll\":-1.5"),
                        false);
  const Comparison all = compare_items(a, b);
  ASSERT_EQ(all.metrics.size(), 2U);
  EXPECT_EQ(all.metrics[0].task, "t");
  EXPECT_EQ(all.metrics[0].metric, "acc");
  EXPECT_EQ(all.metrics[0].documents, 2);
  EXPECT_TRUE(all.metrics[0].is_accuracy);
  EXPECT_EQ(all.metrics[0].only_b, 1);
  EXPECT_EQ(all.metrics[0].only_a, 0);
  EXPECT_EQ(all.metrics[0].b - all.metrics[0].a, 0.5);
  EXPECT_FALSE(all.metrics[1].is_accuracy);
  EXPECT_EQ(all.metrics[1].a, -1.5);
  EXPECT_EQ(all.metrics[1].b, -1.5);
  EXPECT_NEAR(all.metrics[1].error, 0.5, 1e-12);
  ASSERT_EQ(all.changed.size(), 1U);
  EXPECT_EQ(chat_value_json(all.changed[0].id), "1");
  EXPECT_EQ(all.only_a, 1);
  EXPECT_EQ(all.only_b, 1);
}

TEST(Compare, RefusesOtherFiles) {
  const Scratch folder;
  const std::string a = folder.path("a"), b = folder.path("b");
  write_file_atomically(a, line("", 0, "x", "\"acc\":1.0,\"ll\":-1"), false);
  write_file_atomically(b, "{\"text\":\"x\"}\n", false);
  EXPECT_THROW(compare_items(a, b), Error);
  write_file_atomically(b, line("", 0, "y", "\"acc\":1.0,\"ll\":-1"), true);
  EXPECT_THROW(compare_items(a, b), Error);
}

}  // namespace
}  // namespace mt
