// write_qa_prompts: prompts of questions, and their answers, as Megatron-LM core_v0.12.1 puts them
// together to tune and to ask an InstructRetro (tools/retro/sft/dataset_conv.py), as lines of JSON
//   {"prompt":"System: …\n\n…User: …\n\nAssistant:","completion":" answer"}
// that mt-finetune sft learns from and mt-generate goes on from.  A prompt is what the system says,
// the first contexts of the question, cut to what a sequence has room for, and the dialogue, whose
// words depend on the data set's name.
//
// A file is a JSON array, or lines of JSON, of objects with
//   question             and, where qa_type is multi_choice_qa, multichoice_options
//   answers or answer    texts, objects with a text, or one; the first is taken
//   sub-paragraphs       a title and a text, or a text; or sub_paragraph, a text; or
//   ctxs                 objects with title and text, with --use-retrieved-neighbours
//   bert_pretrain_corpus_neighbours   texts, with --bert-retriever-neighbours
//   longform_answer      with --longform-answer, which those without are left out by
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "base/run_context.h"
#include "text/tokenizer.h"

namespace mt {

class CommandLine;

struct QaPromptOptions {
  std::vector<std::string> inputs;
  std::string task;           // the data set's name; empty: that of the file's folder
  std::int64_t contexts = 1;  // of the prompt
  std::int64_t neighbors = 0;
  bool retro = false, short_format = false, retrieved = false, of_bert = false, longform = false,
       inference = false, reuse_top = false;
  std::int64_t seq_length = 0;
  std::optional<std::int64_t> out_seq_length = {};  // absent: 256
  TokenizerOptions tokenizer;
  void add_to(CommandLine& cl);
};

void write_qa_prompts(const QaPromptOptions& options, const RunContext& context, std::ostream& out);

}  // namespace mt
