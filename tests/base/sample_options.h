// A program with an option of every kind, for the tests of CommandLine.
#pragma once

#include <stdlib.h>

#include <string>
#include <utility>
#include <vector>

#include "base/command.h"
#include "tests/base/scratch.h"

namespace mt {

using Arguments = std::vector<std::string>;

struct Sample {
  int batch = 1;
  std::int64_t seed = 1234;
  std::uint64_t workers = 0;
  double lr = 0.0001;
  std::string load, saver = "core";
  std::vector<std::string> keys = {"text"};
  std::vector<std::int64_t> sizes;
  std::vector<double> betas = {0.9, 0.95};
  std::optional<int> decay;
  std::optional<std::string> tag;
  bool bf16 = false, optim = true, fused = true;

  void add_to(CommandLine& cl) {
    cl.describe("a sample.");
    cl.section("Training");
    cl.option("--micro-batch-size", &batch, "N", "sequences per micro-batch", at_least(1));
    cl.option("--workers,-j", &workers, "N", "threads");
    cl.option("--seed", &seed, "N", "of all randomness");
    cl.option("--lr", &lr, "X", "learning rate", greater_than(0));
    cl.option("--betas", &betas, "X", "decay of moments", between(0, 1));
    cl.option("--sizes", &sizes, "N", "numbers of nodes");
    cl.option("--lr-decay-iters", &decay, "N", "iterations of decay");
    cl.flag("--bf16", &bf16, "compute in bf16");
    cl.flag("--fusion", &fused, "fuse");
    cl.off_switch("--no-fusion", &fused, "do not fuse");
    cl.section("Files");
    cl.option("--load,--from", &load, "PATH", "checkpoint to start from");
    cl.option("--saver,-s", &saver, "", "output format", one_of({"core", "hf", "gguf"}));
    cl.option("--json-keys", &keys, "KEY", "keys to take, each a dataset");
    cl.option("--tag", &tag, "TEXT", "name of the run");
    cl.off_switch("--no-load-optim", &optim, "do not load the optimizer");
    cl.implied("--use-mcore-models", "there are no others");
    cl.implied("--num-workers", "any number will do", kInteger);
    cl.implied("--ckpt-format", "there is one format", kText, one_of({"dist", "auto"}));
    cl.refused("--use-legacy-models", "they are gone");
    cl.refused("--num-experts", "there are none", kInteger, between(0, 0));
    cl.refused("--cp-comm-type", "it is not parallel", kTexts, one_of({"p2p"}));
  }
};

// Environment variables that are unset again.
class Environment {
 public:
  using Variables = std::vector<std::pair<std::string, std::string>>;
  explicit Environment(Variables variables) : variables_(std::move(variables)) {
    for (const auto& [name, value] : variables_) ::setenv(name.c_str(), value.c_str(), 1);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment() {
    for (const auto& [name, value] : variables_) ::unsetenv(name.c_str());
  }

 private:
  Variables variables_;
};

inline Sample parsed(const Arguments& arguments) {
  Sample sample;
  CommandLine cl("mt-x", arguments);
  sample.add_to(cl);
  cl.parse();
  return sample;
}

inline std::string mistake(const Arguments& arguments) {
  return error_of([&] { parsed(arguments); });
}

}  // namespace mt
