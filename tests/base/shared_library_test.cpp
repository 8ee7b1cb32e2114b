#include "base/shared_library.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "tests/support/matches.h"

namespace mt {
namespace {

TEST(SharedLibrary, TakesTheFirstThatIsThere) {
  const SharedLibrary library({"libnobody-has-this.so.7", "libm.so.6"}, "");
  const auto cosine = reinterpret_cast<double (*)(double)>(library.symbol("cos"));
  EXPECT_EQ(cosine(0), 1);
}

std::string line_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::unavailable);
    return error.what();
  }
  return "nothing was thrown";
}

TEST(SharedLibrary, SaysWhatIsMissing) {
  EXPECT_TRUE(matches(line_of([] {
                        SharedLibrary({"libnobody-has-this.so.7", "/nor/this.so"}, "do without");
                      }),
                      "libnobody-has-this.so.7: .*; do without"));
  EXPECT_EQ(line_of([] { SharedLibrary({"libm.so.6"}, "").symbol("nobody_has_this"); }),
            "libm.so.6: has no nobody_has_this");
}

}  // namespace
}  // namespace mt
