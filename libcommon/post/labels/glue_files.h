// MNLI and QQP as GLUE has them: a file of lines, whose columns tabs separate, the first of them
// naming the columns (Megatron-LM core_v0.12.1, tasks/glue).
//   MNLI   uid, text and second text are columns 0, 8 and 9, the label is the last column; a file
//          of 10 columns is a test's, which has no labels
//   QQP    uid, text, second text and label are columns 0, 3, 4 and 5 of 6; a file of 3 columns is
//          a test's: uid, text, second text
// Texts are cleaned.  What has no labels gets a task's own that stands for nothing.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "post/labels/labelled_set.h"

namespace mt {

class Log;

// The labels of MNLI in their order.
std::vector<std::string> mnli_labels();
// The labels of QQP: 0 and 1.
std::vector<std::string> qqp_labels();

// Exit::bad_data names the line where a column is missing, or a label is none of these; QQP's lines
// of another number of columns, or with an empty text, are passed over with a warning, as Megatron
// does it.
LabelledSet read_mnli(const std::string& path, const Log& log);
LabelledSet read_qqp(const std::string& path, const Log& log);

}  // namespace mt
