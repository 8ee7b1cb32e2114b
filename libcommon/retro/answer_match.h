// Whether a passage has an answer to a question (Megatron-LM core_v0.12.1,
// tasks/orqa/unsupervised/qa_utils.py, which has it of DPR).
//   string   the answer's words stand in the passage one behind the other: runs of letters, numbers
//            and marks, and any other character that is neither a separator nor a control; all
//            decomposed (NFD) and in lower case, of which a final sigma is a sigma
//   regex    the answer, an expression of Python's re, decomposed, matches somewhere in the
//            passage, whatever the case
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/python_regex.h"

namespace mt {

// The words of a text.
std::vector<std::string> answer_words(std::string_view text);

class AnswerMatch {
 public:
  // Looks for any of these answers.  Exit::bad_config for one that is no expression, or, as words,
  // empty, which all passages would have.
  AnswerMatch(std::span<const std::string> answers, bool as_regex);

  bool operator()(std::string_view passage) const;

 private:
  std::vector<std::vector<std::string>> words_;
  std::vector<PythonRegex> expressions_;
};

// The texts of a list of Python's, as ['a', "b's"].  Exit::bad_data, behind `place`, for what is
// none; nothing is evaluated.
std::vector<std::string> python_texts(std::string_view list, const std::string& place);

}  // namespace mt
