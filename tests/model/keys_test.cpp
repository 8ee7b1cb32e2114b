// The keys of rows in torch_dist checkpoints, and what of the tensors under them a row is.
#include "model/keys.h"

#include <gtest/gtest.h>

#include "model/model_table.h"
#include "tests/model/tiny_models.h"

namespace mt {
namespace {

RowPlace fc1(std::int64_t layer) {
  return {.stack = "decoder", .layer = layer, .module = "mlp.linear_fc1", .param = "weight"};
}

Param gated(std::int64_t layer, std::int64_t layers) {
  return {.place = fc1(layer),
          .shape = {8, 3},
          .segments = {{"gate", 4, 0, ShardAxis::tp}, {"up", 4, 0, ShardAxis::tp}},
          .layers = layers};
}

TEST(Keys, EqualLayersAreStacked) {
  ParamTable table;
  const std::vector<KeyPart> parts = key_parts(table.add(gated(1, 5)));
  ASSERT_EQ(parts.size(), 1U);
  EXPECT_EQ(parts[0].key, "decoder.layers.mlp.linear_fc1.weight");
  EXPECT_EQ(parts[0].whole, (Shape{5, 8, 3}));
  EXPECT_EQ(parts[0].offset, (Shape{1, 0, 0}));
  EXPECT_EQ(parts[0].chunk, (Shape{1, 8, 3}));
  EXPECT_EQ(parts[0].begin, 0);
  EXPECT_EQ(parts[0].end, 8);
  const std::vector<KeyPart> apart = key_parts(table.rows()[0], {.numbered = true});
  EXPECT_EQ(apart[0].key, "decoder.layers.1.mlp.linear_fc1.weight");
  EXPECT_EQ(apart[0].whole, (Shape{8, 3}));
}

TEST(Keys, WhatRanksShareAreChunksOfOneTensor) {
  ParamTable table;
  table.divide(1, 2);
  const std::vector<KeyPart> parts = key_parts(table.add(gated(1, 5)));
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[0].offset, (Shape{1, 2, 0}));
  EXPECT_EQ(parts[1].offset, (Shape{1, 6, 0}));
  EXPECT_EQ(parts[1].chunk, (Shape{1, 2, 3}));
  EXPECT_EQ(parts[1].begin, 2);
  EXPECT_EQ(parts[1].end, 4);
  const Param& columns = table.add(
      {.place = fc1(0), .shape = {3, 8}, .segments = {{"up", 8, 1, ShardAxis::tp}}, .layers = 5});
  const std::vector<KeyPart> of_columns = key_parts(columns);
  ASSERT_EQ(of_columns.size(), 1U);
  EXPECT_EQ(of_columns[0].offset, (Shape{0, 0, 4}));
  EXPECT_EQ(of_columns[0].chunk, (Shape{1, 3, 4}));
  EXPECT_EQ(of_columns[0].end, 3);
}

TEST(Keys, ExpertsAreStackedInTheirLayers) {
  ParamTable table;
  Param row = gated(2, 5);
  row.place.expert = 3;
  row.place.module = "linear_fc1";
  row.experts = 4;
  const KeyPart part = key_parts(table.add(row))[0];
  EXPECT_EQ(part.key, "decoder.layers.mlp.experts.experts.linear_fc1.weight");
  EXPECT_EQ(part.whole, (Shape{5, 4, 8, 3}));
  EXPECT_EQ(part.offset, (Shape{2, 3, 0, 0}));
  EXPECT_EQ(part.chunk, (Shape{1, 1, 8, 3}));
  const KeyPart apart = key_parts(table.rows()[0], {.numbered = true})[0];
  EXPECT_EQ(apart.key, "decoder.layers.2.mlp.experts.experts.linear_fc1.weight");
  EXPECT_EQ(apart.whole, (Shape{4, 8, 3}));
}

TEST(Keys, SegmentsMayHaveKeysOfTheirOwn) {
  for (const int rank : {0, 1}) {
    ParamTable table;
    table.divide(rank, 2);
    Param row = gated(1, 0);
    row.segments[1].extent = 8;
    row.shape = {12, 3};
    row.key_by_segments = true;
    const std::vector<KeyPart> parts = key_parts(table.add(row));
    ASSERT_EQ(parts.size(), 2U);
    EXPECT_EQ(parts[0].key, "decoder.layers.1.mlp.linear_fc1.weight.gate");
    EXPECT_EQ(parts[1].key, "decoder.layers.1.mlp.linear_fc1.weight.up");
    EXPECT_EQ(parts[1].whole, (Shape{8, 3}));
    EXPECT_EQ(parts[1].offset, (Shape{4 * rank, 0}));
    EXPECT_EQ(parts[1].chunk, (Shape{4, 3}));
    EXPECT_EQ(parts[1].begin, 2);
    EXPECT_EQ(parts[1].end, 6);
  }
}

TEST(Keys, T5sOutputLayerHasTwo) {
  ParamTable table;
  const Param& row = table.add({.place = {.stack = "lm_head",
                                          .module = "output_layer",
                                          .param = "weight",
                                          .also = "output_layer"},
                                .shape = {8, 3}});
  const std::vector<KeyPart> parts = key_parts(row);
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[0].key, "lm_head.output_layer.weight");
  EXPECT_EQ(parts[1].key, "output_layer.weight");
  ASSERT_EQ(key_parts(row, {.of_state = true}).size(), 1U);
  EXPECT_EQ(key_parts(row, {.of_state = true})[0].key, "output_layer.weight");
}

TEST(Keys, NormsInFrontOfAnMlpHaveTwoSpellings) {
  ParamTable table;
  RowPlace place{.stack = "decoder", .layer = 0, .module = "pre_mlp_layernorm", .param = "weight"};
  const Param& row = table.add({.place = place, .shape = {3}, .layers = 5});
  EXPECT_EQ(key_of(row), "decoder.layers.pre_mlp_layernorm.weight");
  EXPECT_EQ(key_of(row, {.dense_norms = true}), "decoder.layers.mlp.linear_fc1.layer_norm_weight");
  place = local_spec_place(
      {.stack = "decoder", .layer = 0, .module = "mlp.linear_fc1", .param = "layer_norm_weight"});
  EXPECT_EQ(place, row.place);
  EXPECT_EQ(local_spec_place(fc1(0)), fc1(0));
}

// Blocks of a grid: those of one rank's gate and up, and those of a rank of two.
TEST(Keys, StatesAreReformulated) {
  ParamTable whole, half;
  const Param& row = whole.add(gated(1, 5));
  const KeyPart all = reformulated(key_parts(row)[0], row);
  EXPECT_EQ(all.whole, (Shape{5, 2, 1, 12}));
  EXPECT_EQ(all.offset, (Shape{1, 0, 0, 0}));
  EXPECT_EQ(all.chunk, (Shape{1, 2, 1, 12}));
  const std::vector<KeyPart> parts = reformulated_parts(row, 5, 20);
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[0].whole, all.whole);
  EXPECT_EQ(parts[0].offset, (Shape{1, 0, 0, 5}));
  EXPECT_EQ(parts[0].chunk, (Shape{1, 1, 1, 7}));
  EXPECT_EQ(parts[1].offset, (Shape{1, 1, 0, 0}));
  EXPECT_EQ(parts[1].begin, 12);
  EXPECT_EQ(parts[1].end, 20);
  half.divide(1, 2);
  const std::vector<KeyPart> second = reformulated_parts(half.add(gated(1, 5)), 0, 12);
  ASSERT_EQ(second.size(), 2U);
  EXPECT_EQ(second[0].whole, (Shape{5, 4, 1, 6}));
  EXPECT_EQ(second[0].offset, (Shape{1, 1, 0, 0}));
  EXPECT_EQ(second[1].offset, (Shape{1, 3, 0, 0}));
  EXPECT_EQ(second[1].chunk, (Shape{1, 1, 1, 6}));
}

// Each segment with a key has a grid of its own, of the ranks' parts of it.
TEST(Keys, StatesOfSegmentsWithKeysAreReformulated) {
  const auto mixer = [] {
    Param row{
        .place = {.stack = "decoder", .layer = 0, .module = "mixer.in_proj", .param = "weight"},
        .shape = {10, 3},
        .segments = {
            {"z", 4, 0, ShardAxis::tp}, {"x", 4, 0, ShardAxis::tp}, {"dt", 2, 0, ShardAxis::tp}}};
    row.key_by_segments = true;
    return row;
  };
  ParamTable whole, half;
  const std::vector<KeyPart> parts = reformulated_parts(whole.add(mixer()), 5, 26);
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(parts[0].key, "decoder.layers.0.mixer.in_proj.weight.z");
  EXPECT_EQ(parts[0].whole, (Shape{1, 1, 12}));
  EXPECT_EQ(parts[0].offset, (Shape{0, 0, 5}));
  EXPECT_EQ(parts[0].chunk, (Shape{1, 1, 7}));
  EXPECT_EQ(parts[1].begin, 12);
  EXPECT_EQ(parts[1].end, 24);
  EXPECT_EQ(parts[2].key, "decoder.layers.0.mixer.in_proj.weight.dt");
  EXPECT_EQ(parts[2].whole, (Shape{1, 1, 6}));
  EXPECT_EQ(parts[2].chunk, (Shape{1, 1, 2}));
  half.divide(1, 2);
  const std::vector<KeyPart> second = reformulated_parts(half.add(mixer()), 0, 15);
  ASSERT_EQ(second.size(), 3U);
  EXPECT_EQ(second[0].whole, (Shape{2, 1, 6}));
  EXPECT_EQ(second[0].offset, (Shape{1, 0, 0}));
  EXPECT_EQ(second[2].whole, (Shape{2, 1, 3}));
  EXPECT_EQ(second[2].offset, (Shape{1, 0, 0}));
  EXPECT_EQ(second[2].begin, 12);
}

}  // namespace
}  // namespace mt
