#include "train/options/pretrain_options.h"

#include "base/command.h"
#include "model/model_table.h"
#include "text/null_tokenizer.h"
#include "train/options/megatron_flags.h"

namespace mt {

void PretrainOptions::add_to(CommandLine& cl) {
  cl.section("Model");
  cl.option("--model-type", &model_type, "TYPE",
            "what is trained: gpt, or as pretrain_bert.py and pretrain_t5.py do bert or t5",
            one_of({"gpt", "bert", "t5"}));
  model.add_to(cl);
  encoder.add_to(cl);
  takes_experts = true;
  cl.section("Experts");
  cl.option("--num-experts", &num_experts, "N", "experts of each layer, in the place of its MLP",
            between(1, 4096));
  cl.option("--moe-router-topk", &model.moe_router_topk, "N", "experts that each token goes to",
            at_least(1));
  cl.option("--moe-shared-expert-intermediate-size", &model.moe_shared_expert_intermediate_size,
            "N", "width of experts that all tokens go to beside theirs; 0: there are none",
            at_least(0));
  cl.flag("--moe-shared-expert-gate", &model.moe_shared_expert_gate,
          "what they make is multiplied by a sigmoid of each token");
  cl.option("--moe-router-score-function", &model.moe_router_score_function, "TYPE",
            "softmax of the chosen experts' logits weighs them; sigmoid: those of all choose, and "
            "weigh over their sum",
            one_of({"softmax", "sigmoid"}));
  cl.flag("--moe-router-pre-softmax", &model.moe_router_pre_softmax,
          "the softmax is of all experts' logits, not of the chosen alone");
  cl.option("--moe-router-num-groups", &model.moe_router_num_groups, "N",
            "groups of experts, of which some are kept for a token", at_least(0));
  cl.option("--moe-router-group-topk", &model.moe_router_group_topk, "N",
            "groups of experts that are kept for a token", at_least(0));
  cl.option("--moe-router-topk-scaling-factor", &model.moe_router_topk_scaling_factor, "F",
            "what the weights are multiplied by; 0: nothing", at_least(0));
  cl.flag("--moe-router-enable-expert-bias", &model.moe_router_enable_expert_bias,
          "sigmoids choose with a bias, which a step changes by how often each expert was chosen");
  cl.option("--moe-router-bias-update-rate", &model.moe_router_bias_update_rate, "F",
            "what a step adds to an expert's bias or takes from it", between(0, 1));
  cl.option("--moe-router-load-balancing-type", &model.moe_router_load_balancing_type, "TYPE",
            "what --moe-aux-loss-coeff is of: aux_loss, over a micro-batch, or seq_aux_loss, over "
            "each sequence",
            one_of({"aux_loss", "seq_aux_loss", "none"}));
  cl.option("--moe-aux-loss-coeff", &model.moe_aux_loss_coeff, "F",
            "weight of the loss that has all experts chosen as often", at_least(0));
  cl.option("--moe-z-loss-coeff", &model.moe_z_loss_coeff, "F",
            "weight of the loss that keeps the router's logits small", at_least(0));
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
  data.type = sample_type(model_type);
  if (!num_experts && static_cast<const ExpertConfig&>(model) != ExpertConfig())
    fail(Exit::usage, "--moe-...: what routers do has no effect without --num-experts");
  if (num_experts && data.type != SampleType::gpt)
    fail(Exit::usage, "--num-experts: is not for --model-type ", model_type);
  if (data.type == SampleType::t5) return encoder.make_t5(model);
  encoder.check_unused("--model-type " + model_type);
  if (num_experts) {
    model.family = ModelFamily::mixtral;
    model.num_experts = *num_experts;
  }
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

// A T5's decoder has a length of its own.
static void check_t5(const RunOptions& run, const DataOptions& data) {
  const ParallelOptions& parallel = run.ranks.parallel;
  const std::int64_t length = *data.masks.decoder_seq_length;
  if (parallel.shares_rows() && length % parallel.tensor_model_parallel_size != 0)
    fail(Exit::bad_config, "--decoder-seq-length ", length,
         ": --sequence-parallel needs a multiple of --tensor-model-parallel-size ",
         parallel.tensor_model_parallel_size);
  if (run.checkpoint.format == "torch" && parallel.pipeline_model_parallel_size > 1)
    fail(Exit::bad_config,
         "--ckpt-format torch: Megatron-LM's has a T5's encoder in stages of its "
         "own, and a stage of --pipeline-model-parallel-size ",
         parallel.pipeline_model_parallel_size,
         " may have layers of both stacks; use torch_dist, "
         "and mt-convert --target-encoder-pipeline-parallel-size");
}

bool PretrainOptions::names_a_vocabulary() const {
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

void PretrainOptions::check_type() const {
  data.check_type("--model-type " + model_type);
  const int context = run.ranks.parallel.context_parallel_size;
  if (const char* why = keeps_sequences_whole(model); context > 1 && why != nullptr)
    fail(Exit::bad_config, "--context-parallel-size ", context, ": ", why);
  if (data.type == SampleType::bert) check_bert(run);
  if (data.type == SampleType::t5) check_t5(run, data);
}

void PretrainOptions::complete() {
  require_seq_length(data);
  check_type();
  const RunOptions::Instead instead{plan, check_layout};
  run.complete(instead);
  complete_model(model, data, run.ranks.parallel.tensor_model_parallel_size);
  run.complete_for(model, data.seq_length, data.reset_attention_mask, instead);
}

}  // namespace mt
