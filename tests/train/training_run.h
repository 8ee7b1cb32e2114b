// Whole training runs on a small model, for tests: options, data, and comparisons of what runs
// leave behind.
#pragma once

#include <gtest/gtest.h>
#include <simdjson.h>

#include <filesystem>
#include <map>
#include <random>
#include <sstream>

#include "ckpt/megatron_checkpoint.h"
#include "tests/base/scratch.h"
#include "tests/data/support.h"
#include "tests/support/host_tensor.h"
#include "train/options/pretrain_options.h"
#include "train/run/pretraining.h"
#include "train/run/train.h"

namespace mt {

namespace fs = std::filesystem;

using Files = std::map<std::string, std::string>;  // path below a folder: content

inline Files contents_below(const std::string& folder) {
  Files files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file())
      files[fs::relative(entry.path(), folder).string()] = read_file(entry.path().string());
  return files;
}

inline void expect_same_files(const std::string& got, const std::string& expected) {
  const Files a = contents_below(got), b = contents_below(expected);
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, content] : b) {
    ASSERT_TRUE(a.contains(name)) << name;
    EXPECT_TRUE(a.at(name) == content) << name << " differs";
  }
}

class Training : public testing::Test {
 protected:
  Training() {
    std::vector<std::vector<std::int32_t>> documents;
    std::mt19937 engine(3);
    for (int i = 0; i < 60; ++i) {
      std::vector<std::int32_t>& tokens = documents.emplace_back(20 + engine() % 30);
      for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(engine() % 200);
      tokens.back() = 379;  // <|endoftext|>
    }
    write_documents(scratch_.path("data"), TokenType::u16, documents);
  }

  std::string path(const std::string& name) const { return scratch_.path(name); }

  PretrainOptions options(const std::string& save) const {
    PretrainOptions o;
    o.model.num_layers = 2;
    o.model.hidden_size = 16;
    o.model.num_attention_heads = 2;
    o.model.max_position_embeddings = 16;
    o.data.sources.data_path = {path("data")};
    o.data.sources.split = "80,10,10";
    o.data.seq_length = 16;
    o.data.eod_mask_loss = true;
    const std::string folder = std::string(MT_TESTDATA) + "/gpt2_bpe/";
    o.data.tokenizer = {"GPT2BPETokenizer", folder + "vocab.json", folder + "merges.txt"};
    o.run.batch.micro_batch_size = 2;
    o.run.batch.global_batch_size = 8;
    o.run.length.train_iters = 10;
    o.run.evaluation.eval_iters = 1;
    o.run.evaluation.eval_interval = 4;
    o.run.schedule.lr = 0.01;
    o.run.schedule.warmup_iters = 2;
    o.run.ranks.threads = 1;
    o.run.checkpoint.save = path(save);
    return o;
  }

  static void train_with(PretrainOptions o) {
    Signals signals;
    Pretraining task = open_pretraining(o);
    train(o.run, task, signals, Log({.level = Log::Level::quiet}), "{}");
  }

  // A folder whose latest checkpoint is iteration `iteration` of `from`.
  std::string copy_of(const std::string& from, int iteration, const std::string& to) const {
    fs::create_directories(path(to));
    fs::copy(iteration_folder(path(from), iteration), iteration_folder(path(to), iteration),
             fs::copy_options::recursive);
    File tracker = File::create(path(to) + "/latest_checkpointed_iteration.txt");
    tracker.write(std::to_string(iteration));
    tracker.close();
    return path(to);
  }

  // The events of a kind in a run's log.
  std::vector<std::string> events(const std::string& save, const std::string& kind) const {
    std::vector<std::string> lines;
    std::istringstream log(read_file(path(save) + "/run.jsonl"));
    for (std::string line; std::getline(log, line);)
      if (line.find("\"event\":\"" + kind + "\"") != std::string::npos) lines.push_back(line);
    return lines;
  }

  std::vector<double> losses(const std::string& save, const std::string& kind = "step") const {
    std::vector<double> values;
    simdjson::dom::parser parser;
    for (const std::string& line : events(save, kind))
      values.push_back(parser.parse(line)["loss"].get_double());
    return values;
  }

  // Every floating-point tensor of two checkpoints whose key begins with `prefix`, in its own shape
  // however it is stored.
  void expect_near_tensors(const std::string& got, const std::string& expected, int iteration,
                           const std::string& prefix, double tolerance) const {
    const MegatronCheckpoint a(iteration_folder(path(got), iteration));
    const MegatronCheckpoint b(iteration_folder(path(expected), iteration));
    int compared = 0;
    for (const auto& [key, info] : b.tensors().tensors()) {
      if (!key.starts_with(prefix)) continue;
      SCOPED_TRACE(key);
      const Shape shape = info.original_shape.value_or(info.shape);
      const std::vector<std::int64_t> zeros(static_cast<std::size_t>(shape.rank()), 0);
      const Shape origin{std::span<const std::int64_t>(zeros)};
      HostTensor x(info.dtype.value(), shape), y(info.dtype.value(), shape);
      a.tensors().read_original(key, origin, x);
      b.tensors().read_original(key, origin, y);
      EXPECT_GT(largest(y.view()), 0);
      EXPECT_TENSORS_NEAR(x.view(), y.view(), tolerance);
      ++compared;
    }
    EXPECT_GT(compared, 10);
  }

  Scratch scratch_;
};

inline void expect_near(const std::vector<double>& got, const std::vector<double>& expected,
                        double tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  ASSERT_FALSE(expected.empty());
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(got[i], expected[i], tolerance * std::abs(expected[i])) << "at " << i;
}

inline const std::string kWeights = "", kMoment = "optimizer.state.exp_avg.";

}  // namespace mt
