#include "kernels/preference_loss.h"

#include <gtest/gtest.h>

#include <vector>

namespace mt {
namespace {

// Two pairs whose losses are published beside the formulas: what the policy and the reference say
// of chosen and rejected, and how many tokens each has.
struct Pairs {
  std::vector<double> x = {-10, -14, -20, -15};
  std::vector<double> reference = {-12, -13, -19, -16}, tokens = {4, 5, 6, 3};
  std::vector<double> values = {1, 0}, share = {1, 1}, weight = {1, 1};
  std::vector<double> loss = std::vector<double>(kPreferenceRows * 2);

  void judge(const PreferenceRules& rules, bool slopes) {
    cpu::preference_loss(
        PreferenceTensors<double, double>{.loss = loss.data(),
                                          .x = x.data(),
                                          .tokens = tokens.data(),
                                          .reference = reference.data(),
                                          .values = values.data(),
                                          .share = share.data(),
                                          .weight = slopes ? weight.data() : nullptr,
                                          .units = 2},
        rules);
  }
};

PreferenceRules rules_of(Preference kind) {
  PreferenceRules rules;
  rules.losses[0].kind = kind;
  return rules;
}

struct Golden {
  Preference kind;
  double first, second;
};
constexpr Golden kGoldens[] = {
    {Preference::sigmoid, .554355, .798139},      {Preference::hinge, .7, 1.2},
    {Preference::ipo, 18.490002, 30.25},          {Preference::robust, .516855, .823139},
    {Preference::exo_pair, .358383, .625297},     {Preference::nca_pair, 1.319407, 1.438793},
    {Preference::bco_pair, 1.242536, 1.488793},   {Preference::sppo_hard, 25, 72},
    {Preference::apo_zero, .925187, 1.049958},    {Preference::apo_down, .975391, 1.024855},
    {Preference::sigmoid_norm, .658760, .718460}, {Preference::discopop, .740357, .805752},
    {Preference::simpo, .913015, .092554},        {Preference::orpo, 2.554467, 3.350170},
};

PreferenceRules golden_rules(Preference kind) {
  PreferenceRules rules = rules_of(kind);
  rules.smoothing = 0.1;
  if (kind == Preference::simpo) rules.beta = 2;
  rules.gamma = 1;
  return rules;
}

TEST(PreferenceLoss, Goldens) {
  for (const Golden& golden : kGoldens) {
    Pairs pairs;
    pairs.judge(golden_rules(golden.kind), false);
    const double most = golden.kind == Preference::ipo ? 1e-5 : 1e-6;
    EXPECT_NEAR(pairs.loss[0], golden.first, most) << int(golden.kind);
    EXPECT_NEAR(pairs.loss[1], golden.second, most) << int(golden.kind);
    EXPECT_EQ(pairs.x, Pairs().x);
  }
}

// z is .5: the mean of 2 and -1 over the others.
TEST(PreferenceLoss, GoldensOfSingleTexts) {
  for (const bool wanted : {true, false}) {
    Pairs texts;
    texts.x = {-10, -11, -14, -17};
    texts.reference = {-12, -13, -13, -16};
    texts.values = {wanted ? 1.0 : 0.0, wanted ? 1.0 : 0.0};
    texts.judge(rules_of(Preference::kto), false);
    EXPECT_NEAR(texts.loss[0], wanted ? .462570 : .537430, 1e-6);
    EXPECT_NEAR(texts.loss[1], wanted ? .537430 : .462570, 1e-6);
    EXPECT_DOUBLE_EQ(texts.loss[3 * 2], .5);
    EXPECT_DOUBLE_EQ(texts.loss[(wanted ? 1 : 2) * 2], .2);
    EXPECT_DOUBLE_EQ(texts.loss[(wanted ? 2 : 1) * 2], 0);
  }
}

TEST(PreferenceLoss, RewardModel) {
  Pairs pairs;
  pairs.x = {1.5, .2, 1.5, .2};
  pairs.values = {0, 1};
  PreferenceRules rules = rules_of(Preference::bradley_terry);
  pairs.judge(rules, false);
  EXPECT_NEAR(pairs.loss[0], 0.241008, 1e-6);
  EXPECT_NEAR(pairs.loss[1], 0.554355, 1e-6);  // the margin leaves 0.3 of 1.3
  EXPECT_DOUBLE_EQ(pairs.loss[2], 1.5);
  EXPECT_DOUBLE_EQ(pairs.loss[4], 0.2);
  EXPECT_DOUBLE_EQ(pairs.loss[6], 1);
  EXPECT_DOUBLE_EQ(pairs.loss[8], 1.3);
  rules.center = 0.01;
  pairs.judge(rules, false);
  EXPECT_NEAR(pairs.loss[0], 0.241008 + 0.01 * 1.7 * 1.7, 1e-6);
}

TEST(PreferenceLoss, SlopesAreDerivatives) {
  for (int kind = 0; kind <= int(Preference::apo_zero_unpaired); ++kind)
    for (int divergence = 0; divergence < 4; ++divergence) {
      PreferenceRules rules = golden_rules(static_cast<Preference>(kind));
      rules.divergence = static_cast<Divergence>(divergence);
      rules.alpha = 0.5;
      rules.center = 0.1;
      rules.count = 2;
      rules.losses[1] = {Preference::sft, 0.2};
      Pairs at;
      at.judge(rules, true);
      const bool single = rules.has_single_texts();
      for (std::size_t i = 0; i < 4; ++i) {
        if (single && i % 2 == 1) {
          EXPECT_EQ(at.x[i], 0);  // of the other text nothing is learnt
          continue;
        }
        constexpr double h = 1e-6;
        Pairs up, down;
        up.x[i] += h;
        down.x[i] -= h;
        up.judge(rules, false);
        down.judge(rules, false);
        const double slope = (up.loss[i / 2] - down.loss[i / 2]) / (2 * h);
        EXPECT_NEAR(at.x[i], slope, 1e-6 * (1 + std::abs(slope))) << kind << " " << divergence;
      }
    }
}

TEST(PreferenceLoss, WhereNoUnitIsAllIsZero) {
  Pairs pairs;
  pairs.share[1] = 0;
  pairs.x[2] = pairs.x[3] = NAN;
  pairs.judge(rules_of(Preference::kto), true);
  for (int row = 0; row < kPreferenceRows; ++row)
    EXPECT_EQ(pairs.loss[std::size_t(2 * row + 1)], 0);
  EXPECT_EQ(pairs.x[2], 0);
  EXPECT_EQ(pairs.x[3], 0);
  EXPECT_GT(pairs.loss[0], 0);
}

}  // namespace
}  // namespace mt
