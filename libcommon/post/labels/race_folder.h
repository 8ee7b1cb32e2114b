// RACE: a folder of .txt files, each of whose lines is a JSON object of an article and its
// questions, each with four options of which one is right (Megatron-LM core_v0.12.1, tasks/race).
//   {"article": TEXT, "questions": [TEXT…], "options": [[A, B, C, D]…], "answers": ["A"…]}
// A question is a sample of four choices: the option put in the place of every `_` of the question,
// or else behind it, cut to kMostOfQuestion tokens, with the article.  Files are read in the order
// of their names, which Megatron leaves to the file system, and questions are numbered.
#pragma once

#include <cstdint>
#include <string>

#include "post/labels/labelled_set.h"

namespace mt {

inline constexpr std::int64_t kChoicesOfRace = 4, kMostOfQuestion = 128;

// Exit::no_input where the folder has no such file; Exit::bad_data names the line that is none.
LabelledSet read_race(const std::string& folder);

}  // namespace mt
