#include "eval/tasks/few_shot.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "text/chat/chat_python.h"

namespace mt {
namespace {

using Places = std::vector<std::size_t>;

// CPython 3.11: r = random.Random(1234); r.sample(range(10), 5), ...
TEST(FewShot, DrawsAsPython) {
  EXPECT_EQ(PythonRandom(1234).sample(10, 5), (Places{7, 1, 0, 9, 4}));
  EXPECT_EQ(PythonRandom(1234).sample(1000, 6), (Places{989, 796, 451, 119, 7, 92}));
  EXPECT_EQ(PythonRandom(1234).sample(100000, 6), (Places{57767, 15315, 981, 11880, 76313, 4577}));
  PythonRandom random(1234);
  EXPECT_EQ(random.sample(50, 3), (Places{49, 28, 7}));
  EXPECT_EQ(random.sample(50, 3), (Places{0, 5, 37}));
  EXPECT_EQ(random.sample(50, 3), (Places{2, 42, 44}));
  // random.Random(2**40 + 7).sample(range(100), 4)
  EXPECT_EQ(PythonRandom((std::uint64_t{1} << 40) + 7).sample(100, 4), (Places{78, 95, 81, 73}));
}

std::vector<ChatValue> numbers(int count) {
  std::vector<ChatValue> all;
  for (int i = 0; i < count; ++i) all.push_back(ChatValue::dict({{"n", i}}));
  return all;
}

std::string shown(const std::vector<ChatValue>& docs) {
  std::string text;
  for (const ChatValue& doc : docs) text += " " + python_text(*doc.find("n"));
  return text;
}

TEST(FewShot, NoneIsItsOwnExample) {
  FewShot drawn(numbers(10), {.count = 4, .draws_itself = true});
  EXPECT_EQ(shown(drawn.next(numbers(10)[7])), " 1 0 9 4");  // of 7 1 0 9 4
  FewShot first(numbers(3), {.count = 2, .first_n = true, .draws_itself = true});
  EXPECT_EQ(shown(first.next(numbers(1)[0])), " 1 2");
  FewShot other(numbers(3), {.count = 2, .first_n = true});
  EXPECT_EQ(shown(other.next(numbers(1)[0])), " 0 1");
}

// A document that stands in the pool several times: what is left of it is drawn from.
TEST(FewShot, DrawsAgainWhereADocumentStandsTwice) {
  std::vector<ChatValue> pool = {numbers(1)[0], numbers(1)[0], numbers(2)[1]};
  FewShot drawn(pool, {.count = 1, .draws_itself = true});
  for (int i = 0; i < 10; ++i) EXPECT_EQ(shown(drawn.next(numbers(1)[0])), " 1");
}

TEST(FewShot, RefusesTooFew) {
  FewShot drawn(numbers(3), {.count = 3, .draws_itself = true, .place = "pool.jsonl"});
  try {
    drawn.next(numbers(1)[0]);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "pool.jsonl: 3 documents are too few for 3 examples, none of which is the "
                 "document itself");
  }
}

}  // namespace
}  // namespace mt
