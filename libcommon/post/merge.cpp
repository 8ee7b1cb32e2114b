// The verb merge: a model with an adapter becomes one without, of the same weights
//   W + scale B A, computed in f32 and rounded once.
// What was written is tried on random tokens before it gets its name: its logits are those of the
// model with its adapter.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <random>

#include "base/command.h"
#include "base/run_context.h"
#include "formats/convert.h"
#include "formats/peft/adapted_source.h"
#include "model/config/model_config.h"
#include "model/model_table.h"
#include "model/pass.h"
#include "post/verbs.h"

namespace mt {
namespace {

struct Probe {
  std::vector<float> logits;
  std::int64_t layers = 0;
};

// The logits of random tokens, behind as many that an encoder reads if there is one, or the scores
// that a task's head gives them, in f32 on the CPU.
Probe probe_of(const std::string& path, const ModelSourceOptions& source) {
  constexpr std::int64_t kSequences = 16, kLength = 12;
  const std::unique_ptr<ModelSource> stored = open_model(path, source);
  const ModelConfig& config = stored->config();
  const std::unique_ptr<Model> model = make_model(config, {{.end = config.all_layers()}});
  model->table().allocate(Device::cpu, DType::f32, false);
  for (const Param& row : model->table().rows()) stored->read(row, "", row.value);
  const std::int64_t length = std::min(kLength, config.max_position_embeddings),
                     rows = kSequences * length;
  Stream stream(Device::cpu);
  Pass pass(*model, stream, config.has_task_head() ? config.num_labels : config.vocab_size);
  const PassSize size{.sequences = kSequences,
                      .length = length,
                      .rows = rows,
                      .read = config.family == ModelFamily::t5 ? length : 0};
  pass.reserve([&](Pass& measured) {
    measured.input(size);
    measured.on_host(measured.logits());
  });
  const PassInput in = pass.input(size);
  std::mt19937 random(1);
  const auto choose = [&](Tensor ids, Tensor positions) {
    for (std::int64_t i = 0; i < ids.numel(); ++i) {
      ids.as<std::int32_t>()[i] =
          static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(config.vocab_size));
      positions.as<std::int32_t>()[i] = static_cast<std::int32_t>(i % length);
    }
  };
  choose(in.ids, in.positions);
  if (size.read > 0) choose(in.read, in.read_positions);
  for (std::int64_t i = 0; i < rows; ++i)
    in.rows.as<std::int32_t>()[i] = static_cast<std::int32_t>(i);
  std::ranges::fill(in.memory_lengths.span<std::int32_t>(), static_cast<std::int32_t>(size.read));
  const ConstTensor logits = pass.on_host(pass.logits());
  const auto* const first = logits.as<float>();
  return {{first, first + logits.numel()}, config.all_layers()};
}

// The largest difference of logits.  Exit::difference where one is not finite, or above three times
// the square root of the layers, in units of the type that was rounded to, by which only gross
// faults are found, or else of 2^-18, 32 units in the last place of f32.
double largest_difference(const Probe& expected, const Probe& merged, DType dtype,
                          const std::string& path) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < expected.logits.size(); ++i) {
    if (!std::isfinite(expected.logits[i]) || !std::isfinite(merged.logits[i]))
      fail(Exit::difference, path, ": logits are not finite, of the model with its adapter ",
           expected.logits[i], ", merged ", merged.logits[i]);
    difference = std::max(difference, std::fabs(double{expected.logits[i]} - merged.logits[i]));
    size = std::max(size, std::fabs(double{expected.logits[i]}));
  }
  const double unit = dtype == DType::bf16 ? 0x1p-7 : dtype == DType::f16 ? 0x1p-10 : 0x1p-18;
  const double most = 3 * unit * size * std::sqrt(static_cast<double>(expected.layers));
  if (!(difference <= most))
    fail(Exit::difference, path, ": logits differ by ", difference,
         " from those of the model with its adapter, expected at most ", most);
  return difference;
}

}  // namespace

void finetune_merge(CommandLine& cl) {
  ConvertOptions options;
  options.saver = "hf";
  bool json = false, probes = true;
  cl.describe("Put an adapter into the weights of its model.",
              "--load alone may be the adapter, of PEFT's or of a run, which names its model.");
  cl.first_run(
      {"--load", "--adapter", "--save", "--saver", "--dtype", "--no-probe", "--force", "--json"});
  cl.option("--load", &options.load, "PATH", "the model, or an adapter that names it");
  cl.option("--adapter", &options.source.adapter, "DIR",
            "the adapter: a folder of PEFT's, or a run's");
  cl.option("--save", &options.save, "DIR", "folder to make");
  cl.option("--saver", &options.saver, "FORMAT",
            "what that becomes: hf (Hugging Face) or core (Megatron)", one_of({"hf", "core"}));
  cl.option("--dtype", &options.dtype, "TYPE", "of its weights; default as stored",
            one_of({"fp32", "fp16", "bf16"}));
  cl.off_switch("--no-probe", &probes, "do not compare the logits of random tokens, on the CPU");
  cl.flag("--force", &options.force, "replace what is there");
  cl.option("--threads,-j", &options.threads, "N", "worker threads; 0: one a core", at_least(0));
  cl.flag("--json", &json, "print a summary as one JSON object");
  cl.parse();
  for (const auto& [name, value] : {std::pair("--load", &options.load), {"--save", &options.save}})
    if (value->empty()) fail(Exit::usage, name, ": required");
  options.complete();
  if (options.source.adapter.empty()) adapter_folder(options.load);  // which must be there
  run_until_signal(cl, [&](const RunContext& context) {
    double difference = 0;
    if (probes)
      options.try_written = [&](const std::string& written) {
        ModelSourceOptions apart = options.source;
        apart.merges_adapter = false;
        difference = largest_difference(probe_of(options.load, apart), probe_of(written, {}),
                                        open_model(written)->dtype(), options.save);
      };
    const ConvertReport report = convert_checkpoint(options, context.log, context.checkpoint);
    JsonWriter summary;
    summary.begin_object().member("schema", "mt-merge/1").member("tensors", report.rows);
    summary.member("bytes", report.bytes);
    if (probes) {
      summary.member("max_abs_diff", difference);
      cl.log().event("merged", {{"tensors", report.rows}, {"max_abs_diff", difference}});
    }
    if (json) std::cout << summary.end_object().text() << "\n";
  });
}

}  // namespace mt
