// make_energon: an Energon folder of lines of JSON with images, which are files beside the lines:
//   {"image":"a.jpg","caption":"A cat."}                                       CaptioningSample
//   {"image":"a.jpg","context":"What?","answers":["cat","a cat"],
//    "answer_weights"?:[2,1]}; "question" and "answer" are the same            VQASample
//   {"messages":[...],"images":["a.jpg"]}, or any other line with training data  CrudeWebdataset
// A folder has samples of one kind, which its first line tells.  Their keys are numbers in the
// order of the lines.  The same lines make the same bytes, whatever the number of threads.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/run_context.h"
#include "data/energon/energon_folder.h"

namespace mt {

class CommandLine;

struct EnergonOptions {
  std::vector<std::string> inputs;
  std::string output;
  std::string split = "1,0,0", on_error = "stop";
  std::int64_t samples_per_shard = 10'000;
  int workers = 0;

  void add_to(CommandLine& cl);
};

struct EnergonSummary {
  std::int64_t lines = 0, bad_lines = 0, images = 0, shards = 0;
  EnergonType type = EnergonType::crude;
  std::array<std::int64_t, 3> samples{};  // train, val, test
  void write(JsonWriter& json) const;     // schema mt-mm/1
};

EnergonSummary make_energon(const EnergonOptions& options, const RunContext& context);

}  // namespace mt
