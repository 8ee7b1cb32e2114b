// RetroEngine: continues texts with a Retro, one at a time, beside neighbours that are the same for
// each chunk of a text: given ones, or those of its last chunk, or of all of a shorter one, that
// are looked up again whenever it has grown by a chunk.  Every token is made by a pass over all of
// the text, which the model reads as one of that length: its chunks end where it ends, so that its
// last token attends to the neighbours, and so do all tokens of whole chunks in front of it.  Once
// the positions are used up the later half of the text goes on alone.  Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "infer/completion.h"
#include "infer/neighbor_source.h"
#include "model/pass.h"

namespace mt {

class RetroEngine {
 public:
  using Retrieved = std::vector<std::vector<std::int64_t>>;  // by each look: chunks, nearest first

  // Neighbours are looked up in `source`, if there is one, where none are given.  Without
  // `retrieves` there are none, and the retriever is off.
  RetroEngine(const Model& model, const CompletionModel& about, int threads, NeighborSource* source,
              bool retrieves);

  std::int64_t max_tokens() const;  // of a text that the model sees
  // The completion is the one that is continued, with these neighbours, as neighbor_input() has
  // them; without any, what is looked up goes to `retrieved`, too.  Exit::bad_data where there are
  // none and no source, or more than the model's, or where the retriever is off.
  void start(Completion& completion, std::span<const std::string> neighbors, Retrieved& retrieved);
  bool busy() const { return completion_ != nullptr; }
  void step();  // a token more

 private:
  PassSize size_of(std::int64_t length) const;
  void look_up();

  const Model& model_;
  const CompletionModel& about_;
  Stream stream_;
  Pass pass_;
  NeighborSource* source_;
  bool retrieves_;
  Completion* completion_ = nullptr;
  Retrieved* retrieved_ = nullptr;       // of what is looked up, else null
  std::vector<std::int32_t> neighbors_;  // [neighbours, retrieved_length]
  std::int64_t first_ = 0;               // of the completion's ids, that is seen
  std::vector<double> logits_;
};

}  // namespace mt
