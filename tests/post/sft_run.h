// Whole runs of sft on a small model, for tests: their options and data.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <random>

#include "base/file.h"
#include "base/signals.h"
#include "data/samples/length_options.h"
#include "post/supervised/supervised_finetuning.h"
#include "tests/base/scratch.h"
#include "train/check/layout_check.h"
#include "train/run/train.h"

namespace mt {

class SftRun : public testing::Test {
 protected:
  static constexpr int kTexts = 24;

  SftRun() {
    std::string lines;
    std::mt19937 random(3);
    const auto letters = [&](std::size_t count) {
      std::string text;
      while (text.size() < count) text += static_cast<char>('a' + random() % 26);
      return text;
    };
    for (int i = 0; i < kTexts; ++i)
      lines += concat(R"({"prompt":")", letters(1 + random() % 6), R"(","completion":")",
                      letters(1 + random() % 6), "\"}\n");
    File file = File::create(path("lines.jsonl"));
    file.write(lines);
    file.close();
  }

  std::string path(const std::string& name) const { return scratch_.path(name); }

  SftOptions options(const std::string& save = "") const {
    SftOptions o;
    o.model.num_layers = 2;
    o.model.hidden_size = 32;
    o.model.num_attention_heads = 4;
    o.model.position_embedding_type = "rope";
    o.model.normalization = "RMSNorm";
    o.model.swiglu = true;
    o.model.add_bias_linear = false;
    o.model.group_query_attention = true;
    o.model.num_query_groups = 2;
    o.model.untie_embeddings_and_output_weights = true;
    o.model.init_method_std = 0.1;  // so that every gradient counts
    o.model.attention_dropout = o.model.hidden_dropout = 0;
    o.model.max_position_embeddings = o.seq_length = 16;
    o.model.padded_vocab_size = 384;
    const std::string folder = std::string(MT_TESTDATA) + "/gpt2_bpe/";
    o.tokenizer = {"GPT2BPETokenizer", folder + "vocab.json", folder + "merges.txt"};
    o.data.train = {path("lines.jsonl")};
    o.data.valid_split = 0.1;
    o.run.batch.global_batch_size = 4;
    o.run.evaluation.eval_interval = 3;
    o.run.schedule.lr = 0.01;
    o.run.ranks.threads = 1;
    if (!save.empty()) o.run.checkpoint.save = path(save);
    return o;
  }

  // The same of a hybrid of Mambas, an MLP and attention; of a T5; and of a model that predicts
  // further tokens.
  static SftOptions hybrid(SftOptions o) {
    o.model_type = "mamba";
    o.mamba.hybrid_override_pattern = "M-*-";
    o.mamba.mamba_state_dim = 8;
    o.mamba.mamba_head_dim = 16;
    o.mamba.mamba_num_groups = 2;
    o.model.num_layers = 4;
    o.mamba.make_mamba(o.model, o.run.ranks.pipeline);
    return o;
  }
  // With two further tokens, and all texts in one micro-batch, of which their losses are means.
  static SftOptions further(SftOptions o) {
    o.model.mtp_num_layers = 2;
    o.model.mtp_loss_scaling_factor = 0.3;
    o.run.batch.micro_batch_size = kTexts;
    return o;
  }
  static SftOptions t5(SftOptions o) {
    o.model_type = "t5";
    o.packing = "none";
    o.decoder_seq_length = o.seq_length;
    o.examples.paired = true;
    o.model.position_embedding_type = "relative";
    o.model.group_query_attention = false;
    o.encoder.make_t5(o.model);
    return o;
  }

  static Log quiet() { return Log({.level = Log::Level::quiet}); }

  static void train_with(SftOptions o) {
    Signals signals;
    const auto task = open_sft(o, quiet());
    train(o.run, *task, signals, quiet(), "{}");
  }

  // Runs of these options, given the folder that they save in: one that ends after two steps and
  // goes on leaves the bytes of one that does not end, in every file of values and states.
  template <class Options>
  void goes_on_to_the_bit(const Options& options_of) const {
    const auto train_into = [&](const std::string& save, std::optional<std::int64_t> exit) {
      SftOptions o = options_of(save);
      o.run.checkpoint.load = o.run.checkpoint.save;
      o.run.length.train_iters = 4;
      o.run.length.exit_interval = exit;
      train_with(o);
    };
    train_into("whole", {});
    train_into("parts", 2);
    train_into("parts", {});
    int compared = 0;
    for (const auto& file : std::filesystem::directory_iterator(path("whole/iter_0000004"))) {
      const std::string name = file.path().filename().string();
      if (!name.ends_with(".distcp") && !name.starts_with("adapter_")) continue;
      EXPECT_TRUE(read_file(path("parts/iter_0000004/") + name) == read_file(file.path().string()))
          << name;
      ++compared;
    }
    EXPECT_GT(compared, 0);
  }

  // The first steps by the layout of the options.
  static LayoutRun run_of(SftOptions o, int steps) {
    const auto task = open_sft(o, quiet());
    task->build(training_length(o.run.length, o.run.batch, o.run.evaluation, true), o.run.seed,
                o.run.batch, quiet());
    return run_layout(o.run, *task, steps);
  }

  Scratch scratch_;
};

}  // namespace mt
