// A Retro in all kinds of layouts against one rank.
#include "tests/train/encoder_layouts.h"

namespace mt {
namespace {

// Kinds for eight layers, of which the sixth retrieves, and steps of four micro-batches on one
// data-parallel rank and two on two.
const std::vector<LayoutKind> kRetroKinds{
    {.tensor = 2},
    {.tensor = 2, .sequence = true},
    {.tensor = 4, .data = 2, .sequence = true},
    {.data = 2},
    {.data = 4},
    {.stages = 2},
    {.stages = 4},
    {.stages = 8},
    {.tensor = 2, .stages = 2, .sequence = true},
    {.tensor = 2, .stages = 2, .data = 2},
    {.stages = 2, .data = 2},
    {.stages = 4, .data = 2},
    {.stages = 2, .pipeline = {.virtual_stages_per_rank = 2}},
    {.tensor = 2, .stages = 2, .sequence = true, .pipeline = {.virtual_stages_per_rank = 4}},
    {.stages = 4, .pipeline = {.schedule = "zero-bubble"}},
    {.stages = 2, .data = 2, .pipeline = {.schedule = "gpipe"}},
    {.stages = 2, .pipeline = {.layout = "Etttttt|t|t|L"}},
    {.stages = 3, .pipeline = {.layout = "E|ttttttt|tL"}},
};

std::vector<TrainedLayout> retro_layouts() {
  std::vector<TrainedLayout> all;
  std::size_t turn = 0;
  for (const char* positions : {"learned_absolute", "rope"})
    add_layouts(all,
                {.style = Style::retro, .num_layers = 8, .bucket = 9000, .positions = positions},
                kRetroKinds, turn);
  return all;
}

class RetroLayouts : public Layouts {};
INSTANTIATE_TEST_SUITE_P(All, RetroLayouts, in_this_run(retro_layouts()), name_of_layout);

TEST_P(RetroLayouts, AsOneRank) { expect_as_one_rank(); }

}  // namespace
}  // namespace mt
