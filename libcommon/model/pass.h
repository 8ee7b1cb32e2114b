// Pass: one forward of a model over the tokens of some sequences, which keeps nothing for a
// backward: what it says of some of the tokens, the logits of what follows, say.  It
// runs in memory whose size was found on meta; what the host tells it goes to a GPU in one copy;
// and passes that come again are captured, each size of them once.  Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <tuple>

#include "kernels/sample.h"
#include "model/model.h"
#include "model/pass_ranks.h"
#include "tensor/arena.h"
#include "tensor/buffer.h"
#include "tensor/graph.h"
#include "tensor/stream.h"

namespace mt {

class Probe;
struct CachedPast;

struct PassSize {
  std::int64_t sequences = 1, length = 1;  // tokens of each
  std::int64_t rows = 1;                   // tokens of which something is asked
  std::int64_t read = 0;                   // tokens of each text that an encoder reads, if it does
  std::int64_t pages = 0;                  // of a cache, that each sequence may have
  bool types = false;                      // whether tokens have types, and sequences padding
  std::int64_t pixels = 0;                 // of each token, which is one of an image
  // Rows of hidden states that stand in the places of some tokens, and the 32-bit words of each.
  std::int64_t images = 0, image_words = 0;
  DType sums = DType::f32;   // which these are of
  AdaptedRuns adapted = {};  // which of the model's adapters the sequences have

  std::int64_t tokens() const { return sequences * length; }
};

// PassInput: what the host tells a pass, i32 tensors one behind the other in one block.  A pass
// reads those that it is of use for: labels are what is scored, pages, slots and lengths are as in
// CachedPast, choices are for sample().  memory_lengths are as there or, without a past, tell how
// much of `read` is text.
struct PassInput {
  PassSize size;
  Tensor block;                           // all of it
  Tensor choices;                         // [sequences] Choice, as bytes
  Tensor ids, positions;                  // [tokens]
  Tensor rows, labels;                    // [rows]
  Tensor slots, lengths, memory_lengths;  // [sequences]
  Tensor pages;                           // [sequences, pages], if there are
  Tensor read, read_positions;            // [sequences read], if there are
  Tensor types, first_key;                // [tokens], if there are
  Tensor pixels;                          // [tokens pixels] f32, if there are
  Tensor image_rows, image_hidden;        // [tokens], and [images, hidden_size] of the sum_dtype

  static std::int64_t words(const PassSize& size) {
    return size.sequences * (kOfChoice + 3) + (size.types ? 4 : 2) * size.tokens() + 2 * size.rows +
           size.sequences * (size.pages + 2 * size.read) + size.tokens() * size.pixels +
           (size.images > 0 ? size.tokens() + size.images * size.image_words : 0);
  }
  PassInput(const Tensor& all, const PassSize& of);

 private:
  static constexpr std::int64_t kOfChoice = sizeof(Choice) / sizeof(std::int32_t);
  static_assert(sizeof(Choice) % sizeof(std::int32_t) == 0);
};

class Pass {
 public:
  // Logits and scores are over the first `vocab_size` tokens: the padding of the vocabulary is
  // none.
  Pass(const Model& model, Stream& stream, std::int64_t vocab_size, const PassRanks& ranks = {})
      : model_(model), stream_(stream), vocab_size_(vocab_size), ranks_(ranks) {}

  const Model& model() const { return model_; }
  Stream& stream() const { return stream_; }

  // From here on a probe sees what modules read and make, on meta too.  Before reserve().
  void show_to(Probe& probe) { probe_ = &probe; }

  // Makes room for what `passes` does with a pass on meta, and forgets what was captured.
  void reserve(const std::function<void(Pass&)>& passes);
  std::size_t bytes() const { return layer_.memory().bytes(); }  // of that, on the stream's device

  // The input of the next pass, in host memory, for the caller to fill.  What was queued with the
  // input before must be done.
  PassInput input(const PassSize& size);
  // Queues the pass: [rows, vocab_size] of the sum_dtype.  Of a model with a task's head they are
  // that head's scores, and vocab_size is the number of its labels.
  Tensor logits();
  Tensor logits(const CachedPast& past);
  // Queues the pass over a token of each sequence that the model has not seen yet: what those of
  // its layers that predict further tokens say behind it (Ends::further), the largest logits and
  // whose they are, [2, sequences] of the sum_dtype (kernels/top_word.h).
  Tensor guesses(const CachedPast& past, std::int64_t further);
  // Queues the pass: -log p(label | all tokens up to the row) of each row, [rows], where logits are
  // divided by the temperature.
  Tensor scores(double temperature = 1);
  // Queues the pass: the hidden states of the rows, or what a BERT's pooler makes of them, [rows,
  // hidden_size] of the sum_dtype.
  Tensor hidden();
  Tensor pooled();
  // Queues the pass: the vectors that a tower of a model of two makes, [rows, embedding_width].
  Tensor vectors(bool of_contexts);
  // Queues the pass: the rows that a LLaVA makes of tiles' tokens, [rows, hidden_size] of the
  // sum_dtype.
  Tensor image_rows();
  // Queues the pass, of which nothing is asked but what it leaves in the cache.
  void see(const CachedPast& past);
  // Waits for what such a pass returned: in host memory, valid until the next call.
  ConstTensor on_host(const Tensor& result);

  // Queues the logits of an input that lies on the GPU, and what `then` does with them; from the
  // second time that so many sequences come so, with so long a past and their input there, on, as a
  // captured graph.
  void repeat(const PassInput& input, const CachedPast& past,
              const std::function<void(const Tensor& logits)>& then);

 private:
  const PassInput& send();
  Tensor of_rows(Tensor Ends::*wanted, const CachedPast& past, bool of_contexts = false);
  Tensor logits_of(const PassInput& input, const CachedPast& past, std::int64_t further = 0);
  void forward(const PassInput& input, const CachedPast& past, const Ends& ends);

  const Model& model_;
  Stream& stream_;
  std::int64_t vocab_size_;
  PassRanks ranks_;
  Probe* probe_ = nullptr;
  Arena layer_;
  Buffer staging_, results_;       // of a GPU's passes, in pinned host memory
  std::optional<PassInput> next_;  // where the next pass reads its input, in `layer_`
  std::size_t input_bytes_ = 0, result_bytes_ = 0;  // on meta: the most that was asked for
  bool measures_ = false;  // on meta, what a pass needs of which all sequences have an adapter
  // By sequences, longest past, where the input lies and the sequences' adapters.
  Graphs<std::tuple<std::int64_t, std::int64_t, const void*, AdaptedRuns>> graphs_;
};

}  // namespace mt
