// A look into checkpoints of any format: what `mt-convert ls`, `cat` and `verify` print.
#pragma once

#include <functional>
#include <string>

#include "base/command.h"

namespace mt {

using PrintLine = std::function<void(const std::string& line)>;

struct InspectOptions {
  std::string path;
  bool json = false;
  PrintLine note = [](const std::string&) {};  // takes what a user should know beside
};

// Every tensor with its type, shape and where its parts lie; with `settings` the model's settings
// instead, a name and a value a line.
void list_tensors(const InspectOptions& options, bool settings, const PrintLine& print);

// Prints what the numbers of one tensor are like and a histogram of them, or, with `values`, all of
// them, the last axis a line.
void print_tensor(const InspectOptions& options, const std::string& key, bool values,
                  const PrintLine& print);

// Checks hashes, sizes and structure of a checkpoint, that the tensors are just the model's, and
// that all numbers are finite.  Damage is Exit::bad_data; returns whether all is finite.
bool verify_checkpoint(const InspectOptions& options, const PrintLine& print, const Log& log = {});

}  // namespace mt
