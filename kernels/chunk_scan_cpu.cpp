// A task for each sequence and group of heads, which have B and C in common.  Chunks are matrix
// products of blocks; the backward makes the states that come into chunks again.
#include "kernels/chunk_scan.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/block_product.h"
#include "kernels/loops.h"
#include "kernels/sigmoid.h"

namespace mt::cpu {
namespace {

template <class T>
struct Inputs {
  const T *mixed, *projected;
  const ScanWeights<T>& weights;
  const std::int32_t* first_key;
  const MambaShape& s;
};

template <class T>
class Matrix : public std::vector<T> {
 public:
  Matrix(std::int64_t rows, std::int64_t cols)
      : std::vector<T>(static_cast<std::size_t>(rows * cols)), cols_(cols) {}
  T* row(std::int64_t i) { return this->data() + i * cols_; }
  const T* row(std::int64_t i) const { return this->data() + i * cols_; }
  Block<T> out() { return {this->data(), cols_}; }
  Block<const T> in(bool transpose = false) const { return {this->data(), cols_, transpose}; }

 private:
  std::int64_t cols_;
};

// Chunk: what all heads of a group have in common, and what is of one of them.
template <class T>
class Chunk {
 public:
  Chunk(const Inputs<T>& in, std::int64_t sequence, std::int64_t group)
      : in_(in),
        s_(in.s),
        sequence_(sequence),
        group_(group),
        first_(static_cast<std::size_t>(s_.chunk)),
        products_(s_.chunk, s_.chunk),
        decayed_(s_.chunk, s_.chunk),
        dt_(static_cast<std::size_t>(s_.chunk)),
        a_(dt_.size()) {}

  void move_to(std::int64_t chunk) {
    begin_ = chunk * s_.chunk;
    size_ = s_.end_of(begin_) - begin_;
    for (std::int64_t i = 0; i < size_; ++i) {
      const std::int64_t key =
          in_.first_key != nullptr ? in_.first_key[sequence_ * s_.length + begin_ + i] : 0;
      first_[static_cast<std::size_t>(i)] =
          key < std::max<std::int64_t>(begin_, 1) ? -1 : key - begin_;
    }
  }
  // Makes C B^T of all pairs.
  void multiply_pairs() {
    block_product<T>(products_.out(), c(), b(true), size_, size_, s_.state_dim, 1, 0);
  }
  void take_head(std::int64_t h) {
    head_ = group_ * s_.group_heads() + h;
    const T decay = -std::exp(in_.weights.a_log[head_]);
    T sum = 0;
    for (std::int64_t i = 0; i < size_; ++i) {
      dt_[static_cast<std::size_t>(i)] = softplus(raw(i) + in_.weights.dt_bias[head_]);
      a_[static_cast<std::size_t>(i)] = sum += dt(i) * decay;
    }
  }

  std::int64_t size() const { return size_; }
  std::int64_t head() const { return head_; }
  bool sees_before(std::int64_t i) const { return first_[static_cast<std::size_t>(i)] < 0; }
  // The first token of i's document that is in the chunk.
  std::int64_t first(std::int64_t i) const {
    return std::max<std::int64_t>(0, first_[static_cast<std::size_t>(i)]);
  }
  T dt(std::int64_t i) const { return dt_[static_cast<std::size_t>(i)]; }
  T raw(std::int64_t i) const {
    return in_.projected[token(i) * s_.projected() + s_.dt_of_projected() + head_];
  }
  T from_before(std::int64_t i) const {  // e^a[i], as far as it sees what was before
    return sees_before(i) ? std::exp(a_[static_cast<std::size_t>(i)]) : T(0);
  }
  T to_end(std::int64_t j) const {  // e^(a_last - a[j]), as far as what is behind sees it
    return j >= first(size_ - 1)
               ? std::exp(a_[static_cast<std::size_t>(size_ - 1)] - a_[static_cast<std::size_t>(j)])
               : T(0);
  }
  T carried() const { return from_before(size_ - 1); }

  std::int64_t token(std::int64_t i) const { return sequence_ * s_.length + begin_ + i; }
  const T* row(std::int64_t i) const { return in_.mixed + token(i) * s_.mixed(); }
  const T* x(std::int64_t i) const { return row(i) + head_ * s_.head_dim; }
  const T* b_row(std::int64_t i) const { return row(i) + s_.b_of_mixed() + group_ * s_.state_dim; }
  const T* c_row(std::int64_t i) const { return row(i) + s_.c_of_mixed() + group_ * s_.state_dim; }
  Block<const T> x_block(bool transpose = false) const { return {x(0), s_.mixed(), transpose}; }
  Block<const T> b(bool transpose = false) const { return {b_row(0), s_.mixed(), transpose}; }
  Block<const T> c() const { return {c_row(0), s_.mixed(), false}; }

  // to[i, j] = of[i, j] e^(a[i] - a[j]), times dt[j] if `by_dt`; zero where i does not see j.
  void decay(Matrix<T>& to, const Matrix<T>& of, bool by_dt) const {
    for (std::int64_t i = 0; i < size_; ++i) {
      T* const row = to.row(i);
      std::fill_n(row, size_, T(0));
      for (std::int64_t j = first(i); j <= i; ++j) {
        const T passed =
            std::exp(a_[static_cast<std::size_t>(i)] - a_[static_cast<std::size_t>(j)]);
        row[j] = of.row(i)[j] * passed * (by_dt ? dt(j) : T(1));
      }
    }
  }
  const Matrix<T>& products() const { return products_; }

  // to[i, :] = factor(i) rows(i)[:]
  template <class Rows, class Factor>
  void scale(Matrix<T>& to, const Rows& rows, const Factor& factor, std::int64_t cols) const {
    for (std::int64_t i = 0; i < size_; ++i) {
      const T by = factor(i);
      const T* const from = rows(i);
      for (std::int64_t c = 0; c < cols; ++c) to.row(i)[c] = by * from[c];
    }
  }

  // v = what the tokens read: [size, head_dim].  state: what comes in.  of_c: scratch.
  void read(Matrix<T>& v, const Matrix<T>& state, Matrix<T>& of_c) {
    const std::int64_t p = s_.head_dim, n = s_.state_dim;
    decay(decayed_, products_, true);
    block_product<T>(v.out(), decayed_.in(), x_block(), size_, p, size_, 1, 0);
    scale(
        of_c, [&](auto i) { return c_row(i); }, [&](auto i) { return from_before(i); }, n);
    block_product<T>(v.out(), of_c.in(), state.in(true), size_, p, n, 1, 1);
  }
  // Makes the state that comes in the one that goes out.  of_x: scratch.
  void pass(Matrix<T>& state, Matrix<T>& of_x) const {
    scale(
        of_x, [&](auto j) { return x(j); }, [&](auto j) { return to_end(j) * dt(j); }, s_.head_dim);
    block_product<T>(state.out(), of_x.in(true), b(), s_.head_dim, s_.state_dim, size_, 1,
                     carried());
  }

 private:
  const Inputs<T>& in_;
  const MambaShape& s_;
  std::int64_t sequence_, group_, begin_ = 0, size_ = 0, head_ = 0;
  // Where in the chunk each token's document begins; -1: it sees all that came before the chunk.
  std::vector<std::int64_t> first_;
  Matrix<T> products_, decayed_;
  std::vector<T> dt_, a_;
};

// Calls task(sequence, group) for all, several at a time.
template <class Task>
void for_groups(const MambaShape& s, const Task& task) {
  parallel_for(s.sequences * s.groups, [&](std::int64_t i) { task(i / s.groups, i % s.groups); });
}

template <class T>
void forward(T* y, const Inputs<T>& in, const ScanEnds<T>& ends, std::int64_t sequence,
             std::int64_t group) {
  const MambaShape& s = in.s;
  Chunk<T> chunk(in, sequence, group);
  Matrix<T> v(s.chunk, s.head_dim), of_c(s.chunk, s.state_dim);
  const std::int64_t heads = s.group_heads();
  std::vector<Matrix<T>> states(static_cast<std::size_t>(heads), {s.head_dim, s.state_dim});
  const auto end_of = [&](auto* all, std::int64_t h) {
    return all + (ends.slots.of(sequence) * s.heads + group * heads + h) * s.state();
  };
  if (ends.before != nullptr && !ends.slots.begins(sequence, s.length))
    for (std::int64_t h = 0; h < heads; ++h)
      std::copy_n(end_of(ends.before, h), s.state(), states[static_cast<std::size_t>(h)].data());
  for (std::int64_t c = 0; c < s.chunks(); ++c) {
    chunk.move_to(c);
    chunk.multiply_pairs();
    for (std::int64_t h = 0; h < heads; ++h) {
      Matrix<T>& state = states[static_cast<std::size_t>(h)];
      chunk.take_head(h);
      chunk.read(v, state, of_c);
      const T skip = in.weights.d[chunk.head()];
      for (std::int64_t i = 0; i < chunk.size(); ++i) {
        T* const out = y + chunk.token(i) * s.inner() + chunk.head() * s.head_dim;
        for (std::int64_t p = 0; p < s.head_dim; ++p) out[p] = v.row(i)[p] + skip * chunk.x(i)[p];
      }
      chunk.pass(state, v);
    }
  }
  if (ends.after == nullptr) return;
  for (std::int64_t h = 0; h < heads; ++h)
    std::ranges::copy(states[static_cast<std::size_t>(h)], end_of(ends.after, h));
}

// Backward: of a group of a sequence.  sums: [3, heads] of the sequence, in the order of
// ScanGradients, and in f64: there are as many terms as tokens.
template <class T>
class Backward {
 public:
  Backward(T* d_mixed, T* d_projected, double* sums, const T* dy, const Inputs<T>& in,
           std::int64_t sequence, std::int64_t group)
      : d_mixed_(d_mixed),
        d_projected_(d_projected),
        sums_(sums),
        dy_(dy),
        in_(in),
        s_(in.s),
        group_(group),
        chunk_(in, sequence, group) {}

  void run() {
    const auto heads = static_cast<std::size_t>(s_.group_heads());
    states_.assign(static_cast<std::size_t>(s_.chunks()),
                   std::vector<Matrix<T>>(heads, {s_.head_dim, s_.state_dim}));
    d_states_.assign(heads, {s_.head_dim, s_.state_dim});
    for (std::int64_t c = 0; c + 1 < s_.chunks(); ++c) {
      chunk_.move_to(c);
      for (std::size_t h = 0; h < heads; ++h) {
        Matrix<T>& next = states_[static_cast<std::size_t>(c + 1)][h];
        next = states_[static_cast<std::size_t>(c)][h];
        chunk_.take_head(static_cast<std::int64_t>(h));
        chunk_.pass(next, of_x_);
      }
    }
    for (std::int64_t c = s_.chunks(); c-- > 0;) {
      chunk_.move_to(c);
      chunk_.multiply_pairs();
      std::ranges::fill(pairs_, T(0));
      for (std::int64_t i = 0; i < chunk_.size(); ++i) {
        std::fill_n(db(i), s_.state_dim, T(0));
        std::fill_n(dc(i), s_.state_dim, T(0));
      }
      for (std::size_t h = 0; h < heads; ++h) {
        chunk_.take_head(static_cast<std::int64_t>(h));
        run_head(states_[static_cast<std::size_t>(c)][h], d_states_[h]);
      }
      const std::int64_t size = chunk_.size(), n = s_.state_dim;
      block_product<T>({dc(0), s_.mixed()}, pairs_.in(), chunk_.b(), size, n, size, 1, 1);
      block_product<T>({db(0), s_.mixed()}, pairs_.in(true), chunk_.c(), size, n, size, 1, 1);
    }
  }

 private:
  const T* dy(std::int64_t i) const {
    return dy_ + chunk_.token(i) * s_.inner() + chunk_.head() * s_.head_dim;
  }
  Block<const T> dy_block(bool transpose = false) const { return {dy(0), s_.inner(), transpose}; }
  T* d_row(std::int64_t i) { return d_mixed_ + chunk_.token(i) * s_.mixed(); }
  T* db(std::int64_t i) { return d_row(i) + s_.b_of_mixed() + group_ * s_.state_dim; }
  T* dc(std::int64_t i) { return d_row(i) + s_.c_of_mixed() + group_ * s_.state_dim; }
  T dot(const T* a, const T* b) const {
    return sum<T>(s_.head_dim, [&](std::int64_t p) { return a[p] * b[p]; });
  }

  // state: what comes into the chunk;  d_state: the gradient of what goes out, and then of that.
  void run_head(const Matrix<T>& state, Matrix<T>& d_state) {
    const std::int64_t size = chunk_.size(), p = s_.head_dim, n = s_.state_dim;
    chunk_.read(read_, state, of_state_);
    // What is sent to tokens behind in the chunk, and then out of it.
    chunk_.decay(decayed_, chunk_.products(), false);
    block_product<T>(sent_.out(), decayed_.in(true), dy_block(), size, p, size, 1, 0);
    chunk_.scale(
        of_state_, [&](auto j) { return chunk_.b_row(j); },
        [&](auto j) { return chunk_.to_end(j); }, n);
    block_product<T>(sent_out_.out(), of_state_.in(), d_state.in(true), size, p, n, 1, 0);
    steps(state, d_state);
    block_product<T>(dy_x_.out(), dy_block(), chunk_.x_block(true), size, size, p, 1, 0);
    chunk_.decay(decayed_, dy_x_, true);
    for (std::size_t i = 0; i < pairs_.size(); ++i) pairs_[i] += decayed_[i];
    chunk_.scale(
        of_x_, [&](auto j) { return chunk_.x(j); },
        [&](auto j) { return chunk_.to_end(j) * chunk_.dt(j); }, p);
    block_product<T>({db(0), s_.mixed()}, of_x_.in(), d_state.in(), size, n, p, 1, 1);
    chunk_.scale(
        of_x_, [&](auto i) { return dy(i); }, [&](auto i) { return chunk_.from_before(i); }, p);
    block_product<T>({dc(0), s_.mixed()}, of_x_.in(), state.in(), size, n, p, 1, 1);
    block_product<T>(d_state.out(), of_x_.in(true), chunk_.c(), p, n, size, 1, chunk_.carried());
  }

  // dx, d_raw, and the sums of the head.
  void steps(const Matrix<T>& state, const Matrix<T>& d_state) {
    const std::int64_t head = chunk_.head(), size = chunk_.size();
    const T a = -std::exp(in_.weights.a_log[head]), skip = in_.weights.d[head];
    double &d_bias = sums_[head], &d_a_log = sums_[s_.heads + head],
           &d_skip = sums_[2 * s_.heads + head];
    T da = chunk_.carried() *
           sum<T>(std::ssize(state), [&](std::int64_t i) { return d_state[i] * state[i]; });
    for (std::int64_t i = 0; i < size; ++i) da += chunk_.dt(i) * dot(chunk_.x(i), sent_out_.row(i));
    for (std::int64_t i = size; i-- > 0;) {
      const T *const x = chunk_.x(i), *const out = dy(i);
      T* const sent = sent_.row(i);
      for (std::int64_t p = 0; p < s_.head_dim; ++p) sent[p] += sent_out_.row(i)[p];
      const T dt = chunk_.dt(i), by_step = dot(x, sent);
      da += dot(out, read_.row(i)) - dt * by_step;
      T* const dx = d_row(i) + head * s_.head_dim;
      for (std::int64_t p = 0; p < s_.head_dim; ++p) dx[p] = dt * sent[p] + skip * out[p];
      const T raw = (a * da + by_step) / (1 + std::exp(-chunk_.raw(i) - in_.weights.dt_bias[head]));
      d_projected_[chunk_.token(i) * s_.projected() + s_.dt_of_projected() + head] = raw;
      d_bias += raw;
      d_a_log += a * dt * da;
      // The norm behind makes dy orthogonal to a group's y, most of which D x may be: these cancel.
      d_skip += sum<double>(s_.head_dim,
                            [&](std::int64_t p) { return static_cast<double>(out[p]) * x[p]; });
    }
  }

  T *d_mixed_, *d_projected_;
  double* sums_;
  const T* dy_;
  const Inputs<T>& in_;
  const MambaShape& s_;
  std::int64_t group_;
  Chunk<T> chunk_;
  std::vector<std::vector<Matrix<T>>> states_;  // that come into each chunk, of each head
  std::vector<Matrix<T>> d_states_;
  Matrix<T> pairs_{s_.chunk, s_.chunk}, decayed_{s_.chunk, s_.chunk}, dy_x_{s_.chunk, s_.chunk},
      read_{s_.chunk, s_.head_dim}, sent_{s_.chunk, s_.head_dim}, sent_out_{s_.chunk, s_.head_dim},
      of_x_{s_.chunk, s_.head_dim}, of_state_{s_.chunk, s_.state_dim};
};

}  // namespace

template <class T>
void chunk_scan_forward(T* y, const T* mixed, const T* projected, const ScanWeights<T>& weights,
                        const std::int32_t* first_key, const ScanEnds<T>& ends,
                        const MambaShape& s) {
  const Inputs<T> in{mixed, projected, weights, first_key, s};
  for_groups(
      s, [&](std::int64_t sequence, std::int64_t group) { forward(y, in, ends, sequence, group); });
}

template <class T>
void chunk_scan_backward(T* d_mixed, T* d_projected, const ScanGradients<T>& gradients, const T* dy,
                         const T* mixed, const T* projected, const ScanWeights<T>& weights,
                         const std::int32_t* first_key, const MambaShape& s) {
  const Inputs<T> in{mixed, projected, weights, first_key, s};
  Matrix<double> sums(s.sequences, 3 * s.heads);
  for_groups(s, [&](std::int64_t sequence, std::int64_t group) {
    Backward<T>(d_mixed, d_projected, sums.row(sequence), dy, in, sequence, group).run();
  });
  for (std::int64_t i = 0; i < s.sequences; ++i)
    for (std::int64_t h = 0; h < s.heads; ++h) {
      gradients.dt_bias[h] += static_cast<T>(sums.row(i)[h]);
      gradients.a_log[h] += static_cast<T>(sums.row(i)[s.heads + h]);
      gradients.d[h] += static_cast<T>(sums.row(i)[2 * s.heads + h]);
    }
}

#define INSTANTIATE(T)                                                                             \
  template void chunk_scan_forward(T*, const T*, const T*, const ScanWeights<T>&,                  \
                                   const std::int32_t*, const ScanEnds<T>&, const MambaShape&);    \
  template void chunk_scan_backward(T*, T*, const ScanGradients<T>&, const T*, const T*, const T*, \
                                    const ScanWeights<T>&, const std::int32_t*,                    \
                                    const MambaShape&);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace mt::cpu
