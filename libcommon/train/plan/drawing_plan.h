// DrawingPlan: what it takes that a step's texts are written by the model itself, beside the step,
// phase by phase: until each rank has what it draws by, of what other ranks have; until its part of
// the texts is written; what training's own pass says of them, where it is asked; and the steps
// that learn from them.
//
// A token of each of b texts takes a GPU as long as it takes to read the weights of the matrices
// once, with a quarter of that where their products take longer, and the keys and values that each
// text has by then.  Products of so few rows reach kRateOfFewRows of what large ones do: of an 8B
// on an H200, 256 texts of 256 tokens take 14.3 ms a token, and of 1,536 tokens 26.0
// (mt-performance(7)), which this gives back within 5%.  Of experts so many are read as b tokens
// choose where each is as likely as any other.  Of ranks that draw together each reads its part of
// all that, and for a token they add up hidden states twice in each layer and once in front, and
// gather the logits.  Texts are supposed to be as long as they may be.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "train/plan/machine.h"
#include "train/run/task.h"

namespace mt {

class JsonWriter;
struct Plan;
struct RunOptions;

struct DrawingPlan {
  DrawnWork work;                 // of all ranks
  std::int64_t texts = 0;         // of those that draw together
  std::int64_t at_once = 0;       // of them: what memory has room for, where the plan fits
  std::size_t bytes_of_text = 0;  // keys and values of one, on a rank
  // Seconds that texts drawn at once take, with all steps that learn from them.
  double refit = 0, generation = 0, log_probs = 0, training = 0;
  int drawers = 0;  // further ranks, which write while the others learn
  std::size_t bytes_of_drawer = 0;

  double seconds() const {
    const double learning = log_probs + training;
    return refit + (drawers > 0 ? std::max(generation, learning) : generation + learning);
  }
  void write(JsonWriter& json) const;  // an object
  std::string text() const;            // a line or two
};

// Bytes of the values that a rank has to draw texts by beside those that it trains; 0: none.
std::size_t copy_bytes(const RunOptions& options, const Task& task);
// Bytes of keys and values, on a rank, of texts that are under way while a step learns, each as
// long as it may be; 0: none.
std::size_t flight_bytes(const RunOptions& options, const Task& task);
// DrawerPlan: what a rank needs that draws for others, in bytes.
struct DrawerPlan {
  std::size_t model = 0;
  std::size_t of_gpu = 0;    // what CUDA and NCCL take
  std::size_t text = 0;      // keys and values of one
  std::int64_t at_once = 0;  // texts that have those: as many as there is room for
  std::size_t pass = 0;      // over a token of each of these: logits, above all

  std::size_t bytes() const {
    return model + of_gpu + static_cast<std::size_t>(at_once) * text + pass;
  }
};
// Plans a drawer on a GPU with so much memory, or on a CPU, which ranks share; nothing where none
// draws for others.
std::optional<DrawerPlan> plan_drawer(const RunOptions& options, const Task& task,
                                      std::size_t gpu_memory);

// Plans the drawing beside a plan that has times.
DrawingPlan plan_drawing(const RunOptions& options, const Task& task, const Plan& plan);

}  // namespace mt
