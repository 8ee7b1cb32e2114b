// mt-eval: measure a trained model.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "base/command.h"
#include "base/input/line_reader.h"
#include "base/progress.h"
#include "cmd/programs.h"
#include "eval/guess_report.h"
#include "eval/guesses.h"
#include "eval/perplexity.h"
#include "eval/tasks/compare.h"
#include "eval/tasks/megatron_tasks.h"
#include "eval/tasks/task_session.h"
#include "formats/load_model.h"
#include "infer/chat_prompts.h"
#include "infer/continue_texts.h"
#include "infer/encoder_pass.h"
#include "infer/score_pass.h"
#include "infer/span_pass.h"
#include "model/config/model_config.h"
#include "text/put_in_front.h"

namespace {

struct Options {
  std::string load, adapter, task = "perplexity";
  mt::TaskOptions tasks;
  mt::ChatOptions chat;
  std::vector<std::string> inputs, valid_data;
  bool strict_lambada = false;
  std::optional<std::int64_t> seq_length, overlapping_eval, decoder_seq_length, seed;
  std::optional<double> mask_prob, short_seq_prob;
  std::int64_t micro_batch_size = 4;
  int threads = 0;
  bool json = false;
  mt::DeviceOptions compute{.dtype = ""};
  mt::TokenizerOptions tokenizer;

  void add_to(mt::CommandLine& cl) {
    cl.describe("Measure a trained model.");
    cl.first_run({"--load", "--task", "--seq-length", "--overlapping-eval", "--micro-batch-size",
                  "--data", "--num-fewshot", "--limit", "--device", "--json"});
    cl.positionals("INPUT", &inputs,
                   "text, JSON lines, or the prefix of a token file; - is stdin; masked-words and "
                   "spans: prefixes of token files of sentences; tasks: documents, JSON lines",
                   0);
    cl.section("Model");
    cl.option("--load", &load, "PATH", mt::kLoadedModel);
    cl.option("--adapter", &adapter, "DIR", mt::kLoadedAdapter);
    cl.required("--load");
    compute.add_to(cl, mt::kDtypeAsStored);
    tokenizer.add_to(cl);
    tokenizer.add_extra_ids_to(cl);
    cl.section("Evaluation");
    cl.option(
        "--task", &task, "TASK",
        "what to measure: perplexity of a GPT, Megatron-LM's WIKITEXT103 or LAMBADA, or tasks "
        "by their names or files, with commas between (mt-eval ls); masked-words or "
        "pseudo-perplexity of a BERT; spans of a T5");
    cl.option("--valid-data", &valid_data, "FILE ...", "WIKITEXT103, LAMBADA: INPUT");
    cl.flag("--strict-lambada", &strict_lambada,
            "LAMBADA: the last word, instead of the last token");
    cl.option(
        "--seq-length,--encoder-seq-length", &seq_length, "N",
        "tokens of a window or of a sample; default all that the model takes, 2048 at most if it "
        "is a Mamba, but of other tasks "
        "than perplexity at most 512",
        mt::at_least(1));
    cl.option("--overlapping-eval", &overlapping_eval, "N",
              "tokens by which a window lies behind the one before; default --seq-length: the "
              "windows do not overlap; of WIKITEXT103 32",
              mt::at_least(1));
    cl.option("--decoder-seq-length", &decoder_seq_length, "N",
              "spans: tokens of what is decoded; default all that the model takes, at most 512",
              mt::at_least(2));
    cl.option("--mask-prob", &mask_prob, "P",
              "masked-words, spans: part of the tokens that is masked; 0.15",
              {.low = 0, .high = 1, .above_low = true});
    cl.option("--short-seq-prob", &short_seq_prob, "P",
              "masked-words, spans: part of the samples that is shorter; 0.1", mt::between(0, 1));
    cl.option("--seed", &seed, "N",
              "seed of the samples and masks of masked-words and spans, and of tasks' examples; "
              "1234",
              mt::between(1, 4294967295.0));
    cl.option(
        "--micro-batch-size", &micro_batch_size, "N",
        "windows at a time, of shorter texts more; changes no result, but by rounding on a GPU",
        mt::between(1, 65536));
    cl.option("--threads,-j", &threads, "N", "worker threads of the CPU; 0: one a core",
              mt::at_least(0));
    cl.flag("--json", &json, "one JSON object a text or document, the summary last");
    tasks.add_to(cl);
    chat.add_to(cl);
  }
};

// Whole lines, as they come: whoever stops the program has all that was scored.
void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) < text.size() || std::fflush(stdout) != 0)
    mt::fail_errno("stdout", "cannot write", mt::Exit::io_error);
}

void print_item(std::int64_t item, const mt::TextScore& score) {
  mt::JsonWriter json;
  json.begin_object()
      .member("schema", "mt-eval/1")
      .member("task", "perplexity")
      .member("item", item)
      .member("nll", score.nll)
      .member("tokens", score.tokens)
      .member("words", score.words)
      .member("bytes", score.bytes)
      .end_object();
  print(json.text() + "\n");
}

void print_summary(const Options& options, const mt::LoadedModel& loaded,
                   const mt::Windows& windows, std::int64_t items, const mt::TextScore& score) {
  if (options.json) {
    mt::JsonWriter json;
    json.begin_object()
        .member("schema", "mt-eval/1")
        .member("task", "perplexity")
        .member("summary", true)
        .member("checkpoint", loaded.path)
        .member("seq_length", windows.length)
        .member("overlapping_eval", windows.stride)
        .member("items", items)
        .member("tokens", score.tokens)
        .member("words", score.words)
        .member("bytes", score.bytes)
        .member("nats_per_token", score.nats_per_token())
        .member("perplexity", score.perplexity())
        .member("token_ratio", score.token_ratio())
        .member("adjusted_perplexity", score.adjusted_perplexity())
        .member("bits_per_byte", score.bits_per_byte())
        .end_object();
    return print(json.text() + "\n");
  }
  char line[256];
  std::snprintf(line, sizeof line,
                "texts %lld  tokens %lld  bytes %lld  nats per token %.6f  perplexity %.4f  "
                "adjusted perplexity %.4f  bits per byte %.6f\n",
                static_cast<long long>(items), static_cast<long long>(score.tokens),
                static_cast<long long>(score.bytes), score.nats_per_token(), score.perplexity(),
                score.adjusted_perplexity(), score.bits_per_byte());
  print(line);
}

constexpr std::int64_t kWindowOfMamba = 2048;

mt::Windows windows_of(const Options& options, const mt::ModelConfig& model) {
  const std::int64_t most = model.max_position_embeddings;
  const bool endless = model.family == mt::ModelFamily::mamba;  // it knows no positions
  const std::int64_t length =
      options.seq_length.value_or(endless ? std::min(most, kWindowOfMamba) : most);
  if (length > most)
    mt::fail(mt::Exit::bad_config, "--seq-length ", length, ": the model takes at most ", most);
  const std::int64_t stride = options.overlapping_eval.value_or(length);
  if (stride > length)
    mt::fail(mt::Exit::bad_config, "--overlapping-eval ", stride,
             ": larger than the window; expected at most ", length);
  return {length, stride};
}

// How many tokens all inputs will have had, guessed from what has been read of them; 0 where one is
// no file.
class Extent {
 public:
  explicit Extent(const std::vector<std::string>& inputs) {
    for (const std::string& input : inputs) {
      const std::uint64_t bytes = mt::input_bytes(input);
      known_ = known_ && bytes > 0;
      all_ += bytes;
    }
  }
  std::uint64_t tokens_with(const mt::EvalText& text) {
    tokens_ += text.tokens.size();
    const std::uint64_t read = before_ + text.read;
    if (!known_ || read == 0) return 0;
    return static_cast<std::uint64_t>(static_cast<double>(tokens_) * static_cast<double>(all_) /
                                      static_cast<double>(read));
  }
  void end_input(const std::string& input) { before_ += mt::input_bytes(input); }

 private:
  bool known_ = true;
  std::uint64_t all_ = 0, before_ = 0, tokens_ = 0;
};

void perplexity(const Options& options, const mt::LoadedModel& loaded, mt::Progress& progress) {
  const mt::Windows windows = windows_of(options, loaded.model->config());
  mt::ScorePass model(*loaded.model, {.vocab_size = loaded.vocab_size(),
                                      .window = windows.length,
                                      .batch = options.micro_batch_size,
                                      .threads = options.threads,
                                      .scored = [&](auto tokens) {
                                        progress.add(static_cast<std::uint64_t>(tokens));
                                      }});
  mt::TextScore total;
  std::int64_t items = 0;
  mt::TextScorer scorer(
      loaded.tokenizer->eod(), mt::put_in_front(*loaded.tokenizer), windows,
      [&](auto ids, auto nll) { model.score(ids, nll); },
      [&](const mt::TextScore& score) {
        if (options.json) print_item(items, score);
        total += score;
        ++items;
      });
  try {
    Extent extent(options.inputs);
    for (const std::string& input : options.inputs) {
      mt::for_each_text(input, *loaded.tokenizer, loaded.vocab_size(),
                        [&](const mt::EvalText& text) {
                          progress.expect(extent.tokens_with(text));
                          scorer.add(text);
                        });
      extent.end_input(input);
    }
  } catch (const mt::Error&) {
    scorer.finish();  // what came before a line that is wrong
    throw;
  }
  scorer.finish();
  progress.finish();
  if (total.tokens == 0)
    mt::fail(mt::Exit::bad_data, options.inputs.front(), ": no tokens to score");
  print_summary(options, loaded, windows, items, total);
}

// --- Guesses -------------------------------------------------------------------------------------

constexpr std::int64_t kAtATime = 256;  // samples that are put together by their lengths

// What is masked of each of some texts, and its score.
std::vector<mt::GuessScore> guess(mt::EncoderPass& pass, std::span<const mt::MaskedText> texts) {
  std::vector<mt::EncoderPass::Text> asked;
  for (const mt::MaskedText& text : texts)
    asked.push_back({.ids = text.ids, .asked = text.asked, .types = text.types});
  std::vector<mt::GuessScore> scores(texts.size());
  pass.run(asked, [&](std::size_t i, mt::ConstTensor logits) {
    scores[i] = mt::score_guesses(logits, texts[i].tokens);
  });
  return scores;
}

std::vector<mt::GuessScore> guess(mt::SpanPass& pass, std::span<const mt::CutText> texts) {
  std::vector<mt::SpanPass::Sample> samples;
  for (const mt::CutText& text : texts) samples.push_back({.read = text.read, .ids = text.ids});
  std::vector<mt::GuessScore> scores(texts.size());
  pass.run(samples, [&](std::size_t i, mt::ConstTensor logits) {
    scores[i] = mt::score_guesses(logits, texts[i].tokens);
  });
  return scores;
}

// A T5 of relative positions may take any number of tokens.
std::int64_t length_within(const char* option, std::optional<std::int64_t> asked,
                           std::int64_t least, std::int64_t most) {
  const std::int64_t length = asked.value_or(std::min<std::int64_t>(most, 512));
  if (length > most)
    mt::fail(mt::Exit::bad_config, option, " ", length, ": the model takes at most ", most);
  if (length < least)
    mt::fail(mt::Exit::bad_config, option, " ", length, ": expected at least ", least);
  return length;
}

// get(samples, k): a sample that `pass` takes.
template <class AnyPass, class Get>
void guess_samples(const Options& o, const mt::LoadedModel& loaded, mt::SampleType type,
                   std::int64_t seq_length, const mt::MaskOptions& masks, AnyPass& pass,
                   mt::Progress& progress, const Get& get) {
  const mt::WordPieces pieces = mt::WordPieces::of(*loaded.tokenizer);
  if (type == mt::SampleType::t5) pieces.check_sentinels();
  if (pieces.vocab_size() > loaded.model->config().vocab_size)
    mt::fail(mt::Exit::bad_config, loaded.path, ": the tokenizer has ", pieces.vocab_size(),
             " tokens, more than the model's ", loaded.model->config().vocab_size);
  mt::GuessReport report(o.task, o.json, print);
  for (const std::string& prefix : o.inputs) {
    mt::refuse_other_tokenizer(prefix, *loaded.tokenizer);
    mt::GuessSamples samples(type, prefix, pieces, seq_length, masks,
                             static_cast<std::uint32_t>(o.seed.value_or(1234)));
    std::vector<decltype(get(samples, 0))> some;
    for (std::int64_t k = 0; k < samples.size(); ++k) {
      some.push_back(get(samples, k));
      if (std::ssize(some) < kAtATime && k + 1 < samples.size()) continue;
      for (const mt::GuessScore& score : guess(pass, some)) {
        report.put(score);
        progress.add(static_cast<std::uint64_t>(score.tokens));
      }
      some.clear();
    }
  }
  progress.finish();
  report.finish(o.inputs.front(), loaded.path, seq_length);
}

mt::EncoderPass encoder_pass(const Options& o, const mt::LoadedModel& loaded) {
  return {*loaded.model,
          {.wanted = mt::EncoderPass::Wanted::logits,
           .vocab_size = loaded.vocab_size(),
           .batch = o.micro_batch_size,
           .threads = o.threads}};
}

// Each text's tokens are masked one after another.
void pseudo_perplexity(const Options& o, const mt::LoadedModel& loaded, mt::Progress& progress) {
  const std::int64_t length = length_within("--seq-length", o.seq_length, 3,
                                            loaded.model->config().max_position_embeddings);
  const mt::SpecialTokens special = mt::WordPieces::of(*loaded.tokenizer).special;
  mt::EncoderPass pass = encoder_pass(o, loaded);
  mt::GuessReport report(o.task, o.json, print);
  const auto score = [&](const mt::EvalText& text) {
    std::vector<std::int32_t> tokens;
    for (const std::int32_t id : text.tokens)
      if (id != special.cls && id != special.sep) tokens.push_back(id);
    mt::GuessScore all;
    std::vector<mt::MaskedText> some;
    const auto flush = [&] {
      for (const mt::GuessScore& one : guess(pass, some)) all += one;
      progress.add(some.size());
      some.clear();
    };
    mt::mask_in_turn(tokens, special, length - 2, [&](mt::MaskedText text_with_mask) {
      some.push_back(std::move(text_with_mask));
      if (std::ssize(some) == kAtATime) flush();
    });
    flush();
    report.put(all);
  };
  for (const std::string& input : o.inputs)
    mt::for_each_text(input, *loaded.tokenizer, loaded.vocab_size(), score);
  progress.finish();
  report.finish(o.inputs.front(), loaded.path, length);
}

void masked_words(const Options& o, const mt::LoadedModel& loaded, mt::Progress& progress) {
  const mt::ModelConfig& model = loaded.model->config();
  const mt::MaskOptions masks{.mask_prob = o.mask_prob.value_or(0.15),
                              .short_seq_prob = o.short_seq_prob.value_or(0.1),
                              .binary_head = model.bert_binary_head};
  mt::EncoderPass pass = encoder_pass(o, loaded);
  const std::int64_t length =
      length_within("--seq-length", o.seq_length, 5, model.max_position_embeddings);
  guess_samples(o, loaded, mt::SampleType::bert, length, masks, pass, progress,
                [](mt::GuessSamples& s, std::int64_t k) { return s.masked(k); });
}

void spans(const Options& o, const mt::LoadedModel& loaded, mt::Progress& progress) {
  const std::int64_t most = loaded.model->config().max_position_embeddings;
  const std::int64_t read = length_within("--seq-length", o.seq_length, 5, most),
                     length = length_within("--decoder-seq-length", o.decoder_seq_length, 2, most);
  const mt::MaskOptions masks{.mask_prob = o.mask_prob.value_or(0.15),
                              .short_seq_prob = o.short_seq_prob.value_or(0.1),
                              .decoder_seq_length = length};
  mt::SpanPass pass(*loaded.model, {.vocab_size = loaded.vocab_size(),
                                    .read = read,
                                    .length = length,
                                    .batch = o.micro_batch_size,
                                    .threads = o.threads});
  guess_samples(o, loaded, mt::SampleType::t5, read, masks, pass, progress,
                [](mt::GuessSamples& s, std::int64_t k) { return s.cut(k); });
}

// --- Tasks ---------------------------------------------------------------------------------------

// What a run that goes on must have in common with the one before.
std::string run_settings(const Options& o, const mt::LoadedModel& loaded) {
  mt::JsonWriter json;
  json.begin_object()
      .member("schema", "mt-eval/1")
      .member("task", o.task)
      .member("model", loaded.path)
      .member("adapter", o.adapter)
      .member("device", o.compute.device_name)
      .member("dtype", mt::name_of(loaded.model->table().dtype()))
      .end_object();
  return json.text();
}

std::int64_t length_of(const Options& o, const mt::LoadedModel& loaded) {
  const std::int64_t most = loaded.model->config().max_position_embeddings,
                     length = o.seq_length.value_or(std::min<std::int64_t>(most, 1 << 20));
  if (length > most)
    mt::fail(mt::Exit::bad_config, "--seq-length ", length, ": the model takes at most ", most);
  return length;
}

// TaskModel: what tasks need of a model, made when it is asked for.  Stays in its place.
class TaskModel {
 public:
  TaskModel(const Options& options, const mt::LoadedModel& loaded)
      : options_(options),
        loaded_(loaded),
        about_{.tokenizer = *loaded.tokenizer,
               .vocab_size = loaded.vocab_size(),
               .end_tokens = loaded.end_tokens} {}
  TaskModel(const TaskModel&) = delete;

  mt::EvalModel functions() {
    return {.tokenizer = *loaded_.tokenizer,
            .vocab_size = loaded_.vocab_size(),
            .max_length = length_of(options_, loaded_),
            .score = [this](auto ids, auto nll, auto likeliest) { score(ids, nll, likeliest); },
            .generate =
                [this](auto prompts, const mt::EvalGeneration& generation, std::int64_t repeats) {
                  return generate(prompts, generation, repeats);
                }};
  }

 private:
  void score(std::span<const std::span<const std::int32_t>> ids,
             std::span<const std::span<double>> nll,
             std::span<const std::span<std::uint8_t>> likeliest) {
    if (!scorer_)
      scorer_.emplace(*loaded_.model, mt::ScorePass::Options{.vocab_size = loaded_.vocab_size(),
                                                             .window = length_of(options_, loaded_),
                                                             .batch = options_.micro_batch_size,
                                                             .threads = options_.threads});
    if (likeliest.empty())
      scorer_->score(ids, nll);
    else
      scorer_->score(ids, nll, likeliest);
  }

  std::vector<std::vector<std::string>> generate(std::span<const std::vector<std::int32_t>> prompts,
                                                 const mt::EvalGeneration& generation,
                                                 std::int64_t repeats) {
    if (!engine_)
      engine_.emplace(*loaded_.model, mt::EngineOptions{.vocab_size = loaded_.vocab_size(),
                                                        .limits = {.threads = options_.threads}});
    mt::CompletionOptions asked{.num_tokens = generation.max_gen_toks, .stop = generation.until};
    asked.sampling.temperature = generation.temperature;
    asked.sampling.top_k = generation.top_k;
    asked.sampling.top_p = generation.top_p;
    asked.sampling.seed = static_cast<std::uint64_t>(options_.seed.value_or(1234));
    const std::uint32_t first =
        std::exchange(prompts_, prompts_ + static_cast<std::uint32_t>(std::ssize(prompts)));
    return mt::continue_texts(*engine_, about_, prompts, asked, repeats, first);
  }

  const Options& options_;
  const mt::LoadedModel& loaded_;
  mt::CompletionModel about_;
  std::optional<mt::ScorePass> scorer_;
  std::optional<mt::Engine> engine_;
  std::uint32_t prompts_ = 0;
};

void run_tasks(const Options& o, const mt::LoadedModel& loaded, mt::Progress& progress) {
  const mt::ChatPrompts chat(*loaded.tokenizer, loaded.chat_files, loaded.path, o.chat);
  const mt::TaskSettings settings{
      .asked = o.task,
      .inputs = o.inputs,
      .options = o.tasks,
      .seed = static_cast<std::uint64_t>(o.seed.value_or(1234)),
      .json = o.json,
      .model = loaded.path,
      .run = run_settings(o, loaded),
      .chat = [&](const mt::ChatValue& messages, bool goes_on) {
        return chat.text(
            mt::ChatValue::dict({{"messages", messages}, {"continue_final_message", goes_on}}),
            "--apply-chat-template");
      }};
  TaskModel model(o, loaded);
  mt::run_tasks(mt::TaskPlan(settings), settings, model.functions(), print,
                [&] { progress.add(1); });
  progress.finish();
}

void wikitext103(const Options& o, const mt::LoadedModel& loaded, mt::Progress& progress) {
  const std::int64_t length = length_of(o, loaded),
                     stride = std::min(o.overlapping_eval.value_or(32), length);
  TaskModel model(o, loaded);
  mt::run_wikitext103(o.inputs.front(), model.functions(), {length, stride}, o.json, print);
  progress.finish();
}

void lambada(const Options& o, const mt::LoadedModel& loaded, mt::Progress& progress) {
  TaskModel model(o, loaded);
  mt::run_lambada(o.inputs, model.functions(), o.strict_lambada, o.json, print);
  progress.finish();
}

// --- Verbs ---------------------------------------------------------------------------------------

void run_ls(mt::CommandLine& cl) {
  std::string name;
  cl.describe("list the tasks that --task knows, or show one as a task file",
              "A task's fields are those of the data set that it names.");
  cl.optional_positional("TASK", &name, "the task or the group to show");
  cl.parse();
  if (name.empty()) {
    for (const std::string& task : mt::builtin_task_names()) print(task + "\n");
    for (const std::string& group : mt::builtin_group_names()) print(group + " (group)\n");
    return;
  }
  if (const auto group = mt::builtin_group(name)) {
    for (const std::string& member : group->members) print(member + "\n");
    return;
  }
  const auto yaml = mt::builtin_task(name);
  if (!yaml) mt::fail(mt::Exit::usage, name, ": is no task and no group that mt-eval ls lists");
  print(*yaml);
}

void run_diff(mt::CommandLine& cl) {
  std::string a, b;
  std::optional<double> threshold;
  bool json = false;
  cl.describe("compare two models' answers to the same documents",
              "A and B are lines that mt-eval --json or lm-evaluation-harness wrote; the documents "
              "whose answers became right or wrong are listed, and each metric is tested in "
              "pairs.");
  cl.positional("A", &a, "lines of one model");
  cl.positional("B", &b, "of another");
  cl.option("--threshold", &threshold, "X",
            "exit code 1 where a metric's means differ by more than X", mt::at_least(0));
  cl.flag("--json", &json, "one JSON object");
  cl.parse();
  const mt::Comparison all = mt::compare_items(a, b);
  print(json ? mt::comparison_json(all) : mt::comparison_text(all));
  if (!json && all.only_a + all.only_b > 0)
    cl.log().warn(mt::concat("lines that the other has not: A ", all.only_a, ", B ", all.only_b));
  if (!threshold) return;
  for (const mt::ComparedMetric& m : all.metrics)
    if (std::abs(m.b - m.a) > *threshold)
      mt::fail(mt::Exit::difference, m.task, " ", m.metric, ": the means differ by ",
               std::abs(m.b - m.a), ", more than ", *threshold);
}

// An option of another task would do nothing.
void check_task(const Options& o) {
  const bool samples = o.task == "masked-words" || o.task == "spans";
  const bool tasks = mt::names_tasks(o.task),
             megatron = o.task == "WIKITEXT103" || o.task == "LAMBADA";
  struct Rule {
    bool given, fits;
    const char* name;
  };
  for (const Rule& rule :
       {Rule{o.overlapping_eval.has_value(), o.task == "perplexity" || o.task == "WIKITEXT103",
             "--overlapping-eval"},
        Rule{!o.valid_data.empty(), megatron, "--valid-data"},
        Rule{o.strict_lambada, o.task == "LAMBADA", "--strict-lambada"},
        Rule{o.decoder_seq_length.has_value(), o.task == "spans", "--decoder-seq-length"},
        Rule{o.mask_prob.has_value(), samples, "--mask-prob"},
        Rule{o.short_seq_prob.has_value(), samples, "--short-seq-prob"},
        Rule{o.seed.has_value(), samples || tasks, "--seed"},
        Rule{o.tasks.given() != nullptr, tasks, o.tasks.given()},
        Rule{!o.chat.chat_template.empty(), o.tasks.apply_chat_template, "--chat-template"},
        Rule{!o.chat.kwargs.empty(), o.tasks.apply_chat_template, "--chat-template-kwargs"}})
    if (rule.given && !rule.fits)
      mt::fail(mt::Exit::usage, rule.name, ": has no effect with --task ", o.task);
}

// Exit::usage before a model is loaded.
void check_inputs(const Options& o) {
  static constexpr std::string_view kOwn[] = {"perplexity", "masked-words", "pseudo-perplexity",
                                              "spans",      "WIKITEXT103",  "LAMBADA"};
  if (mt::names_tasks(o.task)) {
    o.tasks.check();
    mt::TaskPlan({.asked = o.task, .inputs = o.inputs, .options = o.tasks});
  } else if (std::ranges::find(kOwn, o.task) == std::end(kOwn)) {
    mt::fail(mt::Exit::usage, "--task ", o.task,
             ": expected perplexity, masked-words, pseudo-perplexity, spans, WIKITEXT103, LAMBADA, "
             "what mt-eval ls lists, or a file NAME.task");
  } else if (o.inputs.empty()) {
    mt::fail(mt::Exit::usage, "INPUT: 0 given, expected at least 1 (see mt-eval --help)");
  } else if (o.task == "WIKITEXT103" && o.inputs.size() > 1) {
    mt::fail(mt::Exit::usage, "INPUT: WIKITEXT103 is of one file");
  }
}

void run(mt::CommandLine& cl) {
  const std::string verb =
      cl.verb({{"ls", "list the tasks"}, {"diff", "compare two models' answers"}});
  if (verb == "ls") return run_ls(cl);
  if (verb == "diff") return run_diff(cl);
  Options options;
  options.add_to(cl);
  cl.parse();
  check_task(options);
  options.inputs.insert(options.inputs.end(), options.valid_data.begin(), options.valid_data.end());
  check_inputs(options);
  for (const std::string& input : options.inputs) mt::refuse_terminal(input);
  options.compute.complete(true);
  options.compute.warn(cl.log());
  struct Task {
    const char* name;
    mt::ModelUse use;
    void (*run)(const Options&, const mt::LoadedModel&, mt::Progress&);
  };
  const Task tasks[] = {{"perplexity",
                         {{mt::ModelFamily::gpt, mt::ModelFamily::mixtral, mt::ModelFamily::mamba},
                          "and --task perplexity is of a GPT"},
                         perplexity},
                        {"masked-words",
                         {{mt::ModelFamily::bert}, "and --task masked-words is of a BERT"},
                         masked_words},
                        {"pseudo-perplexity",
                         {{mt::ModelFamily::bert}, "and --task pseudo-perplexity is of a BERT"},
                         pseudo_perplexity},
                        {"spans", {{mt::ModelFamily::t5}, "and --task spans is of a T5"}, spans},
                        {"WIKITEXT103",
                         {{mt::ModelFamily::gpt, mt::ModelFamily::mixtral, mt::ModelFamily::mamba},
                          "and WIKITEXT103 is of a GPT"},
                         wikitext103},
                        {"LAMBADA",
                         {{mt::ModelFamily::gpt, mt::ModelFamily::mixtral, mt::ModelFamily::mamba},
                          "and LAMBADA is of a GPT"},
                         lambada},
                        {"",
                         {{mt::ModelFamily::gpt, mt::ModelFamily::mixtral, mt::ModelFamily::mamba},
                          "and tasks are of a GPT"},
                         run_tasks}};
  const auto found = std::ranges::find(tasks, options.task, [](const Task& t) { return t.name; });
  const Task& task = found == std::end(tasks) ? *std::prev(std::end(tasks)) : *found;
  const mt::LoadedModel loaded = mt::load_model(options.load, options.tokenizer, options.compute,
                                                task.use, {.adapter = options.adapter});
  const bool lines_are_read = options.json && ::isatty(STDOUT_FILENO) == 1;
  mt::Progress progress(lines_are_read ? cl.log().without_drawing() : cl.log(), "scoring",
                        mt::names_tasks(options.task) ? "documents" : "tokens", 0);
  task.run(options, loaded, progress);
}

}  // namespace

int mt_eval(int argc, char** argv) { return mt::run_command("mt-eval", argc, argv, run); }
