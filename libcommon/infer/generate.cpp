#include "infer/generate.h"

#include <filesystem>

#include "infer/grammar_cache.h"
#include "model/config/model_config.h"
#include "text/same_ids.h"

namespace mt {

void GenerateOptions::add_to(CommandLine& cl) {
  cl.positionals("PROMPT", &prompts,
                 "text to continue; - alone, or none without --num-samples: lines of stdin", 0);
  cl.section("Model");
  cl.option("--load", &load, "PATH", kLoadedModel);
  cl.option("--adapter", &adapter, "DIR", kLoadedAdapter);
  cl.repeated(
      "--image", &images, "FILE",
      "of a LLaVA: a JPEG, PNG or WebP image that each PROMPT has a place for, <image> say; "
      "several in their order; of JSON lines \"images\" lists them");
  cl.required("--load");
  compute.add_to(cl, kDtypeAsStored);
  compute.add_dequantize_to(cl);
  tokenizer.add_to(cl);
  tokenizer.add_extra_ids_to(cl);
  add_vocab_size_to(cl, tokenizer);
  completion.add_to(cl);
  chat.add_to(cl);
  cl.section("Output");
  cl.option("--num-samples", &num_samples, "N",
            "completions of each prompt [1]; without PROMPT, of the empty text", at_least(1));
  cl.flag("--json", &session.json, "one JSON object a line instead of text");
  cl.option("--logprobs", &completion.options.logprobs, "N",
            "with --json, log-probabilities of each token and of the N likeliest", at_least(0));
  session.limits.add_to(cl);
  cl.option("--draft-load", &draft_load, "PATH", kLoadedDraft);
}

LoadedModel load_to_continue(const std::string& path, const TokenizerOptions& tokenizer,
                             const DeviceOptions& compute, const ContinuedWith& with) {
  ModelUse use = {{ModelFamily::gpt, ModelFamily::mixtral, ModelFamily::mamba, ModelFamily::t5,
                   ModelFamily::llava},
                  "with which no text is continued here"};
  use.continues = true;
  if (with.neighbors) use.families.push_back(ModelFamily::retro);
  ModelSourceOptions source{.adapter = with.adapter};
  if (with.further_layers > 0) source.further = with.further_layers;
  return load_model(path, tokenizer, compute, use, source);
}

CompletionModel completion_model(const LoadedModel& loaded) {
  return {.tokenizer = *loaded.tokenizer,
          .vocab_size = loaded.vocab_size(),
          .end_tokens = loaded.end_tokens,
          .start_token = loaded.start_token,
          .decoder_positions = loaded.model->config().max_position_embeddings,
          .llava = loaded.model->config().family == ModelFamily::llava ? &loaded.model->config()
                                                                       : nullptr};
}

std::optional<LoadedModel> load_draft(const std::string& path, const LoadedModel& loaded,
                                      TokenizerOptions tokenizer, const DeviceOptions& compute) {
  if (path.empty()) return {};
  leave_vocab_size_unchecked(tokenizer);
  LoadedModel draft = load_to_continue(path, tokenizer, compute);
  if (draft.model->config().family == ModelFamily::llava)
    fail(Exit::bad_config, "--draft-load: ", draft.path, " is a LLaVA, which guesses for no other");
  const bool same_words = draft.tokenizer->identity() == loaded.tokenizer->identity() ||
                          same_vocabulary(*draft.tokenizer, *loaded.tokenizer);
  if (!same_words || draft.vocab_size() != loaded.vocab_size())
    fail(Exit::bad_config, "--draft-load: ", draft.path, " has other tokens than ", loaded.path);
  return draft;
}

void generate(GenerateOptions o, const Session::Print& print) {
  if (o.completion.options.logprobs && !o.session.json)
    fail(Exit::usage, "--logprobs: needs --json");
  o.session.limits.check_draft(o.draft_load, false);
  bool from_stdin = o.prompts.empty();
  if (o.prompts == std::vector<std::string>{"-"}) {
    o.prompts.clear();
    from_stdin = true;
  } else if (from_stdin && o.num_samples) {
    o.prompts.emplace_back();
    from_stdin = false;
  }
  for (const std::string& prompt : o.prompts)
    if (std::error_code none; std::filesystem::is_regular_file(prompt, none))
      o.warn(concat(prompt, ": is continued as a text; < ", prompt,
                    " continues the lines of the file of that name"));
  const LoadedModel loaded = load_to_continue(
      o.load, o.tokenizer, o.compute,
      {.adapter = o.adapter, .neighbors = true, .further_layers = o.session.limits.further_layers});
  loaded.tell(o.warn);
  if (loaded.model->config().family == ModelFamily::retro)
    for (const auto& [says, name] :
         {std::pair{o.session.limits.cache_tokens > 0, "--cache-tokens"},
          std::pair{o.session.limits.prefill_tokens > 0, "--prefill-tokens"},
          std::pair{o.session.limits.draft_tokens > 0, "--draft-tokens"},
          std::pair{o.session.limits.kept.asked(), "--kv-cache-dtype"}})
      if (says)
        fail(Exit::bad_config, name, ": ", loaded.path,
             " is a Retro, which reads all of a text for each token of it");
  if (!o.images.empty() && loaded.model->config().family != ModelFamily::llava)
    fail(Exit::bad_config, "--image: ", loaded.path, " reads no images");
  if (!o.images.empty() && from_stdin)
    fail(Exit::usage, "--image: is of a PROMPT; a JSON line of stdin lists its own as \"images\"");
  if (loaded.start_token && o.completion.options.begin_document)
    fail(Exit::bad_config, "--begin-document: ", loaded.path,
         " is a T5, whose prompts nothing stands in front of");
  if (!o.session.retrieves && loaded.model->config().family != ModelFamily::retro)
    fail(Exit::bad_config, "--retro-attention-gate 0: ", loaded.path, " is no Retro");
  std::unique_ptr<NeighborSource> neighbors;
  if (o.open_neighbors) {
    if (loaded.model->config().family != ModelFamily::retro)
      fail(Exit::bad_config, "--retro-project-dir: ", loaded.path, " is no Retro");
    neighbors = o.open_neighbors(loaded);
    o.session.neighbors = neighbors.get();
  }
  const CompletionModel about = completion_model(loaded);
  GrammarCache grammars(about);
  const ChatPrompts chat(about.tokenizer, loaded.chat_files, loaded.path, o.chat,
                         about.llava != nullptr);
  PromptReader reader(o.prompts, from_stdin,
                      {.text = {},
                       .place = {},
                       .options = o.completion.of_model(about, grammars),
                       .num_samples = o.num_samples.value_or(1),
                       .images = o.images,
                       .others = {}},
                      chat, grammars);
  reader.warn_by(o.warn);
  const auto draft = load_draft(o.draft_load, loaded, o.tokenizer, o.compute);
  o.session.limits.cache = o.session.limits.kept.form(loaded);
  if (draft) o.session.draft = draft->model.get();
  Session(*loaded.model, about, reader, o.session, print).run();
}

}  // namespace mt
