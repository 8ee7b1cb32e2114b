#include "nn/tensor_parallel.h"

#include <utility>
#include <vector>

namespace mt {

// Which of all rows are those of the rank `ahead` after this one: [begin, end).
static std::pair<std::int64_t, std::int64_t> rows_of(const Step& s, int ahead) {
  const int ranks = s.tensor->size();
  const std::int64_t begin = (s.tensor->rank() + ahead + ranks) % ranks * s.rows();
  return {begin, begin + s.rows()};
}

// Multiplies the rows of rows_of() alone.
static void multiply_rows(Step& s, const Matmul& whole, int ahead) {
  const auto [begin, end] = rows_of(s, ahead);
  Matmul some = whole;
  some.out = whole.out.rows(begin, end);
  some.a = whole.a.rows(begin, end);
  if (whole.codes.blocks) some.codes.first_row += begin;
  if (whole.at) some.at = whole.at.rows(begin, end);
  if (whole.residual) some.residual = whole.residual.rows(begin, end);
  matmul(some, s.stream);
}

void gather_and_multiply(Step& s, const Matmul& problem, Tensor all, ConstTensor part) {
  if (!s.tensor_overlap) {
    gather_rows(s, all, part).wait();
    return matmul(problem, s.stream);
  }
  const auto [begin, end] = rows_of(s, 0);
  copy(all.rows(begin, end), part, s.stream);
  std::vector<Pending> arriving(1);  // this rank's own are there
  for (int ahead = 1; ahead < s.tensor->size(); ++ahead)
    arriving.push_back(s.tensor->gather_step(all, ahead));
  for (int behind = 0; behind < s.tensor->size(); ++behind) {
    arriving[static_cast<std::size_t>(behind)].wait();
    multiply_rows(s, problem, -behind);
  }
}

// The others' rows first, which leave while the next are computed; parts of the sum are added in
// the order of ranks.
void multiply_and_sum(Step& s, const Matmul& problem, Tensor sum) {
  if (!s.shares_rows() || !s.tensor_overlap) {
    matmul(problem, s.stream);
    return sum_parts(s, sum, problem.out).wait();
  }
  const int ranks = s.tensor->size(), rank = s.tensor->rank();
  std::vector<Tensor> parts(static_cast<std::size_t>(ranks));
  std::vector<Pending> arriving;
  for (int ahead = 1; ahead < ranks; ++ahead) {
    multiply_rows(s, problem, ahead);
    Tensor& part = parts[static_cast<std::size_t>((rank - ahead + ranks) % ranks)];
    part = s.scratch(sum.shape());
    arriving.push_back(s.tensor->scatter_step(part, problem.out, ahead));
  }
  multiply_rows(s, problem, 0);
  const auto [begin, end] = rows_of(s, 0);
  parts[static_cast<std::size_t>(rank)] = problem.out.rows(begin, end);
  for (Pending& one : arriving) one.wait();
  add(sum, parts[0], parts[1], s.stream);
  for (std::size_t i = 2; i < parts.size(); ++i) add(sum, sum, parts[i], s.stream);
}

}  // namespace mt
