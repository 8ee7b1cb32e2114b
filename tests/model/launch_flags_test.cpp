// What a launch script says of a model must be what the checkpoint says.
#include "model/config/launch_flags.h"

#include <gtest/gtest.h>

#include "base/command.h"
#include "tests/base/scratch.h"
#include "tests/model/tiny_models.h"

namespace mt {
namespace {

std::string said_of(const ModelConfig& stored, const std::vector<std::string>& script) {
  return error_of([&] {
    CommandLine cl("mt-eval", script);
    LaunchFlags launch;
    launch.add_to(cl);
    cl.parse();
    launch.check(stored, "ckpt");
  });
}

TEST(LaunchFlags, MustFitTheCheckpoint) {
  const ModelConfig gpt2 = tiny_gpt2(), llama = tiny_llama();
  const std::string none = said_of(gpt2, {});
  const std::string layers = std::to_string(gpt2.num_layers),
                    width = std::to_string(gpt2.hidden_size);
  EXPECT_EQ(said_of(gpt2, {"--num-layers", layers, "--hidden-size", width, "--no-load-optim",
                           "--no-load-rng", "--tensor-model-parallel-size", "1"}),
            none);
  EXPECT_EQ(said_of(gpt2, {"--hidden-size", width, "--num-layers", "24"}),
            "78 ckpt: --num-layers is " + layers +
                " in the checkpoint and 24 here; --use-checkpoint-args takes the checkpoint's");
  EXPECT_EQ(said_of(gpt2, {"--num-layers", "24", "--use-checkpoint-args"}), none);
  EXPECT_EQ(said_of(gpt2, {"--disable-bias-linear"}),
            "78 ckpt: --disable-bias-linear is off in the checkpoint and on here; "
            "--use-checkpoint-args takes the checkpoint's");
  EXPECT_EQ(said_of(llama, {"--swiglu", "--normalization", "RMSNorm", "--disable-bias-linear",
                            "--use-rotary-position-embeddings", "--attention-dropout", "0.0",
                            "--untie-embeddings-and-output-weights"}),
            none);
}

TEST(LaunchFlags, AreOfOneProcess) {
  EXPECT_EQ(said_of(tiny_gpt2(), {"--tensor-model-parallel-size", "8"}).substr(0, 36),
            "64 --tensor-model-parallel-size 8: e");
  EXPECT_EQ(said_of(tiny_gpt2(),
                    {"--expert-tensor-parallel-size", "1", "--sequence-parallel", "--finetune",
                     "--distributed-timeout-minutes", "1440", "--auto-detect-ckpt-format",
                     "--ckpt-format", "torch", "--dist-ckpt-strictness", "log_all",
                     "--exit-on-missing-checkpoint", "--apply-query-key-layer-scaling"}),
            said_of(tiny_gpt2(), {}));
  EXPECT_EQ(said_of(tiny_gpt2(), {"--dist-ckpt-strictness", "return_all"}).substr(0, 37),
            "64 --dist-ckpt-strictness return_all:");
}

}  // namespace
}  // namespace mt
