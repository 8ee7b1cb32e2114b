#include "train/options/pretrain_options.h"

#include <utility>

#include "base/command.h"
#include "model/model_table.h"
#include "text/null_tokenizer.h"
#include "train/options/megatron_flags.h"

namespace mt {

void PretrainOptions::add_to(CommandLine& cl, std::vector<std::string> packings) {
  cl.section("Model");
  cl.option("--model-type", &model_type, "TYPE",
            "what is trained: gpt, or as pretrain_bert.py, pretrain_t5.py and pretrain_mamba.py do "
            "bert, t5 or mamba, or as pretrain_vision_classify.py, pretrain_vision_inpaint.py and "
            "pretrain_vision_dino.py vit; hybrid is mamba; multimodal: a LLaVA that is loaded, as "
            "pretrain_vlm.py does",
            one_of({"gpt", "bert", "t5", "mamba", "hybrid", "vit", "multimodal"}));
  add_padding_to(cl);
  add_legacy_to(cl);
  model.add_to(cl);
  encoder.add_to(cl);
  encoder.add_stages_to(cl);
  mamba.add_to(cl);
  retro.add_to(cl);
  vision.add_to(cl);
  multimodal.add_to(cl, std::move(packings));
  takes_mamba = takes_retro = takes_llava = true;
  add_yarn_to(cl);
  add_experts_to(cl);
  model.recompute.add_to(cl);
  data.add_to(cl);
  run.add_to(cl);
  cl.flag("--check-layout", &check_layout,
          "run the first steps, two in fp64, in this layout and by one rank, compare losses and "
          "gradients, and stop");
  cl.flag(
      "--selftest", &selftest,
      "train small models on the GPU and on the CPU, print how far logits, losses and gradients "
      "are apart, and stop; exit code 1 if that is too far");
  plan.add_to(cl);
  run.add_reports_to(cl);
  add_megatron_flags(cl);
}

void PretrainOptions::choose_type() {
  take_pattern();
  if (!is_vit() && !is_multimodal()) data.type = sample_type(model_type);
  make_experts();
  const std::string type_option = "--model-type " + model_type;
  if (model_type == "mamba")
    mamba.make_mamba(model, run.ranks.pipeline);
  else
    mamba.check_unused(type_option);
  if (model_type != "gpt")
    retro.check_unused(type_option);
  else if (num_experts)
    retro.check_unused("--num-experts");
  else if (!retro.add_retriever)
    retro.check_unused("a GPT without --retro-add-retriever");
  retro.make_retro(model, data.retro);
  if (is_vit())
    vision.make_vit(model, data);
  else
    vision.check_unused(type_option);
  if (is_multimodal())
    multimodal.take_length(data);
  else
    multimodal.check_unused(type_option);
  if (data.type == SampleType::t5) {
    encoder.take_stages(run.ranks.parallel, run.ranks.pipeline);
    return encoder.make_t5(model);
  }
  encoder.check_unused(type_option);
  if (data.type != SampleType::bert) return;
  model.family = ModelFamily::bert;
  model.bert_binary_head = data.masks.binary_head;
}

// What Megatron-LM does not do with a BERT either, or in no way of its own.
static void check_bert(const RunOptions& run) {
  if (run.batch.calculate_per_token_loss)
    fail(Exit::bad_config,
         "--calculate-per-token-loss: not with --model-type bert, of which every micro-batch "
         "weighs the same");
}

void check_t5(const RunOptions& run, std::int64_t length) {
  const ParallelOptions& parallel = run.ranks.parallel;
  if (parallel.shares_rows() && length % parallel.tensor_model_parallel_size != 0)
    fail(Exit::bad_config, "--decoder-seq-length ", length,
         ": --sequence-parallel needs a multiple of --tensor-model-parallel-size ",
         parallel.tensor_model_parallel_size);
  if (run.checkpoint.format == "torch" && parallel.stages() > 1 &&
      run.ranks.pipeline.encoder_ranks == 0)
    fail(Exit::bad_config,
         "--ckpt-format torch: Megatron-LM's has a T5's encoder in stages of its "
         "own, and a stage of --pipeline-model-parallel-size ",
         parallel.pipeline_model_parallel_size,
         " may have layers of both stacks; use torch_dist, "
         "or --encoder-pipeline-model-parallel-size");
}

// All of a student and its teacher lies on each rank, but for what ranks share by columns and rows;
// and a step has as many images as any other, so that epochs are known.  A teacher that follows by
// 0.4 % of a difference does not move in 16 bits.
static void check_dino(const PretrainOptions& o) {
  const ParallelOptions& parallel = o.run.ranks.parallel;
  const DeviceOptions& compute = o.run.compute;
  for (const auto& [says, flag] :
       {std::pair{parallel.pipeline_model_parallel_size > 1, "--pipeline-model-parallel-size"},
        {parallel.shares_rows(), "--sequence-parallel"},
        {!o.run.batch.rampup_batch_size.empty(), "--rampup-batch-size"},
        {!o.run.batch.step_batch_size_schedule.empty(), "--step-batch-size-schedule"},
        {o.run.optimizer.shards_values(), "--data-parallel-sharding-strategy optim_grads_params"},
        {o.run.checkpoint.format == "torch", "--ckpt-format torch"},
        {o.plan.search.has_value(), "--plan-search"},
        {compute.bf16 || compute.dtype == "bf16", "--bf16"},
        {compute.fp16 || compute.dtype == "fp16", "--fp16"}})
    if (says) fail(Exit::bad_config, flag, ": not with --vision-pretraining-type dino");
}

// As many whole chunks as neighbours are known for.
static void check_retro(const DataOptions& data, const RunOptions& run) {
  if (data.seq_length % data.retro->chunk_length != 0)
    fail(Exit::bad_config, "--seq-length ", data.seq_length, ": expected a multiple of the ",
         data.retro->chunk_length, " tokens of the project's chunks");
  if (const int stages = run.ranks.parallel.pipeline_model_parallel_size;
      run.checkpoint.format == "torch" && stages > 1)
    fail(Exit::bad_config, "--ckpt-format torch: Megatron-LM's Retro has one stage, not ", stages,
         "; use torch_dist");
}

bool PretrainOptions::names_a_vocabulary() const {
  if (is_vit() || is_multimodal()) return false;
  const bool null = data.tokenizer.type == NullTokenizer::kType ||
                    (data.tokenizer.type.empty() && data.sources.mock_data);
  return null ||
         (model.vocab_size == 0 && (names_a_source(data.sources) || !data.tokenizer.type.empty()));
}

static void require_seq_length(const DataOptions& data) {
  if (data.seq_length == 0) fail(Exit::usage, "--seq-length: required");
}

void complete_model(ModelConfig& model, const DataOptions& data, int tensor_ranks) {
  require_seq_length(data);
  model.complete(tensor_ranks);
  const auto check = [&](const char* option, std::int64_t length) {
    if (length > model.max_position_embeddings)
      fail(Exit::bad_config, option, ' ', length, ": larger than --max-position-embeddings ",
           model.max_position_embeddings);
  };
  check("--seq-length", data.seq_length);
  check("--decoder-seq-length", data.masks.decoder_seq_length.value_or(0));
}

void check_whole_sequences(const RunOptions& run, const ModelConfig& model) {
  const int context = run.ranks.parallel.context_parallel_size;
  if (const char* why = keeps_sequences_whole(model); context > 1 && why != nullptr)
    fail(Exit::bad_config, "--context-parallel-size ", context, ": ", why);
}

void PretrainOptions::check_type() const {
  data.check_type("--model-type " + model_type);
  check_whole_sequences(run, model);
  if (data.type == SampleType::bert) check_bert(run);
  if (data.retro) check_retro(data, run);
  if (is_vit() && vision.is_dino()) check_dino(*this);
  if (data.type == SampleType::t5) check_t5(run, *data.masks.decoder_seq_length);
  if (run.ranks.pipeline.encoder_ranks > 0 && plan.search)
    fail(Exit::usage, "--plan-search: not with --encoder-pipeline-model-parallel-size");
}

void PretrainOptions::complete() {
  require_seq_length(data);
  check_type();
  const RunOptions::Instead instead{plan, check_layout};
  run.complete(instead);
  complete_model(model, data, run.ranks.parallel.tensor_model_parallel_size);
  check_legacy();
  run.complete_for(model, data.seq_length, data.reset_attention_mask, instead);
}

}  // namespace mt
