// mt-eval: measure a trained model.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <iterator>

#include "base/command.h"
#include "base/input/line_reader.h"
#include "base/print.h"
#include "base/progress.h"
#include "cmd/programs.h"
#include "eval/answer_scores.h"
#include "eval/measures.h"
#include "eval/tasks/builtin_tasks.h"
#include "eval/tasks/compare.h"
#include "model/config/model_config.h"
#include "retro/question_hits.h"

namespace {

void run_ls(mt::CommandLine& cl) {
  std::string name;
  cl.describe("list the tasks that --task knows, or show one as a task file",
              "A task's fields are those of the data set that it names.");
  cl.optional_positional("TASK", &name, "the task or the group to show");
  cl.parse();
  if (name.empty()) {
    for (const std::string& task : mt::builtin_task_names()) mt::print_now(task + "\n");
    for (const std::string& group : mt::builtin_group_names()) mt::print_now(group + " (group)\n");
    return;
  }
  if (const auto group = mt::builtin_group(name)) {
    for (const std::string& member : group->members) mt::print_now(member + "\n");
    return;
  }
  const auto yaml = mt::builtin_task(name);
  if (!yaml) mt::fail(mt::Exit::usage, name, ": is no task and no group that mt-eval ls lists");
  mt::print_now(*yaml);
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
  mt::print_now(json ? mt::comparison_json(all) : mt::comparison_text(all));
  if (!json && all.only_a + all.only_b > 0)
    cl.log().warn(mt::concat("lines that the other has not: A ", all.only_a, ", B ", all.only_b));
  if (!threshold) return;
  for (const mt::ComparedMetric& m : all.metrics)
    if (std::abs(m.b - m.a) > *threshold)
      mt::fail(mt::Exit::difference, m.task, " ", m.metric, ": the means differ by ",
               std::abs(m.b - m.a), ", more than ", *threshold);
}

void run_retrieval(mt::CommandLine& cl) {
  mt::QuestionHitsOptions options;
  cl.describe("count the questions that have an answer in what is retrieved for them",
              "Takes the flags of Megatron's tasks/main.py --task RETRIEVER-EVAL and "
              "ICT-ZEROSHOT-NQ.");
  options.add_to(cl);
  cl.parse();
  options.check();
  options.towers.compute.complete(true);
  options.towers.compute.warn(cl.log());
  mt::run_until_signal(
      cl, [&](const mt::RunContext& context) { mt::question_hits(options, context, std::cout); });
}

void run_answers(mt::CommandLine& cl) {
  mt::AnswerScoresOptions options;
  cl.describe("score answers to questions: exact match and F1",
              "As Megatron's tools/retro/text_generation/evaluate.py.");
  options.add_to(cl);
  cl.parse();
  mt::refuse_terminal(options.answers);
  mt::score_answers(options, std::cout);
}

void run(mt::CommandLine& cl) {
  const std::string verb =
      cl.verb({{"ls", "list the tasks"},
               {"diff", "compare two models' answers"},
               {"retrieval", "count the questions whose answers are retrieved"},
               {"answers", "score answers to questions"}});
  if (verb == "answers") return run_answers(cl);
  if (verb == "retrieval") return run_retrieval(cl);
  if (verb == "ls") return run_ls(cl);
  if (verb == "diff") return run_diff(cl);
  mt::EvalOptions options;
  options.add_to(cl);
  cl.parse();
  options.inputs.insert(options.inputs.end(), options.valid_data.begin(), options.valid_data.end());
  options.check();
  for (const std::string& input : options.inputs) mt::refuse_terminal(input);
  options.compute.complete(true);
  options.compute.warn(cl.log());
  const std::vector<mt::ModelFamily> decoders = {mt::ModelFamily::gpt, mt::ModelFamily::mixtral,
                                                 mt::ModelFamily::mamba};
  std::vector<mt::ModelFamily> askable = decoders;
  askable.push_back(mt::ModelFamily::llava);
  struct Task {
    const char* name;
    mt::ModelUse use;
    void (*run)(const mt::EvalOptions&, const mt::LoadedModel&, mt::Progress&);
  };
  const Task tasks[] = {
      {"perplexity", {decoders, "and --task perplexity is of a GPT"}, mt::measure_perplexity},
      {"masked-words",
       {{mt::ModelFamily::bert}, "and --task masked-words is of a BERT"},
       mt::measure_masked_words},
      {"pseudo-perplexity",
       {{mt::ModelFamily::bert}, "and --task pseudo-perplexity is of a BERT"},
       mt::measure_pseudo_perplexity},
      {"spans", {{mt::ModelFamily::t5}, "and --task spans is of a T5"}, mt::measure_spans},
      {"WIKITEXT103", {decoders, "and WIKITEXT103 is of a GPT"}, mt::measure_wikitext103},
      {"LAMBADA", {decoders, "and LAMBADA is of a GPT"}, mt::measure_lambada},
      {"", {askable, "and tasks are of a GPT or a LLaVA"}, mt::measure_tasks}};
  const auto found = std::ranges::find(tasks, options.task, [](const Task& t) { return t.name; });
  const Task& task = found == std::end(tasks) ? *std::prev(std::end(tasks)) : *found;
  if (options.launch.takes_checkpoints()) mt::leave_vocab_size_unchecked(options.tokenizer);
  const mt::LoadedModel loaded = mt::load_model(options.load, options.tokenizer, options.compute,
                                                task.use, {.adapter = options.adapter});
  loaded.tell([&](const std::string& note) { cl.log().warn(note); });
  options.launch.check(loaded.model->config(), options.load);
  const bool lines_are_read = options.json && ::isatty(STDOUT_FILENO) == 1;
  mt::Progress progress(lines_are_read ? cl.log().without_drawing() : cl.log(), "scoring",
                        mt::names_tasks(options.task) ? "documents" : "tokens", 0);
  task.run(options, loaded, progress);
}

}  // namespace

int mt_eval(int argc, char** argv) { return mt::run_command("mt-eval", argc, argv, run); }
