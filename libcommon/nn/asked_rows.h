// Rows of hidden states that a head is asked of: some tokens of a micro-batch, or one of each of
// its sequences.  Every tensor-parallel rank computes all of them, also where ranks share the rows
// of hidden states.
#pragma once

#include "nn/step.h"

namespace mt {

// The Step of so many such rows.
inline Step step_of_rows(const Step& s, std::int64_t rows) {
  Step of_rows = s;
  of_rows.sequence_parallel = false;
  of_rows.tokens = {.sequences = 1, .length = rows, .positions = {}};
  return of_rows;
}

// picked: [asked, hidden_size];  x: [rows, hidden_size] of hidden states;  asked: [asked] i32,
// tokens of the micro-batch.
void pick_rows(Step& s, Tensor picked, ConstTensor x, ConstTensor asked);
// The gradient of x, zero where nothing is asked of.  row_of: [tokens] i32, which of the picked
// rows each token is; -1: none.
void put_rows_back(Step& s, Tensor dx, ConstTensor d_picked, ConstTensor row_of);

}  // namespace mt
