// Sequences that a Mamba-2's mixer works on, with random weights, for the tests of its kernels.
#pragma once

#include "kernels/causal_conv.h"
#include "kernels/chunk_scan.h"
#include "tests/kernels/check.h"

namespace mt::check {

template <class T>
struct Mixer {
  MambaShape s;
  std::vector<T> projected, mixed, conv_w, conv_b, dt_bias, a_log, d;
  std::vector<std::int32_t> first_key;  // empty: no documents

  // document: tokens of one; 0: a sequence is one, and there is no first_key.
  explicit Mixer(const MambaShape& shape, std::int64_t document = 0) : s(shape) {
    projected = random<T>(s.tokens() * s.projected(), 11);
    mixed = random<T>(s.tokens() * s.mixed(), 12);
    conv_w = random<T>(s.mixed() * s.taps, 13, -0.5, 0.5);
    conv_b = random<T>(s.mixed(), 14, -0.5, 0.5);
    dt_bias = random<T>(s.heads, 15, -3, 0);
    a_log = random<T>(s.heads, 16, 0, 1.5);
    d = random<T>(s.heads, 17, 0.5, 1.5);
    for (std::int64_t i = 0; document > 0 && i < s.tokens(); ++i)
      first_key.push_back(static_cast<std::int32_t>(i % s.length / document * document));
  }
  template <class U>
  void assign(const Mixer<U>& from) {
    projected = convert<T>(from.projected);
    mixed = convert<T>(from.mixed);
    conv_w = convert<T>(from.conv_w);
    conv_b = convert<T>(from.conv_b);
    dt_bias = convert<T>(from.dt_bias);
    a_log = convert<T>(from.a_log);
    d = convert<T>(from.d);
    first_key = from.first_key;
  }

  const std::int32_t* keys() const { return first_key.empty() ? nullptr : first_key.data(); }
  ScanWeights<T> weights() const { return {dt_bias.data(), a_log.data(), d.data()}; }

  std::vector<T> convolve(T* cache = nullptr, const CacheSlots& slots = {}) const {
    std::vector<T> to(static_cast<std::size_t>(s.tokens() * s.mixed()));
    cpu::causal_conv_forward(to.data(), cache, projected.data(), conv_w.data(), conv_b.data(),
                             keys(), slots, s);
    return to;
  }
  std::vector<T> scan(const ScanEnds<T>& ends = {}) const {
    std::vector<T> y(static_cast<std::size_t>(s.tokens() * s.inner()));
    cpu::chunk_scan_forward(y.data(), mixed.data(), projected.data(), weights(), keys(), ends, s);
    return y;
  }
  struct Gradients {
    std::vector<T> mixed, projected, dt_bias, a_log, d;
  };
  // before: what gradients of weights are added to.
  Gradients scan_backward(const std::vector<T>& dy, T before) const {
    Gradients g{std::vector<T>(mixed.size()), std::vector<T>(projected.size()),
                std::vector<T>(d.size(), before), std::vector<T>(d.size(), before),
                std::vector<T>(d.size(), before)};
    cpu::chunk_scan_backward(g.mixed.data(), g.projected.data(),
                             ScanGradients<T>{g.dt_bias.data(), g.a_log.data(), g.d.data()},
                             dy.data(), mixed.data(), projected.data(), weights(), keys(), s);
    return g;
  }

  Mixer with_mixed(const std::vector<T>& other) const {
    Mixer m = *this;
    m.mixed = other;
    return m;
  }
  // Some tokens of each sequence, from `begin` on.
  std::vector<T> rows_of(const std::vector<T>& all, std::int64_t begin, std::int64_t length) const {
    const std::int64_t width = std::ssize(all) / s.tokens();
    std::vector<T> some;
    for (std::int64_t i = 0; i < s.sequences; ++i) {
      const auto first = all.begin() + (i * s.length + begin) * width;
      some.insert(some.end(), first, first + length * width);
    }
    return some;
  }
  Mixer piece(std::int64_t begin, std::int64_t length) const {
    Mixer m = *this;
    m.projected = rows_of(projected, begin, length);
    m.mixed = rows_of(mixed, begin, length);
    m.s.length = length;
    return m;
  }
};

}  // namespace mt::check
