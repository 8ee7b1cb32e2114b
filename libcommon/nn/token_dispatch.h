// TokenDispatch: the way of tokens' rows to the experts of this rank, and back.  It is the same in
// forward and backward: there go x, or dy; back come results, or gradients.
//   there   out[row of (t, j)] = x[t], where rows lie by experts, those of one by ranks and tokens
//   back    y[t] = sum over j of out[row of (t, j)]
// Numbers go the same ways, one for each expert of a token: weights there, their gradients back.
//
// Where ranks share experts (nn/expert_parallel.h) all rows come to all of them, or each row
// travels to the ranks of its experts.  x, y: [rows of this rank's, cols].
#pragma once

#include <vector>

#include "nn/step.h"

namespace mt {

class TokenDispatch {
 public:
  struct Saved {
    Tensor place;  // of this rank's rows, or, where all are gathered, of all
    // Where the rows of each of this rank's experts end: [experts] i32, and the same on the host,
    // unless they stay on the device.
    Tensor counted;
    std::vector<std::int64_t> ends = {};
    std::int64_t room = 0;  // rows for which there is memory
    // Where rows travel: how many of each expert rank's experts leave, and of each rank's rows
    // arrive for each of this rank's experts.
    std::vector<std::int64_t> leaving = {}, arriving = {};
    bool on_device() const { return ends.empty(); }
    // How many rows there are, or, where the host does not know, may be.
    std::int64_t rows() const { return on_device() ? room : ends.back(); }
  };
  // The experts of a layer, on all ranks.
  explicit TokenDispatch(std::int64_t experts) : experts_(experts) {}

  // Finds the ways of the rows of these tokens: expert: [rows of this rank's, chosen] i32.  kept:
  // as in Step::kept().  stay: numbers of rows stay on the device, of ranks that share no experts.
  Saved plan(Step& s, ConstTensor expert, const void* kept, bool stay) const;

  void there(Step& s, Tensor out, ConstTensor x, const Saved& v) const;
  void back(Step& s, Tensor y, ConstTensor out, const Saved& v) const;
  // numbers: [rows of this rank's, chosen], of the sum_dtype.
  void numbers_there(Step& s, Tensor out, ConstTensor numbers, const Saved& v) const;
  void numbers_back(Step& s, Tensor numbers, ConstTensor out, const Saved& v) const;

 private:
  std::int64_t experts_here(const Step& s) const;
  void plan_travel(Step& s, Saved& v, const Tensor& ends) const;
  void find_room(const Step& s, Saved& v, std::int64_t rows, std::int64_t chosen) const;
  // place: of rows [rows, chosen]; of numbers, each a row of one, [rows * chosen, 1].
  void move_there(Step& s, Tensor out, ConstTensor x, ConstTensor place, const Saved& v) const;
  void move_back(Step& s, Tensor y, ConstTensor out, ConstTensor place, const Saved& v) const;
  // Rows by the layer's experts, of this rank's tokens, and rows by this rank's experts.
  void send(Step& s, Tensor here, ConstTensor by_experts, const Saved& v) const;
  void send_back(Step& s, Tensor by_experts, ConstTensor here, const Saved& v) const;

  std::int64_t experts_;
};

}  // namespace mt
