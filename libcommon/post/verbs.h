// The verbs of mt-finetune.  Each declares its options, parses the command line, and does its work.
#pragma once

namespace mt {

class CommandLine;

void finetune_sft(CommandLine& cl);
void finetune_dpo(CommandLine& cl);
void finetune_reward(CommandLine& cl);
void finetune_grpo(CommandLine& cl);
void finetune_distill(CommandLine& cl);
void finetune_render(CommandLine& cl);
void finetune_race(CommandLine& cl);
void finetune_mnli(CommandLine& cl);
void finetune_qqp(CommandLine& cl);
void finetune_classify(CommandLine& cl);
void finetune_ict(CommandLine& cl);
void finetune_orqa(CommandLine& cl);
void finetune_ensemble(CommandLine& cl);
void finetune_merge(CommandLine& cl);

}  // namespace mt
