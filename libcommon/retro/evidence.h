// Evidence: passages of text by which questions are answered, as DPR and Megatron-LM have them
// (core_v0.12.1, megatron/legacy/data/orqa_wiki_dataset.py): a line of tab-separated values for
// each, behind a line that names the columns:
//   id  text  title
// Fields may be quoted.  psgs_w100.tsv is such a file.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace mt {

struct Passage {
  std::int64_t id = 0;
  std::string text, title;
};

// Calls use(passages) for all passages of a file, plain or packed, in their order, at most so many
// at a time.  `poll` is called between lines.  Exit::bad_data for a line that is none, and for an
// empty file.
void for_passages(const std::string& path, std::size_t most, const std::function<void()>& poll,
                  const std::function<void(std::span<const Passage> passages)>& use);

}  // namespace mt
