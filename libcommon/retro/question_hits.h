// question_hits: how many questions have an answer in the passages whose vectors are nearest to
// theirs, as Megatron-LM's tasks/main.py counts it (core_v0.12.1, --task RETRIEVER-EVAL and
// ICT-ZEROSHOT-NQ).  Products are exact, over all passages.
//
// A file of questions has a line for each, tab-separated: the question, and its answers as Python
// writes a list of texts; fields may be quoted.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "base/run_context.h"
#include "retro/embed_evidence.h"

namespace mt {

class CommandLine;

struct QuestionHitsOptions {
  TowerUseOptions towers;
  std::string dev, test;  // files of questions; either may be missing
  std::string evidence, embeddings, match = "string";
  std::int64_t count = 100;             // passages that are retrieved for each
  std::vector<std::int64_t> tops = {};  // of which the share is told
  bool json = false;
  void add_to(CommandLine& cl);
  void check() const;  // after parsing
};

// A number from 0 to 1 as Python prints it: its shortest digits, with an exponent below 0.0001.
std::string python_share(double x);

// Prints what Megatron-LM prints of each set, or a line of JSON:
//   {"schema":"mt-retrieval/1","set":"DEV","questions":2,"hits":[1,2],"top":{"1":50.0}}
// `hits` counts the questions that have an answer among the first 1, 2, ... passages.
void question_hits(const QuestionHitsOptions& options, const RunContext& context,
                   std::ostream& out);

}  // namespace mt
