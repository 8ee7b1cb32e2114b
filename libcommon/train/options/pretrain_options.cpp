#include "train/options/pretrain_options.h"

#include <algorithm>
#include <set>
#include <string>

#include "model/config/settings.h"
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
  if (data.type == SampleType::t5) return encoder.make_t5(model);
  encoder.check_unused("--model-type " + model_type);
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
}

// As the option would be given.
template <class T>
static std::vector<std::string> texts_of(T& value, const Setting& s) {
  Option option;
  if (s.metavar == kOff) option.kind = Option::Kind::off_switch;
  option.target = &value;
  return option.texts();
}

static std::string type_of(ModelFamily family) {
  return family == ModelFamily::bert ? "bert" : family == ModelFamily::t5 ? "t5" : "gpt";
}

// The option that says it, empty where there is none.  --num-layers says how many the encoder of a
// T5 has, unless --encoder-num-layers does.
static std::string option_of(const Setting& s, ModelFamily family, const CommandLine& cl) {
  const std::string_view flag = s.flag;
  if (family == ModelFamily::t5 && flag == "--num-layers") return "--decoder-num-layers";
  if (flag == "--encoder-num-layers" && !cl.given(flag)) return "--num-layers";
  const bool of_family = flag == "--bert-no-binary-head" || flag == "--encoder-num-layers" ||
                         flag.starts_with("--relative-attention-") || flag == "--relu" ||
                         flag == "--gated-linear-unit";
  const bool has_own = of_family || (s.section != Section::no_option && !s.arg_name().empty());
  return has_own && flag != "--vocab-size" ? s.flag : "";
}

void PretrainOptions::take_stored(CommandLine& cl) {
  CheckpointOptions from_now = run.checkpoint;
  if (environment_variable("TORCHELASTIC_RESTART_COUNT").value_or("0") != "0" &&
      from_now.goes_on_in_place())
    from_now.ckpt_step.reset();  // as ranks that were started again go on
  try {
    stored = stored_settings(from_now);
  } catch (const Error& error) {  // what is planned may lie elsewhere
    if (error.code() != Exit::no_input || !(plan.wanted || plan.search)) throw;
  }
  if (!stored) return;
  const ModelFamily family = stored->model.family;
  const std::string from = "checkpoint " + stored->where, type = type_of(family);
  if (cl.given("--model-type") && type != model_type)
    fail(Exit::bad_config, stored->where, ": is a model of another family than this run trains");
  if (type != model_type) cl.fallback("--model-type", {type}, from);
  const bool over_flags = run.checkpoint.use_args;
  std::set<std::string> unset;  // flags for what the checkpoint has not
  const auto take = [&](const std::string& flag, const std::vector<std::string>& texts) {
    if (flag.empty()) return;
    if (over_flags) cl.forget(flag);
    if (!texts.empty())
      cl.fallback(flag, texts, from);
    else if (over_flags)
      unset.insert(flag);
  };
  visit_settings(stored->model, [&](auto& value, const Setting& s) {
    take(option_of(s, family, cl), texts_of(value, s));
  });
  visit_settings(model, [&](auto& value, const Setting& s) {
    if (!unset.contains(s.flag)) return;
    if constexpr (requires { value.reset(); }) value.reset();
    if constexpr (requires { value.clear(); }) value.clear();
  });
  model.scale_decoder_outputs = stored->model.scale_decoder_outputs;  // which has no option
  if (stored->seq_length) take("--seq-length", {std::to_string(*stored->seq_length)});
}

bool PretrainOptions::names_a_vocabulary() const {
  const bool null = data.tokenizer.type == NullTokenizer::kType ||
                    (data.tokenizer.type.empty() && data.sources.mock_data);
  return null ||
         (model.vocab_size == 0 && (names_a_source(data.sources) || !data.tokenizer.type.empty()));
}

void PretrainOptions::take_vocabulary(const Tokenizer& tokenizer) {
  const bool given = model.vocab_size != 0;
  if (model.vocab_size == 0 || tokenizer.type() == NullTokenizer::kType)
    model.vocab_size = tokenizer.vocab_size();
  if (model.vocab_size < tokenizer.vocab_size())
    fail(Exit::bad_config, "--vocab-size ", model.vocab_size, ": less than the tokenizer's ",
         tokenizer.vocab_size(), " tokens");
  if (!given && stored) model.vocab_size = std::max(model.vocab_size, stored->model.vocab_size);
}

void PretrainOptions::take_stored_vocabulary() {
  if (model.vocab_size == 0 && stored) model.vocab_size = stored->model.vocab_size;
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
