// Lines of texts that people have judged, as people have them:
//   preference  {"prompt"?,"chosen","rejected","margin"?}, all texts or all lists of messages;
//               without a prompt, what both begin with is it
//   ranked      {"context":[message…],"completions":[{"rank","completion":[message…]}×2]}
//   judged      {"prompt","completion","label"}: whether it is wanted, true or false
#pragma once

#include <string_view>
#include <vector>

#include "post/data/line_kinds.h"

namespace mt {

// Judged: which texts are wanted of a line.
enum class Judged : std::uint8_t {
  no,      // it is no line of judged texts
  pairs,   // the one that is preferred, then the other
  single,  // each by itself, of pairs both
};

struct JudgedText {
  TrainingLine text;  // its completion is learnt
  double value = 0;   // of the first of a pair its margin; of a single one 1 where it is wanted
};

// Throws Exit::bad_data, beginning with `place`, where the line has no two sides, or no judgement.
std::vector<JudgedText> read_judged_line(const ChatValue& line, Judged judged,
                                         std::string_view place);

}  // namespace mt
