// QkClipOptions: whether weights by which scores of attention are too large become smaller
// (train/run/qk_clip.h).
#pragma once

namespace mt {

class CommandLine;
struct ModelConfig;

struct QkClipOptions {
  bool clips = false, logs = false;
  double alpha = 0.5, threshold = 100;

  bool is_on() const { return clips || logs; }
  void add_to(CommandLine& cl);
  // Exit::usage or Exit::bad_config where a model may not have it.  context_ranks: how many share a
  // sequence; shards_values: no rank has whole weights.
  void check(const ModelConfig& model, int context_ranks, bool shards_values) const;
};

}  // namespace mt
