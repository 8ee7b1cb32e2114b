// Distilled: a GPT that learns from another, its teacher, of the same vocabulary.  Each stage of a
// pipeline runs a stage of the teacher, too, beside its own; the teacher's rows stand in the same
// table, frozen, and their names begin with "teacher.".
#pragma once

#include "kernels/distill_loss.h"
#include "kernels/hidden_loss.h"
#include "model/families/gpt.h"

namespace mt {

// Whether a row is a teacher's; and its place in the teacher's own model.
bool is_teachers(const RowPlace& place);
RowPlace own_place(const RowPlace& teachers);

class Distilled final : public Model {
 public:
  struct Rules {
    Distance distance = {};
    HiddenLoss of_hidden = HiddenLoss::none;  // of equal hidden_size
  };
  struct Saved : Model::Saved {
    std::unique_ptr<Model::Saved> of_model;
  };
  // The stages are the model's; the teacher's layers are shared out in proportion.  Both have one
  // padded_vocab_size.
  Distilled(const ModelConfig& model, const ModelConfig& teacher, const Rules& rules,
            const StageRanges& stages, const TensorPart& part);

  const ModelConfig& config() const override { return model_->config(); }
  std::unique_ptr<Model::Saved> make_saved() const override;
  WireShapes wire(const Step& s, const Fields& batch, Side side) const override;
  WireShapes gradient_wire(const Step& s, const Fields& batch, Side side) const override;
  void forward(Step& s, Wire& out, const Wire& in, const Fields& batch, const Ends& ends,
               Model::Saved* saved) const override;
  void backward(Step& s, Wire& din, const Wire& dout, const Model::Saved& saved) const override;

 private:
  bool is_last(const Step& s) const { return stages_.at(static_cast<std::size_t>(s.chunk)).last; }

  Rules rules_;
  StageRanges stages_;
  std::unique_ptr<const Gpt> model_, teacher_;  // whose rows are in this one's table
};

}  // namespace mt
