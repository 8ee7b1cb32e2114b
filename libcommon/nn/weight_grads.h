// WeightGrads: the queue of weight gradients of linear layers (DESIGN D9).  A record says
//   weight.grad += dy^T x      bias.grad += sum over rows of dy
// and is run at once, or, while deferring, when the schedule says so (in a pipeline's bubble).
// Where the weight says that something may (Param::gradient_replaced), its first record since
// begin() replaces its gradient, and so does one of which ParamSharing::add_to() says so.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "ops/ops.h"
#include "tensor/param.h"
#include "tensor/stream.h"

namespace mt {

struct WeightGrad {
  const Param* weight = nullptr;
  const Param* bias = nullptr;  // or null
  ConstTensor dy, x;            // [tokens, out], [tokens, in]
  bool rows_vary = false;       // as Matmul's
  Matmul::OfGroup group = {};   // likewise
  // Where dy, of the type of sums, and x are cast to a wider one: that (ops/wide_product.h).
  std::optional<DType> cast_to = {};
  // Where the weight's gradient is a product of codes: dy^T and x^T, [out, tokens] and [in,
  // tokens], and what Matmul::codes says of them.
  ConstTensor dy_codes = {}, x_codes = {};
  Matmul::Codes codes = {};
};

class WeightGrads {
 public:
  explicit WeightGrads(bool deferring = false) : deferring_(deferring) {}
  bool deferring() const { return deferring_; }
  void set_deferring(bool deferring) { deferring_ = deferring; }  // while nothing is queued
  void begin() { written_.clear(); }  // before a step's first micro-batch
  // Tells of what is added to from now on; null: nobody.
  void share(ParamSharing* sharing) { sharing_ = sharing; }
  Tensor gradient_of(const Param& row, Stream& stream) const;  // to be added to

  // Rows of the table: those that body() is the first to write since begin(), and to be told of
  // when it is replayed, which may come before what it followed then.
  using Written = std::vector<bool>;
  Written written_by(const std::function<void()>& body);
  void add_written(const Written& rows);

  // Frozen parameters are left alone.  When deferring, dy and x must live until run().
  void push(const WeightGrad& record, Stream& stream) { push(std::span(&record, 1), stream); }
  // Takes the records of weights that are alike, as those of a layer's experts are, which become
  // one product where grouped_matmul() can make it one.
  void push(std::span<const WeightGrad> records, Stream& stream);
  void accumulate(const WeightGrad& record, Stream& stream) {  // at once, even when deferring
    accumulate(std::span(&record, 1), stream);
  }
  std::size_t queued() const { return queue_.size(); }  // pushes
  void run(std::size_t count, Stream& stream);          // the first so many queued, in order
  void run(Stream& stream) { run(queued(), stream); }

 private:
  void accumulate(std::span<const WeightGrad> records, Stream& stream);

  bool deferring_;
  ParamSharing* sharing_ = nullptr;
  Written written_;
  std::deque<std::vector<WeightGrad>> queue_;
};

}  // namespace mt
