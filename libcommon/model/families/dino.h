// Dino: a Vision Transformer that learns from images alone (Caron et al.: arXiv:2104.14294;
// Megatron-LM core_v0.12.1, megatron/legacy/model/vision/dino.py): what a student says of parts of
// an image is to be what a teacher says of others (kernels/view_loss.h).  The teacher has the
// student's layers and head and learns nothing: it follows the student,
//   teacher <- m teacher + (1 - m) student,   center <- 0.9 center + 0.1 mean of what it says
// All of it lies on one stage; the student's rows are those of a ViT without a head, and its
// head's.  Smaller parts of images have the first of the positions that whole ones have, and the
// student alone passes over some branches of its layers (Branch::Behind::drop_path).
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "model/families/vit.h"
#include "nn/dino_head.h"

namespace mt {

class Group;

// Reads what crop samples bring (data/images/crop_samples.h), and rows and row_of: the first tokens
// of the first two parts of all images, counted among these, and behind them those of the others.
// Ends::loss and weight are of the parts; logits, which an evaluation asks for, are what the
// teacher knows the first two by, [images, 2 hidden_size].
class Dino final : public Model {
 public:
  struct Saved : Model::Saved {
    Tokens wholes, others;
    Vit::Saved of_wholes, of_others;
    Tensor picked;  // [parts, hidden_size]: hidden states of the first tokens
    Norm::Saved norm;
    DinoHead::Saved head;
    ConstTensor row_of;
  };
  Dino(const ModelConfig& config, const StageRanges& ranges, const TensorPart& part = {});
  ~Dino() override;

  const ModelConfig& config() const override { return *config_; }
  std::unique_ptr<Model::Saved> make_saved() const override { return std::make_unique<Saved>(); }
  WireShapes wire(const Step& s, const Fields& batch, Side side) const override;
  void forward(Step& s, Wire& out, const Wire& in, const Fields& batch, const Ends& ends,
               Model::Saved* saved) const override;
  void backward(Step& s, Wire& din, const Wire& dout, const Model::Saved& saved) const override;

  // The rows that follow, each with the one that it follows.
  struct Pair {
    const Param *teacher, *student;
  };
  const std::vector<Pair>& pairs() const { return pairs_; }
  // Behind a step: the center moves by all that the teacher has said of so many parts on these
  // ranks.
  void move_center(Group& data_ranks, std::int64_t parts, Stream& stream);
  // The teacher becomes m teacher + (1 - m) student.
  void follow(const Pair& pair, double momentum, Stream& stream);

 private:
  struct Half {
    std::unique_ptr<const Vit> layers;
    std::optional<Norm> norm;
    std::optional<DinoHead> head;
    RowRange end_rows;
  };
  struct Parts {
    Tokens tokens;
    Tensor pixels, places;
    ConstTensor first_tokens;
  };
  Half add_half(const ModelConfig& layers, const TensorPart& part);
  void pick(Step& s, const Half& half, Tensor picked, const Parts& parts, Vit::Saved* saved) const;
  Tensor said_so_far(Stream& stream) const;
  Tensor teach(Step& s, Parts wholes, const Ends& ends) const;

  std::unique_ptr<const ModelConfig> config_;
  Half student_, teacher_;
  std::vector<Pair> pairs_;
  const Param* center_ = nullptr;
  // A step keeps the sum of what the teacher has said in said_; follow() adds a student's row to
  // the teacher's in moved_.
  mutable Buffer said_, moved_;
};

}  // namespace mt
