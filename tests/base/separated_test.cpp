// Fields as Python's csv module reads them.
#include "base/input/separated.h"

#include <gtest/gtest.h>

namespace mt {
namespace {

using Fields = std::vector<std::string>;

TEST(Separated, FieldsAreThoseOfPythonsCsv) {
  const auto fields = [](const char* line) { return separated_fields(line, '\t', true); };
  EXPECT_EQ(fields("a\t\tb\r"), (Fields{"a", "", "b"}));
  EXPECT_EQ(fields("\"a\tb\"\tc"), (Fields{"a\tb", "c"}));
  EXPECT_EQ(fields("\"say \"\"a\"\"\"\t\"\""), (Fields{"say \"a\"", ""}));
  EXPECT_EQ(fields("who\t[\"a\", 'b']"), (Fields{"who", "[\"a\", 'b']"}));
  EXPECT_EQ(fields("\"a\"b\""), (Fields{"ab\""}));
  EXPECT_EQ(fields(""), (Fields{""}));
}

TEST(Separated, AQuoteMayNotEnd) {
  bool open = false;
  EXPECT_EQ(separated_fields("a,\"b,c", ',', true, &open), (Fields{"a", "b,c"}));
  EXPECT_TRUE(open);
  EXPECT_EQ(separated_fields("a,\"b,c", ',', false, &open), (Fields{"a", "\"b", "c"}));
  EXPECT_FALSE(open);
}

}  // namespace
}  // namespace mt
