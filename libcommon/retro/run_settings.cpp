#include "retro/run_settings.h"

#include "base/command.h"
#include "base/json.h"

namespace mt {

void RetroRunSettings::add_to(CommandLine& cl) {
  cl.section("Kept in config.json");
  cl.option("--retro-gpt-seq-length", &seq_length, "N",
            "tokens of a sample of the training, a multiple of a chunk's", at_least(1));
  cl.option("--retro-gpt-train-samples", &train_samples, "N", "its samples", at_least(0));
  cl.option("--retro-gpt-global-batch-size", &global_batch_size, "N", "samples of a step of it",
            at_least(1));
  cl.option("--retro-gpt-eval-interval", &eval_interval, "N", "steps between two evaluations",
            at_least(1));
  cl.option("--retro-gpt-eval-iters", &eval_iters, "N", "batches of an evaluation", at_least(0));
  cl.option("--retro-gpt-seed", &seed, "N", "seed of its order", at_least(0));
  cl.option("--retro-gpt-data-cache-path", &cache_path, "DIR", "where its indexes go");
}

RetroProject::Settings RetroRunSettings::settings() const {
  const auto number = [](const std::optional<std::int64_t>& value) {
    return value ? std::to_string(*value) : std::string("null");
  };
  return {{"retro_gpt_data_cache_path",
           cache_path.empty() ? "null" : JsonWriter().value(cache_path).text()},
          {"retro_gpt_eval_interval", number(eval_interval)},
          {"retro_gpt_eval_iters", number(eval_iters)},
          {"retro_gpt_global_batch_size", number(global_batch_size)},
          {"retro_gpt_seed", number(seed)},
          {"retro_gpt_seq_length", number(seq_length)},
          {"retro_gpt_train_samples", number(train_samples)}};
}

}  // namespace mt
