// Runs that are saved in the torch format go on as those in torch_dist do.
#include "tests/train/training_run.h"

namespace mt {
namespace {

using RankFilesTraining = Training;

// Stops half way, with a checkpoint in the torch format, and goes on in either format: what is
// saved at the end has the bytes of a run that did not stop.
TEST_F(RankFilesTraining, GoesOnWithTheSameBits) {
  const auto stop_and_go_on = [&](const std::string& name, const auto& change) {
    SCOPED_TRACE(name);
    const auto of = [&](const std::string& save, const char* format) {
      PretrainOptions o = options(name + "-" + save);
      o.run.checkpoint.format = format;
      change(o);
      return o;
    };
    train_with(of("whole", "torch_dist"));
    train_with(of("ranks", "torch"));
    EXPECT_FALSE(fs::exists(path(name + "-ranks") + "/torch_dist"));
    PretrainOptions half = of("half", "torch");
    half.run.length.exit_interval = 5;
    train_with(half);
    for (const char* format : {"torch_dist", "torch"}) {
      PretrainOptions rest = of(std::string("rest-") + format, format);
      rest.run.checkpoint.load = half.run.checkpoint.save;
      train_with(rest);
      const std::string whole = format == std::string("torch") ? "-ranks" : "-whole";
      expect_same_files(iteration_folder(rest.run.checkpoint.save, 10),
                        iteration_folder(path(name + whole), 10));
    }
  };
  stop_and_go_on("plain", [](PretrainOptions&) {});
  stop_and_go_on("tensor", [](PretrainOptions& o) {
    o.run.ranks.count = 2;
    o.run.ranks.parallel.tensor_model_parallel_size = 2;
  });
  stop_and_go_on("distributed", [](PretrainOptions& o) {
    o.run.ranks.count = 4;
    o.run.ranks.parallel.pipeline_model_parallel_size = 2;
    o.run.optimizer.use_distributed_optimizer = true;
  });
  stop_and_go_on("sgd", [](PretrainOptions& o) { o.run.optimizer.name = "sgd"; });
}

// A dict with another value of a name, which it has.
PyValue with(const PyValue& dict, const std::string& name, const PyValue& value) {
  PyValue changed = PyValue::dict();
  const std::vector<PyValue>& entries = dict.entries("");
  for (std::size_t i = 0; i + 1 < entries.size(); i += 2)
    changed.set_item(entries[i], entries[i] == PyValue(name) ? value : entries[i + 1]);
  return changed;
}

// Megatron-LM with PyTorch's Adam counts steps with a point: 5.0.
TEST_F(RankFilesTraining, StepsMayHaveAPoint) {
  train_with(options("whole"));
  PretrainOptions half = options("half");
  half.run.length.exit_interval = 5;
  train_with(half);
  const std::string folder = iteration_folder(path("half"), 5);
  const auto write_steps = [&](double steps) {
    const PyValue common = MegatronCheckpoint(folder).common(),
                  optimizer = common.at("optimizer", "");
    PyValue groups = PyValue::list();
    for (const PyValue& group : optimizer.at("param_groups", "").as_items(""))
      groups.append(with(group, "step", steps));
    std::string bytes;
    TorchWriter().write(with(common, "optimizer", with(optimizer, "param_groups", groups)),
                        "common", [&](Bytes part) { bytes += as_text(part); });
    fs::remove(folder + "/mt-manifest.json");  // which has the file's hash
    File file = File::create(folder + "/common.pt");
    file.write(bytes);
    file.close();
  };
  PretrainOptions rest = options("rest");
  rest.run.checkpoint.load = path("half");
  write_steps(5);
  train_with(rest);
  expect_same_files(iteration_folder(path("rest"), 10), iteration_folder(path("whole"), 10));
  write_steps(5.5);
  rest.run.checkpoint.force = true;
  EXPECT_EQ(error_of([&] { train_with(rest); }),
            concat("65 ", folder, ": common.pt: step: is 5.5, expected a number of steps"));
}

// What does not fit the format is said before any work.
TEST_F(RankFilesTraining, WhatTheFormatHasNot) {
  PretrainOptions o = options("never");
  o.run.checkpoint.format = "torch";
  o.run.optimizer.name = "muon";
  EXPECT_EQ(error_of([&] { train_with(o); }),
            "78 --ckpt-format torch: has no place for the state of --optimizer muon; see "
            "--no-save-optim");
  o.run.checkpoint.async_save = true;
  EXPECT_EQ(error_of([&] { train_with(o); }), "78 --async-save: not with --ckpt-format torch");
  EXPECT_FALSE(fs::exists(o.run.checkpoint.save));
}

// A damaged file is passed over for the checkpoint before it, as in torch_dist.
TEST_F(RankFilesTraining, PassesOverDamage) {
  PretrainOptions o = options("run");
  o.run.checkpoint.format = "torch";
  o.run.checkpoint.save_interval = 5;
  train_with(o);
  const std::string last = iteration_folder(o.run.checkpoint.save, 10),
                    copy = last + "/mp_rank_00/model_optim_rng.pt";
  const std::string before = read_file(copy);
  fs::resize_file(copy, before.size() - 1);
  o.run.checkpoint.load = o.run.checkpoint.save;
  train_with(o);
  EXPECT_TRUE(read_file(copy) == before);
}

}  // namespace
}  // namespace mt
