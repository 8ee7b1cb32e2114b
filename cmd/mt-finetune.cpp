// mt-finetune: train a model further, for a task.
#include "base/command.h"
#include "cmd/programs.h"
#include "post/verbs.h"

namespace {

struct Task {
  mt::Verb verb;  // and its name in --task of Megatron's tasks/main.py
  void (*run)(mt::CommandLine&);
};
constexpr Task kTasks[] = {
    {{"sft", "learn what the assistant says", "SFT"}, mt::finetune_sft},
    {{"dpo", "learn which of two texts is preferred", "DPO"}, mt::finetune_dpo},
    {{"reward", "learn to say how good a text is", "RM"}, mt::finetune_reward},
    {{"grpo", "learn from texts that were rewarded", "GRPO"}, mt::finetune_grpo},
    {{"distill", "learn what another model says", "KD"}, mt::finetune_distill},
    {{"race", "learn which of four answers is right", "RACE"}, mt::finetune_race},
    {{"mnli", "learn whether a text follows from another", "MNLI"}, mt::finetune_mnli},
    {{"qqp", "learn whether two questions ask the same", "QQP"}, mt::finetune_qqp},
    {{"classify", "learn the labels of texts", "CLASSIFY"}, mt::finetune_classify},
    {{"ict", "learn to find text by one of its sentences"}, mt::finetune_ict},
    {{"orqa", "learn to find passages that answer questions", "RET-FINETUNE-NQ"},
     mt::finetune_orqa},
    {{"ensemble", "put the predictions of several models together"}, mt::finetune_ensemble},
    {{"merge", "put an adapter into the weights of its model"}, mt::finetune_merge},
    {{"render", "print which tokens of each sample are learnt"}, mt::finetune_render},
};

void run(mt::CommandLine& cl) {
  std::vector<mt::Verb> verbs;
  for (const Task& task : kTasks) verbs.push_back(task.verb);
  const std::string verb = cl.verb(verbs, "--task");
  for (const Task& task : kTasks)
    if (verb == task.verb.name) return task.run(cl);
  cl.describe("Train a model further, for a task.",
              "--task NAME of Megatron's tasks/main.py, SFT say, names the verb, too.");
  std::string unknown;
  cl.positional("VERB", &unknown, "what the model is to learn, or to do");
  std::vector<std::string> names;
  for (const mt::Verb& known : verbs) names.emplace_back(known.name);
  try {
    cl.parse();
  } catch (const mt::Error& error) {
    if (error.code() != mt::Exit::usage || *error.what() == '\0') throw;
    std::string all;  // whose options the one is
    for (const std::string& name : names) all += mt::concat(all.empty() ? "" : ", ", name);
    mt::fail(mt::Exit::usage, error.what(), "; a verb stands first: ", all);
  }
  const std::string near = mt::nearest(unknown, names);
  mt::fail(mt::Exit::usage, unknown, ": is no verb",
           near.empty() ? " (see mt-finetune --help)" : "; did you mean " + near + "?");
}

}  // namespace

int mt_finetune(int argc, char** argv) { return mt::run_command("mt-finetune", argc, argv, run); }
