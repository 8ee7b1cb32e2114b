#include "train/options/model_options.h"

#include <algorithm>
#include <set>

#include "base/command.h"
#include "comm/launch.h"
#include "model/config/settings.h"
#include "text/null_tokenizer.h"
#include "train/options/checkpoint_options.h"
#include "train/options/plan_options.h"

namespace mt {

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
                         flag == "--gated-linear-unit" || flag == "--num-experts" ||
                         flag.starts_with("--moe-");
  const bool has_own = of_family || (s.section != Section::no_option && !s.arg_name().empty());
  return has_own && flag != "--vocab-size" ? s.flag : "";
}

void ModelOptions::take_stored(CommandLine& cl, const CheckpointOptions& checkpoint,
                               const PlanOptions& plan) {
  CheckpointOptions from_now = checkpoint;
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
  if (family == ModelFamily::mixtral && !takes_experts)
    fail(Exit::bad_config, stored->where, ": is a Mixtral, which mt-pretrain alone trains");
  const bool over_flags = checkpoint.use_args;
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

void ModelOptions::take_vocabulary(const Tokenizer& tokenizer) {
  const bool given = model.vocab_size != 0;
  if (model.vocab_size == 0 || tokenizer.type() == NullTokenizer::kType)
    model.vocab_size = tokenizer.vocab_size();
  if (model.vocab_size < tokenizer.vocab_size())
    fail(Exit::bad_config, "--vocab-size ", model.vocab_size, ": less than the tokenizer's ",
         tokenizer.vocab_size(), " tokens");
  if (!given && stored) model.vocab_size = std::max(model.vocab_size, stored->model.vocab_size);
}

void ModelOptions::take_stored_vocabulary() {
  if (model.vocab_size == 0 && stored) model.vocab_size = stored->model.vocab_size;
}

}  // namespace mt
