// A T5 in all kinds of layouts against one rank.
#include "tests/train/encoder_layouts.h"

namespace mt {
namespace {

// Kinds for two layers of each stack and steps of four micro-batches on one data-parallel rank and
// two on two.
const std::vector<LayoutKind> kT5Kinds{
    {.tensor = 2},
    {.tensor = 2, .sequence = true},
    {.tensor = 4, .data = 2, .sequence = true},
    {.data = 2},
    {.data = 4},
    {.stages = 2},
    {.stages = 4},
    {.tensor = 2, .stages = 2, .sequence = true},
    {.tensor = 2, .stages = 2, .data = 2},
    {.stages = 2, .data = 2},
    {.stages = 4, .data = 2},
    {.stages = 2, .pipeline = {.virtual_stages_per_rank = 2}},
    {.tensor = 2, .stages = 2, .sequence = true, .pipeline = {.virtual_stages_per_rank = 2}},
    {.stages = 4, .pipeline = {.schedule = "zero-bubble"}},
    {.stages = 2, .data = 2, .pipeline = {.schedule = "gpipe"}},
    {.stages = 2, .pipeline = {.layout = "E|ttt|t|L"}},
    {.stages = 2, .pipeline = {.layout = "Et|tttL"}},
    {.stages = 3, .pipeline = {.layout = "Ettt|t|L"}},
};

std::vector<TrainedLayout> t5_layouts() {
  std::vector<TrainedLayout> all;
  std::size_t turn = 0;
  for (const char* positions : {"learned_absolute", "relative", "rope"})
    add_layouts(all, {.style = Style::t5, .bucket = 3000, .positions = positions}, kT5Kinds, turn);
  return all;
}

class T5Layouts : public Layouts {};
INSTANTIATE_TEST_SUITE_P(All, T5Layouts, in_this_run(t5_layouts()), name_of_layout);

TEST_P(T5Layouts, AsOneRank) { expect_as_one_rank(); }

}  // namespace
}  // namespace mt
