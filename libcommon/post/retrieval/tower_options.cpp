#include "post/retrieval/tower_options.h"

#include <algorithm>
#include <cmath>

#include "base/command.h"
#include "train/run/training_command.h"

namespace mt {

TowerOptions::TowerOptions(const char* verb) : verb_(concat("mt-finetune ", verb)) {
  run = RunOptions();  // Megatron's defaults
  has_full_validation = false;
  takes_towers = takes_bert = true;
  model_type = "bert";
}

void TowerOptions::add_towers_to(CommandLine& cl) {
  cl.flag("--biencoder-shared-query-context-model", &model.biencoder_shared_query_context_model,
          "one tower makes the vectors of queries and of contexts; default: one for each");
  cl.option(
      "--biencoder-projection-dim", &model.biencoder_projection_dim, "N",
      "width of the vectors, which a linear module makes; 0: the hidden state of [CLS] is one",
      between(0, 1 << 20));
  cl.option("--ict-head-size", &ict_head_size, "N",
            "an older name of --biencoder-projection-dim, which Megatron-LM v0.12 does not read",
            at_least(1));
  cl.option("--bert-load", &bert_load, "DIR",
            "a BERT that each tower begins as, where --load has nothing to go on from");
  cl.option("--ict-load", &ict_load, "DIR", "a model of towers that the run begins with, likewise");
  cl.flag("--retriever-score-scaling", &score_scaling,
          "scores are divided by the square root of --hidden-size");
  cl.option("--retriever-report-topk-accuracies", &tops, "K",
            "report of how many queries in a hundred the own context is among the K nearest");
}

void TowerOptions::parse(CommandLine& cl) {
  cl.before_print([&] {
    for (const auto& [name, path] :
         {std::pair{"--bert-load", &bert_load}, {"--ict-load", &ict_load}}) {
      if (path->empty()) continue;
      if (!run.checkpoint.pretrained_checkpoint.empty())
        fail(Exit::usage, name, ": a run begins with one model, and another is given");
      run.checkpoint.pretrained_checkpoint = *path;
    }
    take_stored(cl, run.checkpoint, plan);
    if (cl.given("--vocab-file"))  // as in pretrain_ict.py
      cl.fallback("--tokenizer-type", {"BertWordPieceLowerCase"}, "default with --vocab-file");
  });
  cl.parse();
  make_experts();  // of which towers have none
  if (cl.given("--untie-embeddings-and-output-weights"))
    fail(Exit::usage, "--untie-embeddings-and-output-weights: a tower has no output layer");
  model.family = ModelFamily::biencoder;
  if (ict_head_size > 0) {
    if (model.biencoder_projection_dim > 0 && model.biencoder_projection_dim != ict_head_size)
      fail(Exit::usage, "--ict-head-size ", ict_head_size,
           ": is --biencoder-projection-dim, which is ", model.biencoder_projection_dim);
    model.biencoder_projection_dim = ict_head_size;
  }
  encoder.check_unused(verb_);
  find_ranks(cl, run, !is_planned());
  tokenizer.vocab_size = model.vocab_size;
  check();
}

void TowerOptions::check() const {
  if (model_type != "bert")
    fail(Exit::usage, "--model-type ", model_type, ": ", verb_, " is of two BERTs");
  const ParallelOptions& parallel = run.ranks.parallel;
  for (const auto& [name, size] :
       {std::pair{"--tensor-model-parallel-size", parallel.tensor_model_parallel_size},
        {"--pipeline-model-parallel-size", parallel.pipeline_model_parallel_size},
        {"--context-parallel-size", parallel.context_parallel_size}})
    if (size > 1)
      fail(Exit::bad_config, name, ' ', size, ": each rank has a model of towers whole");
  if (run.checkpoint.format == "torch")
    fail(Exit::bad_config,
         "--ckpt-format torch: Megatron-LM's is of its legacy classes; mt-convert --saver legacy "
         "makes one of a checkpoint");
  if (std::ssize(tops) > kMostTops)
    fail(Exit::usage, "--retriever-report-topk-accuracies: ", tops.size(), " numbers, at most ",
         kMostTops);
  for (std::size_t i = 0; i < tops.size(); ++i)
    if (tops[i] < 1 || std::ranges::count(tops, tops[i]) > 1)
      fail(Exit::usage, "--retriever-report-topk-accuracies ", tops[i],
           ": expected different numbers, each at least 1");
}

RetrievalObjective::Options TowerOptions::objective(std::int64_t contexts) const {
  return {.seq_length = seq_length,
          .contexts = contexts,
          .factor = score_scaling ? 1 / std::sqrt(static_cast<double>(model.hidden_size)) : 1,
          .tops = tops};
}

}  // namespace mt
