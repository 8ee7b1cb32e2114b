// DrawingPlan: what it takes that a step's texts are written by the model itself, beside the step,
// phase by phase: until each rank has all of the model, whose parts the ranks have; until its part
// of the texts is written; what training's own pass says of them, where it is asked; and the steps
// that learn from them.
//
// A token of each of b texts takes a GPU as long as it takes to read the weights of the matrices
// once, with a quarter of that where their products take longer, and the keys and values that each
// text has by then.  Products of so few rows reach kRateOfFewRows of what large ones do: of an 8B
// on an H200, 256 texts of 256 tokens take 14.3 ms a token, and of 1,536 tokens 26.0
// (mt-performance(7)), which this gives back within 5%.  Of experts so many are read as b tokens
// choose where each is as likely as any other.  Texts are supposed to be as long as they may be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "train/plan/machine.h"
#include "train/run/task.h"

namespace mt {

class JsonWriter;
struct Plan;
struct RunOptions;

struct DrawingPlan {
  DrawnWork work;          // of all ranks
  std::int64_t texts = 0;  // of a rank
  // Of them, that it writes at a time: what its memory has room for, where the plan fits.
  std::int64_t together = 0;
  std::size_t bytes_of_text = 0;  // keys and values of one
  // Of texts that are drawn at once, and of all steps that learn from them.
  double refit = 0, generation = 0, log_probs = 0, training = 0;

  double seconds() const { return refit + generation + log_probs + training; }
  void write(JsonWriter& json) const;  // an object
  std::string text() const;            // a line or two
};

// Bytes of all of the model's values, which a rank has a copy of to draw texts by; 0: it has none.
std::size_t copy_bytes(const RunOptions& options, const Task& task);

// Of a plan that has times.
DrawingPlan plan_drawing(const RunOptions& options, const Task& task, const Plan& plan);

}  // namespace mt
