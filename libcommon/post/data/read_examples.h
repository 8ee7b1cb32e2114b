// read_examples: the examples of training files, and of Energon folders (data/energon/), made by
// several threads, in the order of their lines, or samples.  What is learnt of a Metadataset's
// folder comes as often as that says (data/energon/metadataset.h); what is held out comes once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/log.h"
#include "post/data/example.h"

namespace mt {

class BadLines;
class ExampleMaker;

struct ReadOptions {
  std::vector<std::string> files;
  std::string energon_part = "train";  // of folders
  std::int64_t longest = 0;            // tokens of an example; 0: any number
  std::int64_t longest_target = 0;     // of a pair, whose source may have `longest`
  // What becomes of a longer one: "drop", "cut" at the end, or "split" into several.
  std::string overlong = "drop";
  // So many examples of a line belong together: they are as long as all of them, and one that is
  // dropped takes the others along.  Each is cut to its share; of a pair, both sides are cut before
  // the tokens that end them.
  std::int64_t together = 1;
  double held_out = 0;    // the share of the lines, by their hash, that is not for training
  std::int64_t most = 0;  // examples that are wanted; 0: all
  int threads = 0;
};

struct ExampleSet {
  std::vector<Example> train, held_out;
  std::int64_t lines = 0, bad = 0;
  std::int64_t too_long = 0;         // were dropped, cut or split
  std::int64_t without_targets = 0;  // were dropped
};

// Lines that cannot be used are `bad`, which the caller commits; of those that have nothing to
// learn the first is named in a warning.  Exit::bad_data where none is left for training.
ExampleSet read_examples(const ReadOptions& options, const ExampleMaker& maker, BadLines& bad,
                         const Log& log);

}  // namespace mt
