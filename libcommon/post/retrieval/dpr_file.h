// DprFile: questions with passages that answer them and passages that do not, in the JSON of DPR
// (Karpukhin et al.: arXiv:2004.04906), of which Megatron-LM's supervised retriever reads
// (core_v0.12.1, tasks/orqa/supervised/data.py)
//   [{"question": "...?", "positive_ctxs": [{"title": "...", "text": "..."}, ...],
//     "hard_negative_ctxs": [...], "negative_ctxs": [...], ...}, ...]
// A question mark at a question's end is left out, and of the passages that answer it the first one
// is its own.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace mt {

struct DprPassage {
  std::string title, text;
};

struct DprQuestion {
  std::string question;
  DprPassage own;
  std::vector<DprPassage> hard, others;  // that do not answer it; the hard ones seem to
};

// All questions of a file, plain or packed, of which one is held as JSON at a time.  Exit::bad_data
// for what is no such list, and for an empty one.
std::vector<DprQuestion> read_dpr_file(const std::string& path);

// Calls use(object, number) for each object of a file that is one JSON array, as its text.
void for_array_objects(
    const std::string& path,
    const std::function<void(std::string_view object, std::int64_t number)>& use);

}  // namespace mt
