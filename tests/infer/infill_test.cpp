#include "infer/infill.h"

#include <gtest/gtest.h>

#include "tests/infer/letters.h"

namespace mt {
namespace {

// Letters whose last three are StarCoder's tokens, behind a beginning that all texts have.
class Coder : public Letters {
 public:
  void encode(std::string_view text, std::vector<std::int32_t>& ids) const override {
    ids.push_back(28);
    for (std::size_t at = 0; at < text.size();) {
      const auto is = [&](std::string_view name) { return text.substr(at).starts_with(name); };
      const std::string_view names[] = {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"};
      std::size_t k = 0;
      while (k < 3 && !is(names[k])) ++k;
      ids.push_back(k < 3 ? static_cast<std::int32_t>(23 + k) : text[at] - 'a');
      at += k < 3 ? names[k].size() : 1;
    }
  }
};

// Every name is one and the same token.
class Unknown : public Letters {
  void encode(std::string_view, std::vector<std::int32_t>& ids) const override { ids.push_back(0); }
};

TEST(Infill, StandsBetweenTheTokensOfItsKind) {
  EXPECT_EQ(infill(Coder(), "ab", "c"), (std::vector<std::int32_t>{28, 23, 0, 1, 24, 2, 25}));
  EXPECT_EQ(infill(Coder(), "", ""), (std::vector<std::int32_t>{28, 23, 24, 25}));
}

TEST(Infill, NeedsThem) {
  EXPECT_FALSE(infill(Letters(), "ab", "c"));
  EXPECT_FALSE(infill(Unknown(), "ab", "c"));
}

}  // namespace
}  // namespace mt
