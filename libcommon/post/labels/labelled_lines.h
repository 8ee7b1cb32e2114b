// Texts with labels as people have them: JSON lines, or lines whose columns tabs or commas part.
//   {"text": TEXT, "text_b": TEXT, "label": LABEL, "uid": N}    text_b and uid may be missing; uids
//                                                               are then the numbers of lines
//   label   an integer or a text: one of several, where the sorted texts give the numbers
//           a number with a fraction, or a list of numbers: those are learnt (a regression)
//           a list of texts: for each of several whether it holds
// Columns are called by their numbers, from 1, or by the names in the first line: text=2,label=4 or
// text=sentence,label=label.  A field of a .csv file may stand in quotes, a doubled one for itself.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "post/labels/labelled_set.h"

namespace mt {

struct LabelledFile {
  std::string path;
  std::string columns;  // "text=2,text_b=3,label=4"; "": JSON lines
};

// LabelNames: what labels there are, and how they are said.
struct LabelNames {
  LabelKind kind = LabelKind::one;
  std::vector<std::string> names;  // in their order; integers are their own names
  std::int64_t numbers = 0;        // of a sample, where they are learnt themselves
  std::int64_t scores() const {
    return kind == LabelKind::numbers ? numbers : static_cast<std::int64_t>(names.size());
  }
};

// The labels that these files have, which must be of one kind: Exit::bad_data names the line that
// has another.
LabelNames read_label_names(const std::vector<LabelledFile>& files);

// The samples of a file; without a label in any line they have none.  Exit::bad_data names the line
// whose label is none of these.
LabelledSet read_labelled(const LabelledFile& file, const LabelNames& labels);

}  // namespace mt
