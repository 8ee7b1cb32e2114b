#include "eval/eval_options.h"

#include <algorithm>
#include <iterator>

#include "base/command.h"
#include "base/flag_list.h"

namespace mt {

void EvalOptions::add_to(CommandLine& cl) {
  cl.describe("Measure a trained model.");
  cl.first_run({"--load", "--task", "--seq-length", "--overlapping-eval", "--micro-batch-size",
                "--data", "--num-fewshot", "--limit", "--device", "--json"});
  cl.positionals("INPUT", &inputs,
                 "text, JSON lines, or the prefix of a token file; - is stdin; masked-words and "
                 "spans: prefixes of token files of sentences; tasks: documents, JSON lines",
                 0);
  cl.section("Model");
  cl.option("--load", &load, "PATH", kLoadedModel);
  cl.option("--adapter", &adapter, "DIR", kLoadedAdapter);
  cl.required("--load");
  compute.add_to(cl, kDtypeAsStored);
  compute.add_dequantize_to(cl);
  kept.add_to(cl);
  tokenizer.add_to(cl);
  tokenizer.add_extra_ids_to(cl);
  add_vocab_size_to(cl, tokenizer);
  cl.section("Evaluation");
  cl.option("--task", &task, "TASK",
            "what to measure: perplexity of a GPT, Megatron-LM's WIKITEXT103 or LAMBADA, or tasks "
            "by their names or files, with commas between (mt-eval ls); masked-words or "
            "pseudo-perplexity of a BERT; spans of a T5");
  cl.option("--valid-data", &valid_data, "FILE", "WIKITEXT103, LAMBADA: INPUT");
  cl.flag("--strict-lambada", &strict_lambada, "LAMBADA: the last word, instead of the last token");
  cl.option(
      "--seq-length,--encoder-seq-length", &seq_length, "N",
      "tokens of a window or of a sample; default all that the model takes, 2048 at most if it "
      "is a Mamba, but of other tasks "
      "than perplexity at most 512",
      at_least(1));
  cl.option("--overlapping-eval", &overlapping_eval, "N",
            "tokens by which a window lies behind the one before; default --seq-length: the "
            "windows do not overlap; of WIKITEXT103 32",
            at_least(1));
  cl.option("--decoder-seq-length", &decoder_seq_length, "N",
            "spans: tokens of what is decoded; default all that the model takes, at most 512",
            at_least(2));
  cl.option("--mask-prob", &mask_prob, "P",
            "masked-words, spans: part of the tokens that is masked; 0.15",
            {.low = 0, .high = 1, .above_low = true});
  cl.option("--short-seq-prob", &short_seq_prob, "P",
            "masked-words, spans: part of the samples that is shorter; 0.1", between(0, 1));
  cl.option("--seed", &seed, "N",
            "seed of the samples and masks of masked-words and spans, and of tasks' examples; "
            "1234",
            between(1, 4294967295.0));
  cl.option("--micro-batch-size", &micro_batch_size, "N",
            "windows at a time, of shorter texts more; changes no result, but by rounding on a GPU",
            between(1, 65536));
  cl.option("--threads,-j", &threads, "N", "worker threads of the CPU; 0: one a core", at_least(0));
  cl.flag("--json", &json, "one JSON object a text or document, the summary last");
  tasks.add_to(cl);
  chat.add_to(cl);
  launch.add_to(cl);
  imply(cl, "progress is told when time has gone by", {{"--log-interval", any(kInteger)}});
}

// An option of another task would do nothing.
static void check_task(const EvalOptions& o) {
  const bool samples = o.task == "masked-words" || o.task == "spans";
  const bool tasks = names_tasks(o.task), megatron = o.task == "WIKITEXT103" || o.task == "LAMBADA";
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
        Rule{o.kept.asked(), tasks, "--kv-cache-dtype"},
        Rule{o.tasks.given() != nullptr, tasks, o.tasks.given()},
        Rule{!o.chat.chat_template.empty(), o.tasks.apply_chat_template, "--chat-template"},
        Rule{!o.chat.kwargs.empty(), o.tasks.apply_chat_template, "--chat-template-kwargs"}})
    if (rule.given && !rule.fits)
      fail(Exit::usage, rule.name, ": has no effect with --task ", o.task);
}

static void check_inputs(const EvalOptions& o) {
  static constexpr std::string_view kOwn[] = {"perplexity", "masked-words", "pseudo-perplexity",
                                              "spans",      "WIKITEXT103",  "LAMBADA"};
  if (names_tasks(o.task)) {
    o.tasks.check();
    if (o.tasks.log_tokens && o.tasks.output_dir.empty() && !o.json)
      fail(Exit::usage, "--log-tokens: has no effect without --output-dir or --json");
    const TaskPlan plan({.asked = o.task, .inputs = o.inputs, .options = o.tasks});
    if (o.kept.asked() && std::ranges::none_of(plan.tasks(), [](const TaskPlan::Planned& planned) {
          return planned.task.kind == EvalKind::generate;
        }))
      fail(Exit::usage, "--kv-cache-dtype: has no effect with --task ", o.task,
           ", which has no text continued");
  } else if (std::ranges::find(kOwn, o.task) == std::end(kOwn)) {
    fail(Exit::usage, "--task ", o.task,
         ": expected perplexity, masked-words, pseudo-perplexity, spans, WIKITEXT103, LAMBADA, "
         "what mt-eval ls lists, or a file NAME.task");
  } else if (o.inputs.empty()) {
    fail(Exit::usage, "INPUT: 0 given, expected at least 1 (see mt-eval --help)");
  } else if (o.task == "WIKITEXT103" && o.inputs.size() > 1) {
    fail(Exit::usage, "INPUT: WIKITEXT103 is of one file");
  }
}

void EvalOptions::check() const {
  check_task(*this);
  check_inputs(*this);
  if (std::ranges::count(inputs, "-") > 1)
    fail(Exit::usage, "-: named twice, but stdin can be read once");
}

}  // namespace mt
