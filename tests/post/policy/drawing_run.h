// DrawingRun: small runs of mt-finetune grpo that draw their own texts, for tests, and what they
// leave behind.
#pragma once

#include <cmath>
#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "post/policy/drawing_task.h"
#include "post/policy/policy_task.h"
#include "tests/post/sft_run.h"

namespace mt {

class DrawingRun : public SftRun {
 protected:
  DrawingRun() {
    std::string lines;
    for (const char* const prompt : {"a", "bcd", "ef", "ghijkl", "m"})
      lines += concat(R"({"prompt":")", prompt, "\",\"answer\":\"", prompt, "\"}\n");
    write_file_atomically(path("prompts.jsonl"), lines, false);
    std::signal(SIGPIPE, SIG_IGN);
  }

  // A text is worth the number of its letters `e`, as a program counts them.
  PolicyOptions drawing(const std::string& save) const {
    PolicyOptions o;
    static_cast<FinetuneOptions&>(o) = options(save);
    o.data = {};
    o.data.shuffle = false;
    o.prompts = {path("prompts.jsonl")};
    o.rewards = {
        "cmd:awk '{ split($0, part, /\"response\":/); sub(/\"answer\".*/, \"\", part[2]); "
        "print \"{\\\"id\\\":\" NR - 1 \",\\\"reward\\\":\" gsub(/e/, \"\", part[2]) \"}\" }'",
        "exact=3"};
    o.num_generations = 2;
    o.save_rollouts = path(save + "-rollouts");
    o.run.length.train_iters = 4;
    o.take_losses();
    return o;
  }

  static void train_with(PolicyOptions o) {
    Signals signals;
    const std::unique_ptr<Task> task = o.prompts.empty()
                                           ? std::unique_ptr<Task>(open_policy(o, quiet()))
                                           : open_drawing(o, quiet());
    train(o.run, *task, signals, quiet(), "{}");
  }

  std::string step(const std::string& run, int number) const {
    return read_file(path(concat(run, "-rollouts/step-000000", number, ".jsonl")));
  }

  // Four steps, of which two share what is drawn, each twice, at another temperature than 1.
  PolicyOptions several(const std::string& save) const {
    PolicyOptions o = drawing(save);
    o.num_iterations = o.steps_per_generation = 2;
    o.sampling.temperature = 0.7;
    o.run.length.train_iters = 8;
    return o;
  }

  // A member of each line of a kept step.
  std::vector<double> numbers(const std::string& run, int number, const std::string& member) const {
    const std::string lines = step(run, number), key = "\"" + member + "\":";
    std::vector<double> all;
    for (std::size_t at = 0; (at = lines.find(key, at)) != lines.npos; ++at)
      all.push_back(std::stod(lines.substr(at + key.size())));
    return all;
  }

  void expect_same_values(const std::string& a, const std::string& b, int steps = 4) const {
    int compared = 0;
    const std::string folder = concat("/iter_000000", steps, "/");
    for (const auto& file : std::filesystem::directory_iterator(path(a + folder))) {
      const std::string name = file.path().filename().string();
      if (!name.ends_with(".distcp")) continue;
      EXPECT_TRUE(read_file(path(b + folder) + name) == read_file(file.path().string())) << name;
      ++compared;
    }
    EXPECT_GT(compared, 0);
  }
};

// SameDrawing: such runs of which two draw and learn the same.
class SameDrawing : public DrawingRun {
 protected:
  // What it has told of each step of a member.
  std::vector<double> told(const std::string& run, const std::string& member) const {
    const std::string log = read_file(path(run + "/run.jsonl")), key = "\"" + member + "\":";
    std::vector<double> all;
    for (std::size_t at = 0; (at = log.find("\"event\":\"step\"", at)) != log.npos; ++at)
      all.push_back(std::stod(log.substr(log.find(key, at) + key.size())));
    return all;
  }
  // Two runs draw the same, and learn the same from it.
  void expect_same_run(const std::string& name, const std::string& alone) const {
    EXPECT_GT(step(alone, 1).size(), 100U);
    for (const int i : {1, 2, 3, 4}) EXPECT_EQ(step(name, i), step(alone, i)) << i;
    for (const char* const member : {"loss", "grad_norm"}) {
      const std::vector<double> got = told(name, member), expected = told(alone, member);
      ASSERT_EQ(got.size(), 4U);
      for (std::size_t i = 0; i < 4; ++i)
        EXPECT_NEAR(got[i], expected[i], 1e-9 * std::abs(expected[i])) << member << " " << i;
    }
  }
  PolicyOptions exact(const std::string& save) const {
    PolicyOptions o = drawing(save);
    o.run.compute.dtype = "fp64";
    o.run.report.log_interval = 1;
    return o;
  }
};

}  // namespace mt
