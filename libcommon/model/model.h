// Model: what the schedule's executor knows of a model, or of a pipeline rank's chunks of it.
#pragma once

#include <memory>
#include <span>

#include "nn/side_adapters.h"
#include "nn/wire.h"
#include "tensor/fields.h"
#include "tensor/param.h"
#include "tensor/tensor.h"

namespace mt {

class Stream;
struct ModelConfig;
struct Step;
struct RetrievalRules;  // nn/in_batch_retrieval.h
struct Teaching;        // nn/lm_head.h

// Criterion: what is made of the scores that a task's head gives a model's sequences, or of what a
// head of words says of all tokens together.
class Criterion {
 public:
  virtual ~Criterion() = default;
  // Fills the losses and, where there is a weight, which is by how much the objective changes with
  // each, writes the gradient of the scores over them: [sequences, labels], or [tokens], -log p of
  // Field::labels; or [2 tokens], behind these what a value head says.
  virtual void judge(Tensor loss, Tensor scores, const Fields& batch, ConstTensor weight,
                     Stream& stream) const = 0;
};

// Ends: what is wanted of a model's last stage, and where it goes: the losses of all tokens or
// sequences, or what it says of some.  Outputs are of the sum_dtype of the Step's; what is empty is
// not wanted.
struct Ends {
  Tensor loss = {};  // out: each token's loss, [tokens], or the criterion's
  Tensor hits = {};  // out: [tokens], 1 where the label is what is said to be likeliest, else 0
  ConstTensor weight = {};  // by how much the objective changes with each, alike; read in training
  // [learnt] i32: the tokens of which losses and hits are wanted, where these are not of all: they
  // and weights are of these, which say Field::targets; each token is row Field::row_of of them.
  // Without a criterion.
  ConstTensor learnt = {};
  // out: the losses of further tokens (nn/further_tokens.h), [depths tokens], of a model that
  // predicts them; read with Field::further_ids, further_labels and further_weight
  Tensor further_loss = {};

  ConstTensor rows = {};   // [asked] i32: the tokens of which something is asked
  std::int64_t vocab = 0;  // over so many tokens of the vocabulary, the first: padding is no text
  Tensor logits = {};      // out: [asked, vocab], or a task's scores, [sequences, labels]
  // 0: the logits are of the next token; from 1: this layer, of those that predict further tokens,
  // says them, to tokens that the model has not seen yet (FurtherTokens::guess()).
  std::int64_t further = 0;
  // out: [asked], -log p of Field::labels, which is [asked] here
  Tensor scores = {};
  // out: [asked, hidden_size], of the Step's dtype: what the head reads, of this rank's rows where
  // none are asked for, and what a BERT's pooler makes of it.
  Tensor hidden = {}, pooled = {};

  // Where the losses are from: always of a model with a task's head; else the tokens' own are.
  const Criterion* criterion = nullptr;
  // What the words' logits are divided by before losses, with a criterion, or scores are made of
  // them; not 1 of a head with a bias.
  double temperature = 1;
  const Teaching* teaching = nullptr;  // the losses are of what a teacher says, several a token
  // Of a model of two towers: what its losses and hits are, of queries.  Null: the vectors of the
  // Step's tokens are wanted, `pooled`, [asked, embedding_width], as queries or as contexts.
  const RetrievalRules* retrieval = nullptr;
  bool of_contexts = false;
  // Gives what is wanted of a task's scores, over which the gradient goes in training.
  void take_scores(Tensor of_sequences, const Fields& batch, bool training, Stream& stream) const;
};

// A row's initial values: a function of the seed and its name, so they are the same under any
// layout.  `value` is the row's part.
void initialize(const Param& row, Tensor value, std::uint64_t seed, Stream& stream);
// The initial values of the elements in these runs alone, in their places in `value`.
void initialize(const Param& row, std::span<const ElementRun> runs, Tensor value,
                std::uint64_t seed, Stream& stream);

class Model {
 public:
  // What backward needs of a forward, beside the tensors that it points to in `keep`.
  struct Saved {
    virtual ~Saved() = default;
  };
  virtual ~Model() = default;
  Model() = default;
  Model(const Model&) = delete;  // modules point into the table
  Model& operator=(const Model&) = delete;

  virtual const ModelConfig& config() const = 0;
  ParamTable& table() { return table_; }
  const ParamTable& table() const { return table_; }

  // Adapters of its weights, of which sequences of a Pass may have one each; null: there are none.
  const SideAdapters* adapters() const { return adapters_.get(); }
  SideAdapters* adapters() { return adapters_.get(); }
  void set_adapters(SideAdapters adapters) {
    adapters_ = std::make_unique<SideAdapters>(std::move(adapters));
  }

  virtual std::unique_ptr<Saved> make_saved() const = 0;
  // What chunk s.chunk gets from the stage before, or gives to the stage after, for a micro-batch.
  enum class Side : std::uint8_t { before, after };
  virtual WireShapes wire(const Step& s, const Fields& batch, Side side) const = 0;
  // Which of these have gradients, that travel the other way.
  virtual WireShapes gradient_wire(const Step& s, const Fields& batch, Side side) const {
    return wire(s, batch, side);
  }
  // The forward of chunk s.chunk.  in: the stage before's output (unused on the first);  out: what
  // the stage after gets, in `keep` if `saved`, else in `layer` (empty on the last, which fills
  // `ends` instead).
  virtual void forward(Step& s, Wire& out, const Wire& in, const Fields& batch, const Ends& ends,
                       Saved* saved) const = 0;
  // dout: the stage after's gradient (unused on the last);  din: the gradient for the stage before,
  // in `layer` (empty on the first).
  virtual void backward(Step& s, Wire& din, const Wire& dout, const Saved& saved) const = 0;

  // Draws the initial values of the allocated parameters.
  void initialize(std::uint64_t seed, Stream& stream);

 protected:
  ParamTable table_;

 private:
  std::unique_ptr<SideAdapters> adapters_;
};

}  // namespace mt
