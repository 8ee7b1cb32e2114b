// The optimizer's state in files of the torch format.
#include "formats/megatron/rank_optimizer.h"
#include "formats/differences.h"

#include <gtest/gtest.h>

#include <cstring>

#include "ckpt/megatron_checkpoint.h"
#include "ckpt/torch_tensors.h"
#include "formats/megatron/rank_layout.h"
#include "model/config/megatron_args.h"
#include "model/families/gpt.h"
#include "model/row_checkpoint.h"
#include "tests/formats/convert_support.h"

namespace mt {
namespace {

// Starts and sizes as Megatron-Core 0.12.1 finds them: _ParamAndGradBuffer over parameters of these
// sizes, param_index_map less the padding between buckets.
TEST(RankLayout, BuffersAreMegatrons) {
  struct Case {
    std::vector<std::int64_t> sizes;
    BufferRules rules;
    int shared;
    std::vector<std::int64_t> starts;
    std::int64_t size;
  };
  const std::vector<std::int64_t> odd = {100, 64, 300, 7, 129};
  const Case cases[] = {{odd, {.ranks = 1}, -1, {640, 576, 256, 192, 0}, 740},
                        {odd, {.ranks = 3}, -1, {640, 576, 256, 192, 0}, 740},
                        {odd, {.ranks = 2, .bucket = 256}, -1, {620, 556, 256, 192, 0}, 720},
                        {{300, 100, 64, 256}, {.ranks = 2}, 3, {448, 320, 256, 0}, 748},
                        {{256, 100, 64, 300, 72}, {.ranks = 3}, 0, {768, 512, 448, 128, 0}, 1024}};
  for (const Case& c : cases) {
    std::vector<BufferParam> params;
    for (const std::int64_t size : c.sizes)
      params.push_back({size, static_cast<int>(params.size()) == c.shared});
    const UnpaddedLayout layout = rank_buffer(params, c.rules);
    EXPECT_EQ(layout.starts, c.starts);
    EXPECT_EQ(layout.size, c.size);
  }
}

Param at(Param row, const RowPlace& place) {
  row.place = place;
  return row;
}

TEST(RankLayout, ModulesRegisterAsMegatrons) {
  const Gpt model(config_named("tied"));
  const auto names = [&](bool local_spec) {
    std::vector<std::string> found;
    for (const Param* row :
         registered_rows(model.table(), ChunkLayers::of(layers_of(model.config()), {1, 2, false}),
                         {local_spec}, true))
      found.push_back(key_of(local_spec ? at(*row, local_spec_place(row->place)) : *row));
    return found;
  };
  const std::string layer = "decoder.layers.";
  const std::vector<std::string> end = {"decoder.final_layernorm.weight",
                                        "embedding.word_embeddings.weight"};
  std::vector<std::string> local = {layer + "input_layernorm.weight",
                                    layer + "self_attention.linear_proj.weight",
                                    layer + "self_attention.linear_qkv.weight",
                                    layer + "pre_mlp_layernorm.weight",
                                    layer + "mlp.linear_fc1.weight",
                                    layer + "mlp.linear_fc2.weight"},
                           fused = {layer + "self_attention.linear_proj.weight",
                                    layer + "self_attention.linear_qkv.layer_norm_weight",
                                    layer + "self_attention.linear_qkv.weight",
                                    layer + "mlp.linear_fc1.layer_norm_weight",
                                    layer + "mlp.linear_fc1.weight",
                                    layer + "mlp.linear_fc2.weight"};
  local.insert(local.end(), end.begin(), end.end());
  fused.insert(fused.end(), end.begin(), end.end());
  EXPECT_EQ(names(true), local);
  EXPECT_EQ(names(false), fused);
}

TEST(RankLayout, ExpertsRegisterOneAfterAnother) {
  std::vector<std::string> found;
  const ModelConfig config = config_named("mixtral");
  const ParamTable table = model_rows(config);
  for (const Param* row : registered_rows(
           table, ChunkLayers::of(layers_of(config), {1, 2, false, false}), {true}, false))
    found.push_back(local_spec_place(row->place).name());
  const std::string layer = "decoder.layers.1.", experts = layer + "mlp.experts.local_experts.";
  std::vector<std::string> expected = {
      layer + "input_layernorm.weight", layer + "self_attention.linear_proj.weight",
      layer + "self_attention.linear_qkv.weight", layer + "pre_mlp_layernorm.weight",
      layer + "mlp.router.weight"};
  for (int expert = 0; expert < 4; ++expert)
    for (const char* module : {".linear_fc1.weight", ".linear_fc2.weight"})
      expected.push_back(concat(experts, expert, module));
  EXPECT_EQ(found, expected);
}

// As those of Megatron's examples/multimodal/layer_scaling.py, which are the layer's own
// parameters.
TEST(RankLayout, NumbersThatMultiplyBranchesRegisterFirstOfALayer) {
  const ModelConfig config =
      open_model(std::string(MT_TESTDATA) + "/models/internvit-rms")->config();
  const ParamTable table = model_rows(config);
  std::vector<std::string> found;
  for (const Param* row : registered_rows(
           table, ChunkLayers::of(layers_of(config), {1, 2, false, false}), {true}, false))
    found.push_back(local_spec_place(row->place).name());
  const std::string layer = "decoder.layers.1.", attention = layer + "self_attention.";
  EXPECT_EQ(found, (std::vector<std::string>{
                       layer + "ls1", layer + "ls2", layer + "input_layernorm.weight",
                       attention + "linear_proj.weight", attention + "linear_proj.bias",
                       attention + "linear_qkv.weight", attention + "q_layernorm.weight",
                       attention + "k_layernorm.weight", layer + "pre_mlp_layernorm.weight",
                       layer + "mlp.linear_fc1.weight", layer + "mlp.linear_fc1.bias",
                       layer + "mlp.linear_fc2.weight", layer + "mlp.linear_fc2.bias"}));
}

// As Megatron-Core 0.12.1 marks them: words that layers for further tokens read are the last
// stage's, too, and where they are tied to the output layer that has another copy.
TEST(RankLayout, StagesShareTheWordsOfFurtherTokens) {
  for (const bool tied : {true, false}) {
    ModelConfig config = config_named(tied ? "tied" : "llama");
    config.mtp_num_layers = 1;
    config.complete();
    const ParamTable table = model_rows(config);
    const auto words_of = [&](const StageRange& range) {
      const ChunkLayers at = ChunkLayers::of(layers_of(config), range, true);
      std::vector<ParamRows> params;
      for (const Param* row : registered_rows(table, at, {}, tied)) params.push_back({{row}});
      const std::vector<BufferParam> sizes = buffer_params(params, config, at, 2);
      std::string found;
      for (std::size_t i = 0; i < params.size(); ++i)
        if (is_words(params[i].first())) found += sizes[i].shared ? "shared " : "own ";
      return found;
    };
    EXPECT_EQ(words_of({0, 1, true, false}), "shared ");
    EXPECT_EQ(words_of({1, 2, false, true}), tied ? "shared own " : "shared ");
  }
}

TEST(RankOptimizer, StepsOfExpertsAreThoseOfOtherParameters) {
  std::string file;
  TorchWriter().write(PyValue(), "archive", [&](Bytes bytes) { file += as_text(bytes); });
  const TorchReader tensors(as_bytes(file), "x");
  const auto chain = [](PyValue of_experts) {
    const auto one = [](PyValue step, bool experts) {
      return PyValue::dict(
          {{"state", PyValue::dict({{"common_step", std::move(step)}})},
           {"param_groups", PyValue::list({PyValue::dict({{"is_expert_parallel", experts}})})}});
    };
    return PyValue::dict({{0, one(5, false)}, {1, one(std::move(of_experts), true)}});
  };
  EXPECT_TRUE(common_step(chain(5.0), tensors, "x") == PyValue(5));
  EXPECT_EQ(error_of([&] { common_step(chain(4), tensors, "x"); }),
            "65 x: optimizer.state.common_step is 4 of experts and 5 of other parameters");
}

enum class Kind { plain, mixed, distributed };

struct Layout {
  std::int64_t tp, pp;
  int chunks;
  std::int64_t ep = 1;
};

bool is_t5(const std::string& name) { return name.starts_with("t5"); }

class RankOptimizers : public Convert, public testing::WithParamInterface<const char*> {
 protected:
  // A run's checkpoint "run" of a random model: exp_avg is twice the fp32 value, exp_avg_sq thrice.
  void write_run(Kind kind, DType dtype, bool decoupled = false) {
    const ModelConfig named = config_named(GetParam());
    write_hugging_face(scratch_.path("hf"), named, dtype);
    const auto source = open_model(scratch_.path("hf"), {.further = named.mtp_num_layers});
    const ModelConfig& config = source->config();
    const ParamTable table = model_rows(config);
    CheckpointSave save(scratch_.path("run"), 5);
    DistWriter writer(save.folder(), 0);
    CheckpointSave::Content content;
    for (const Param& row : table.rows()) {
      const HostTensor value(dtype, row.shape), wide(DType::f32, row.shape);
      source->read(row, "", value);
      source->read(row, "", wide);
      add_row(writer, row, "", value.view());
      for (const auto& [state, factor] :
           {std::pair("exp_avg", 2.F), {"exp_avg_sq", 3.F}, {"fp32_param", 1.F}}) {
        if (row.is_buffer || (factor == 1 && kind == Kind::plain)) continue;
        const HostTensor moment(DType::f32, row.shape);
        for (std::size_t i = 0; i < moment.span<float>().size(); ++i)
          moment.span<float>()[i] = factor * wide.span<float>()[i];
        add_row(writer, row, state, moment.view(),
                kind == Kind::distributed ? &content.mcore_data : nullptr);
      }
    }
    write_extra_states(writer, config);
    content.files.push_back(writer.close());
    content.common = common_of(kind, dtype, config, decoupled, save.common_writer());
    save.finish(content);
    save.publish();
  }

  // With mcore_data: as the distributed optimizer has it.
  static void add_row(DistWriter& writer, const Param& row, const std::string& state,
                      const Tensor& tensor, PyValue* mcore_data = nullptr) {
    for (const KeyPart& part : key_parts(row, {.of_state = !state.empty()})) {
      const KeyPart place = mcore_data != nullptr ? reformulated(part, row) : part;
      writer.add(state_prefix(state) + part.key, place.whole, place.offset,
                 tensor.rows(part.begin, part.end).reshape(place.chunk));
      const bool first =
          std::ranges::all_of(place.offset.extents(), [](auto at) { return at == 0; });
      if (mcore_data != nullptr && first)
        set_original_shape(*mcore_data, state_prefix(state) + part.key, part.whole);
    }
  }

  PyValue common_of(Kind kind, DType dtype, const ModelConfig& config, bool decoupled,
                    TorchWriter& tensors) {
    PyValue args = PyValue::dict(
        {{"use_distributed_optimizer", kind == Kind::distributed}, {"data_parallel_size", 3}});
    add_model_args(config, dtype, args);
    PyValue groups = PyValue::list();
    for (const bool own_rate : {true, false})  // the words come first
      for (const double decay : {1.0, 0.0})
        if (!own_rate || (decoupled && decay == 1))
          groups.append(PyValue::dict({{"lr", 0.25},
                                       {"step", 5},
                                       {"wd_mult", decay},
                                       {"lr_mult", 1.0},
                                       {"is_expert_parallel", false},
                                       {"is_decoupled_lr", own_rate}}));
    PyValue inner = PyValue::dict();
    if (kind != Kind::distributed) inner.set_item("state", PyValue::dict({{"common_step", 5}}));
    inner.set_item("param_groups", groups);
    const float scale = 1024;
    PyValue outer = PyValue::dict({{"optimizer", inner}});
    if (scaled_)
      outer.set_item("grad_scaler",
                     PyValue::dict({{"scale", tensors.tensor({&scale, DType::f32, {1}})}}));
    if (kind == Kind::distributed)
      outer.set_item("param_state_sharding_type", "fully_sharded_model_space");
    return PyValue::dict({{"args", PyValue::make(PyValue::global("argparse", "Namespace"), args)},
                          {"checkpoint_version", 3.0},
                          {"iteration", 5},
                          {"optimizer", kind == Kind::plain ? inner : outer}});
  }

  void move(const std::string& from, const std::string& to, Layout layout, bool local_spec = false,
            const char* format = "torch") {
    ConvertOptions o;
    o.ckpt_format = format;
    o.target_tensor_parallel = layout.tp;
    o.target_pipeline_parallel = layout.pp;
    o.target_expert_parallel = layout.ep;
    if (layout.pp > 1 && is_t5(GetParam())) o.target_encoder_pipeline_parallel = 3 - layout.tp;
    if (layout.pp > 1 && GetParam() == std::string("hybrid")) o.pipeline.first_layers = 3;  // of 5
    if (layout.chunks > 1) o.pipeline.virtual_stages_per_rank = layout.chunks;
    o.transformer_impl = local_spec ? "local" : "transformer_engine";
    o.with_optimizer = o.verify = true;
    convert(from, to, "core", o);
  }

  void expect_every_layout_comes_back() {
    const std::int64_t stages = is_t5(GetParam()) ? 3 : 2;  // of three layers
    int number = 0;
    for (const auto& [kind, dtype] : {std::pair(Kind::plain, DType::f32),
                                      {Kind::mixed, DType::bf16},
                                      {Kind::distributed, DType::bf16},
                                      {Kind::distributed, DType::f32}}) {
      SCOPED_TRACE(number);
      write_run(kind, dtype);
      move("run", "ranks", number % 2 == 0 ? Layout{2, stages, 1} : Layout{1, stages, 1},
           number % 2 == 0);
      move("ranks", "ranks2", number % 2 == 0 ? Layout{1, 1, 1} : Layout{2, 1, 1});
      expect_same();
      ++number;
      for (const char* folder : {"hf", "run", "ranks", "ranks2", "back"})
        std::filesystem::remove_all(scratch_.path(folder));
    }
  }

  // The order of a dict's keys does not count.
  static PyValue sorted(const PyValue& value) {
    if (value.is(PyValue::Kind::list)) {
      PyValue list = PyValue::list();
      for (const PyValue& item : value.as_items("")) list.append(sorted(item));
      return list;
    }
    if (!value.is(PyValue::Kind::dict)) return value;
    std::map<std::string, PyValue> items;
    const std::vector<PyValue>& entries = value.entries("");
    for (std::size_t i = 0; i + 1 < entries.size(); i += 2)
      items[write_pickle(entries[i])] = PyValue::list({entries[i], sorted(entries[i + 1])});
    PyValue pairs = PyValue::list();
    for (const auto& [key, pair] : items) pairs.append(pair);
    return pairs;
  }

  // Every tensor of the run is in "back" too, bit for bit.
  void expect_same() {
    move("ranks2", "back", {1, 1, 1}, false, "torch_dist");
    const auto a = open_tensors(scratch_.path("run")), b = open_tensors(scratch_.path("back"));
    ASSERT_EQ(a->tensors().size(), b->tensors().size());
    for (const auto& [key, tensor] : a->tensors()) {
      const DistTensor& other = b->at(key);
      ASSERT_EQ(other.own_shape(), tensor.own_shape()) << key;
      const HostTensor x(*tensor.dtype, tensor.own_shape()), y(*other.dtype, tensor.own_shape());
      a->read_original(key, origin_of(tensor.own_shape().rank()), x);
      b->read_original(key, origin_of(tensor.own_shape().rank()), y);
      EXPECT_EQ(std::memcmp(x.view().data(), y.view().data(), x.view().bytes()), 0) << key;
    }
    const auto common = [&](const char* name) {
      const MegatronCheckpoint checkpoint(find_checkpoint(scratch_.path(name))->folder);
      return checkpoint.common().at("optimizer", "");
    };
    EXPECT_TRUE(sorted(common("run")) == sorted(common("back")));
  }

  bool scaled_ = true;  // the loss, in mixed precision
};
INSTANTIATE_TEST_SUITE_P(Of, RankOptimizers, testing::Values("gpt2", "tied", "qwen3", "mixtral"),
                         [](const auto& param) { return std::string(param.param); });

TEST_P(RankOptimizers, EveryLayoutComesBack) { expect_every_layout_comes_back(); }

class OptimizerDifferences : public RankOptimizers {};
INSTANTIATE_TEST_SUITE_P(Of, OptimizerDifferences, testing::Values("gpt2", "tied"));

// A byte of the optimizer's is another, and no manifest tells.
TEST_P(OptimizerDifferences, AreSeen) {
  for (const auto& [kind, name] :
       {std::pair(Kind::mixed, "model_optim_rng.pt"), {Kind::distributed, "distrib_optim.pt"}}) {
    write_run(kind, DType::bf16);
    move("run", "ranks", {1, 1, 1});
    std::vector<std::string> lines;
    const auto differ = [&] {
      lines.clear();
      return print_differences({.path = scratch_.path("run")}, scratch_.path("ranks"), 0,
                               [&](const std::string& line) { lines.push_back(line); });
    };
    EXPECT_FALSE(differ()) << lines.front();
    const std::string folder = scratch_.path("ranks/iter_0000005/"),
                      path = folder + "mp_rank_00/" + name;
    std::string file = read_file(path);
    file[file.size() - file.size() / 8] ^= 1;
    File::create(path).write(file);
    std::filesystem::remove(folder + kManifestName);
    EXPECT_TRUE(differ());
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_TRUE(lines[0].starts_with("optimizer.state.")) << lines[0];
    const RankTensors tensors(folder);
    EXPECT_TRUE(std::ranges::any_of(tensors.tensors(), [](const auto& entry) {
      return entry.first.find("optim") != std::string::npos;
    }));
    for (const char* made : {"hf", "run", "ranks"})
      std::filesystem::remove_all(scratch_.path(made));
  }
}

TEST_P(OptimizerDifferences, FormsThatAreNotReadAreNamed) {
  write_hugging_face(scratch_.path("hf"), config_named(GetParam()), DType::bf16);
  const auto source = open_model(scratch_.path("hf"));
  CheckpointSave save(scratch_.path("run"), 5);
  DistWriter writer(save.folder(), 0);
  const ParamTable table = model_rows(source->config());
  for (const Param& row : table.rows()) {
    const HostTensor value(DType::bf16, row.shape);
    source->read(row, "", value);
    add_row(writer, row, "", value.view());
  }
  CheckpointSave::Content content;
  content.files.push_back(writer.close());
  content.common =
      common_of(Kind::distributed, DType::bf16, source->config(), false, save.common_writer());
  PyValue optimizer = content.common.at("optimizer", "");
  optimizer.set_item("param_state_sharding_type", "fsdp_dtensor");
  save.finish(content);
  save.publish();
  ConvertOptions o;
  o.with_optimizer = true;
  EXPECT_EQ(error("run", "out", "core", o),
            concat("65 ", scratch_.path("run/iter_0000005"),
                   ": its optimizer state is stored as fsdp_dtensor, which is not read; of the "
                   "distributed optimizer's forms fully_sharded_model_space, fully_reshardable, "
                   "dp_reshardable, dp_zero_gather_scatter and fully_sharded_bucket_space are"));
}

class FamilyOptimizers : public RankOptimizers {};
INSTANTIATE_TEST_SUITE_P(Of, FamilyOptimizers,
                         testing::Values("bert", "gemma", "mamba", "hybrid", "t5", "t5_gated",
                                         "glm4_moe_further"),
                         [](const auto& param) { return std::string(param.param); });

TEST_P(FamilyOptimizers, EveryLayoutComesBack) { expect_every_layout_comes_back(); }

TEST_P(FamilyOptimizers, PlainDistributedCheckpointsHaveARanks) {
  scaled_ = false;
  for (const Kind kind : {Kind::plain, Kind::mixed}) {
    write_run(kind, kind == Kind::plain ? DType::f32 : DType::bf16);
    move("run", "plain", {1, 1, 1}, true, "torch_dcp");
    const DistReader plain(scratch_.path("plain/iter_0000005"));
    const std::string outer = kind == Kind::plain ? "optimizer." : "optimizer.optimizer.";
    EXPECT_NE(plain.find(outer + "state.0.exp_avg"), nullptr);
    EXPECT_TRUE(plain.objects().contains(outer + "param_groups.1.wd_mult"));
    EXPECT_EQ(plain.find("optimizer.fp32_from_fp16_params.0.0") != nullptr, kind == Kind::mixed);
    move("plain", "ranks2", {2, 1, 1});
    expect_same();
    for (const char* folder : {"hf", "run", "plain", "ranks2", "back"})
      std::filesystem::remove_all(scratch_.path(folder));
  }
  ConvertOptions o;
  o.with_optimizer = true;
  o.ckpt_format = "torch_dcp";
  write_run(Kind::distributed, DType::bf16);
  EXPECT_EQ(error("run", "out", "core", o),
            "78 --ckpt-format torch_dcp: has no place for a distributed optimizer's state");
  std::filesystem::remove_all(scratch_.path("run"));
  std::filesystem::remove_all(scratch_.path("hf"));
  scaled_ = true;
  write_run(Kind::mixed, DType::bf16);
  EXPECT_EQ(error("run", "out", "core", o),
            "78 --ckpt-format torch_dcp: is not written with a grad_scaler");
  EXPECT_FALSE(std::filesystem::exists(scratch_.path("out")));
}

class ExpertOptimizers : public RankOptimizers {
 protected:
  // Of "chained", of four expert ranks.
  void expect_chained(Kind kind) {
    const std::string end = "optimizer.state.exp_avg.decoder.layers.",
                      experts = "mlp.experts.experts.";
    const auto stored = open_tensors(scratch_.path("chained"));
    const bool distributed = kind == Kind::distributed;
    EXPECT_EQ(stored->at("chained_1." + end + experts + "linear_fc1.weight").shape,
              distributed ? Shape({2, 4, 2, 1, 40 * 16}) : Shape({2, 4, 80, 16}));
    EXPECT_EQ(stored->at("chained_0." + end + "mlp.router.weight").shape,
              distributed ? Shape({2, 1, 1, 4 * 16}) : Shape({2, 4, 16}));
    const MegatronCheckpoint checkpoint(find_checkpoint(scratch_.path("chained"))->folder);
    const auto chain = chained_optimizers(checkpoint.common().at("optimizer", ""), "");
    ASSERT_EQ(chain.size(), 2u);
    for (std::size_t i = 0; i < 2; ++i) {
      const PyValue* const inner = chain[i].find("optimizer");
      const auto& groups =
          (inner == nullptr ? chain[i] : *inner).at("param_groups", "").as_items("");
      EXPECT_EQ(groups.size(), 2 - i);
      EXPECT_EQ(groups[0].at("is_expert_parallel", "").as_bool(""), i == 1);
    }
  }
  // What is in a file of the second of four expert ranks.
  PyValue second_rank(const std::string& file) {
    const std::string path = scratch_.path("ranks2/iter_0000005/mp_rank_00_001/" + file);
    const MappedFile mapped(path);
    return TorchReader(mapped.bytes(), path).value();
  }
};
INSTANTIATE_TEST_SUITE_P(Of, ExpertOptimizers, testing::Values("mixtral"));

TEST_P(ExpertOptimizers, AreOnesOwnWhereExpertsAreSharedOut) {
  for (const Kind kind : {Kind::plain, Kind::mixed, Kind::distributed}) {
    write_run(kind, kind == Kind::plain ? DType::f32 : DType::bf16);
    move("run", "ranks", {2, 2, 1, 2});
    move("ranks", "chained", {1, 1, 1, 4}, false, "torch_dist");
    move("chained", "ranks2", {1, 1, 1, 4}, true);
    expect_same();
    expect_chained(kind);
    EXPECT_FALSE(print_differences({.path = scratch_.path("chained")}, scratch_.path("run"), 0,
                                   [](const std::string& line) { ADD_FAILURE() << line; }));
    const PyValue lists = second_rank("model_optim_rng.pt").at("optimizer", "");
    ASSERT_EQ(lists.as_items("").size(), 2u);
    if (kind == Kind::distributed) {
      const PyValue buffers = second_rank("distrib_optim.pt");
      ASSERT_EQ(buffers.as_items("").size(), 2u);
      EXPECT_TRUE(buffers.as_items("")[0].is_none());
    }
    for (const char* folder : {"hf", "run", "ranks", "chained", "ranks2", "back"})
      std::filesystem::remove_all(scratch_.path(folder));
  }
}

TEST_F(Convert, WhatSeveralOptimizersHaveIsComparedOneByOne) {
  const float same = 1;
  for (const auto& [folder, number] : {std::pair("a", 2.F), {"b", 3.F}}) {
    std::filesystem::create_directory(scratch_.path(folder));
    SafetensorsWriter writer(scratch_.path(folder),
                             {{"chained_0.x", DType::f32, {1}}, {"chained_1.x", DType::f32, {1}}},
                             1 << 20);
    writer.write("chained_0.x", {&number, DType::f32, {1}});
    writer.write("chained_1.x", {&same, DType::f32, {1}});
    writer.close();
  }
  std::vector<std::string> lines;
  EXPECT_TRUE(print_differences({.path = scratch_.path("a/model.safetensors")},
                                scratch_.path("b/model.safetensors"), 0,
                                [&](const std::string& line) { lines.push_back(line); }));
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_TRUE(lines[0].starts_with("chained_0.x ")) << lines[0];
}

TEST_P(RankOptimizers, GroupsAreARanksOwn) {
  write_run(Kind::mixed, DType::bf16, true);
  move("run", "ranks", {1, 2, 1}, true);
  const std::string path = scratch_.path("ranks/iter_0000005/mp_rank_00_001/model_optim_rng.pt");
  const MappedFile file(path);
  const TorchReader reader(file.bytes(), path);
  const PyValue& optimizer = reader.value().at("optimizer", "");
  const auto& groups = optimizer.at("optimizer", "").at("param_groups", "").as_items("");
  ASSERT_EQ(groups.size(), 3u);  // the stage begins with a norm
  EXPECT_EQ(groups[0].at("wd_mult", "").as_real(""), 0);
  EXPECT_EQ(groups[1].at("wd_mult", "").as_real(""), 1);
  EXPECT_TRUE(groups[2].at("is_decoupled_lr", "").as_bool(""));
  EXPECT_EQ(groups[2].at("params", "").as_items("").size(), 1u);  // output layer, or a copy
  EXPECT_EQ(optimizer.at("fp32_from_fp16_params", "").as_items("").size(), 3u);
  move("ranks", "ranks2", {1, 1, 1});
  expect_same();
}

TEST_P(RankOptimizers, WhatDoesNotFitIsRefused) {
  write_run(Kind::distributed, DType::bf16);
  move("run", "ranks", {2, 1, 1});
  const std::string file = scratch_.path("ranks/iter_0000005/mp_rank_01/distrib_optim.pt");
  ConvertOptions o;
  o.with_optimizer = true;
  std::filesystem::remove(scratch_.path("ranks/iter_0000005/mt-manifest.json"));
  const std::string whole = read_file(file);
  File::create(file).write(whole.substr(0, whole.size() / 2));
  EXPECT_NE(error("ranks", "out", "core", o).find("mp_rank_01/distrib_optim.pt"),
            std::string::npos);
  EXPECT_EQ(error("ranks", "out", "hf"), "");  // which does without
  std::filesystem::remove(file);
  EXPECT_TRUE(error("ranks", "out", "core", o).starts_with("66 " + file));
  write_hugging_face(scratch_.path("plain"), config_named(GetParam()), DType::bf16);
  EXPECT_NE(error("plain", "out2", "core", o).find("holds no optimizer state"), std::string::npos);
}

}  // namespace
}  // namespace mt
