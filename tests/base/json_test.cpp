#include "base/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>

namespace mt {

static std::string number(double value) { return JsonWriter().value(value).text(); }
static std::string text(std::string_view value) { return JsonWriter().value(value).text(); }

TEST(Json, NestsAndSeparates) {
  JsonWriter json;
  json.begin_object().member("a", 1).key("b").begin_array().value(true).null().value("x");
  json.begin_object().end_object().begin_array().end_array().end_array();
  json.member("c", std::uint64_t{18446744073709551615u}).key("d").raw("[1, 2]").end_object();
  EXPECT_EQ(json.text(),
            R"({"a":1,"b":[true,null,"x",{},[]],"c":18446744073709551615,"d":[1, 2]})");
}

TEST(Json, NumbersReadBackEqual) {
  for (const double value : {0.1, 1.0 / 3, 1e-308, 5e-324, 1.7976931348623157e308, -0.5, 3.0, 1e21})
    EXPECT_EQ(std::strtod(number(value).c_str(), nullptr), value);
  EXPECT_EQ(number(3.0), "3");
  EXPECT_EQ(number(std::nan("")), "null");
  EXPECT_EQ(number(std::numeric_limits<double>::infinity()), "null");
}

TEST(Json, PointsWholeRealNumbersWhereTheyAreAskedFor) {
  JsonWriter json(JsonWriter::Wholes::pointed);
  json.begin_array().value(30.0).value(-2.0F).value(1e300).value(0.5).value(30).value(std::nan(""));
  EXPECT_EQ(json.end_array().text(), "[30.0,-2.0,1e+300,0.5,30,null]");
}

TEST(Json, EscapesWhatMustBe) {
  EXPECT_EQ(text("a\"b\\c\n\r\t\b\x1f"), R"("a\"b\\c\n\r\t\u0008\u001f")");
  EXPECT_EQ(text(std::string_view("\0", 1)), R"("\u0000")");
  EXPECT_EQ(text("\u00e9\u20ac"), "\"\u00e9\u20ac\"");
  EXPECT_EQ(text("\xFFz"), "\"\uFFFDz\"");
}

}  // namespace mt
