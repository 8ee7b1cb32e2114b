#include "kernels/experts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/router_row.h"

namespace mt::cpu {
namespace {

// The numbers of the `count` largest of keys[begin, end), the largest first, of equal ones the
// first first.
template <class T>
std::vector<std::int32_t> largest(const std::vector<T>& keys, std::int64_t begin, std::int64_t end,
                                  std::int64_t count) {
  std::vector<std::int32_t> by_key(static_cast<std::size_t>(end - begin));
  std::iota(by_key.begin(), by_key.end(), static_cast<std::int32_t>(begin));
  const auto key = [&](std::int32_t e) { return keys[static_cast<std::size_t>(e)]; };
  std::partial_sort(by_key.begin(), by_key.begin() + count, by_key.end(),
                    [&](std::int32_t a, std::int32_t b) {
                      return key(a) > key(b) || (key(a) == key(b) && a < b);
                    });
  by_key.resize(static_cast<std::size_t>(count));
  return by_key;
}

// Makes the keys of groups that are not kept less than any other.
template <class T>
void limit_groups(std::vector<T>& keys, const RouterRules& s) {
  const std::int64_t size = s.experts / s.groups, best = s.keys_of_group();
  std::vector<T> scores;
  for (std::int64_t group = 0; group < s.groups; ++group) {
    T sum = 0;
    for (const std::int32_t e : largest(keys, group * size, (group + 1) * size, best))
      sum += keys[static_cast<std::size_t>(e)];
    scores.push_back(sum);
  }
  const std::vector<std::int32_t> kept = largest(scores, 0, s.groups, s.kept_groups);
  for (std::int64_t e = 0; e < s.experts; ++e)
    if (std::ranges::find(kept, static_cast<std::int32_t>(e / size)) == kept.end())
      keys[static_cast<std::size_t>(e)] = -std::numeric_limits<T>::infinity();
}

template <class T>
class Router {
 public:
  Router(const T* bias, const RouterRules& shape) : bias_(bias), s_(shape) {}

  void choose(std::int64_t token, std::int32_t* expert, T* weight, const T* logits) const {
    const std::vector<T> scores = scores_of(logits);
    if (!s_.given) find(token, expert, scores);
    weigh(weight, scores, expert);
    if (std::any_of(logits, logits + s_.experts, [](T one) { return std::isnan(one); }))
      std::fill_n(weight, s_.chosen, std::numeric_limits<T>::quiet_NaN());
  }

  // The gradient of the scores' weights, at the logits.
  void backward(T* d_logits, const T* d_weight, const T* logits, const std::int32_t* expert) const {
    const std::vector<T> scores = scores_of(logits);
    std::vector<T> weight(static_cast<std::size_t>(s_.chosen));
    weigh(weight.data(), scores, expert);
    const T scale = static_cast<T>(s_.scale);
    T mean = 0;
    for (std::int64_t j = 0; j < s_.chosen; ++j)
      mean += weight[static_cast<std::size_t>(j)] * d_weight[j];
    std::fill_n(d_logits, s_.experts, T(0));
    if (s_.scores == RouterScores::softmax_of_all)
      for (std::int64_t e = 0; e < s_.experts; ++e)
        d_logits[e] = -mean * scores[static_cast<std::size_t>(e)];
    for (std::int64_t j = 0; j < s_.chosen; ++j) {
      const T w = weight[static_cast<std::size_t>(j)];
      T& out = d_logits[expert[j]];
      if (s_.scores == RouterScores::softmax_of_all)
        out += w * d_weight[j];
      else if (s_.scores == RouterScores::softmax_of_chosen)
        out = w * (d_weight[j] - mean / scale);
      else
        out = w * (d_weight[j] - (s_.chosen > 1 ? mean / scale : 0)) *
              own_slope(logits[expert[j]], s_.scores);
    }
  }

 private:
  // The experts of largest key, ascending.
  void find(std::int64_t token, std::int32_t* expert, std::vector<T> keys) const {
    if (s_.keys_given) keys.assign(bias_ + token * s_.experts, bias_ + (token + 1) * s_.experts);
    for (std::int64_t e = 0; !s_.keys_given && bias_ != nullptr && e < s_.experts; ++e)
      keys[static_cast<std::size_t>(e)] += bias_[e];
    std::ranges::replace_if(
        keys, [](T one) { return std::isnan(one); }, -std::numeric_limits<T>::infinity());
    if (s_.groups > 1) limit_groups(keys, s_);
    std::ranges::copy(largest(keys, 0, s_.experts, s_.chosen), expert);
    std::sort(expert, expert + s_.chosen);
  }

  std::vector<T> scores_of(const T* logits) const {
    std::vector<T> scores(logits, logits + s_.experts);
    if (s_.scores == RouterScores::softmax_of_all) softmax(scores);
    if (scores_each(s_.scores))
      for (T& one : scores) one = own_score(one, s_.scores);
    return scores;
  }

  void weigh(T* weight, const std::vector<T>& scores, const std::int32_t* expert) const {
    std::vector<T> chosen;
    for (std::int64_t j = 0; j < s_.chosen; ++j)
      chosen.push_back(scores[static_cast<std::size_t>(expert[j])]);
    if (s_.scores == RouterScores::softmax_of_chosen) softmax(chosen);
    if (scores_each(s_.scores) && s_.chosen > 1) {
      const T sum =
          std::accumulate(chosen.begin(), chosen.end(), T(0)) + static_cast<T>(kLeastScoreSum);
      for (T& one : chosen) one /= sum;
    }
    for (std::int64_t j = 0; j < s_.chosen; ++j)
      weight[j] = static_cast<T>(s_.scale) * chosen[static_cast<std::size_t>(j)];
  }

  const T* bias_;
  const RouterRules& s_;
};

}  // namespace

template <class T>
void choose(std::int32_t* expert, T* weight, const T* logits, const T* bias, const RouterRules& s) {
  const Router<T> router(bias, s);
  for (std::int64_t t = 0; t < s.tokens; ++t)
    router.choose(t, expert + t * s.chosen, weight + t * s.chosen, logits + t * s.experts);
}

template <class T>
void choose_backward(T* d_logits, const T* d_weight, const T* logits, const std::int32_t* expert,
                     const RouterRules& s) {
  const Router<T> router(nullptr, s);
  for (std::int64_t t = 0; t < s.tokens; ++t)
    router.backward(d_logits + t * s.experts, d_weight + t * s.chosen, logits + t * s.experts,
                    expert + t * s.chosen);
}

void place(std::int32_t* place, std::int32_t* ends, const std::int32_t* expert,
           const PlaceShape& s) {
  const auto is_here = [&](std::int32_t e) { return s.first <= e && e < s.first + s.count; };
  std::fill_n(ends, s.count, 0);
  for (std::int64_t i = 0; i < s.tokens * s.chosen; ++i)
    if (is_here(expert[i])) ++ends[expert[i] - s.first];
  std::exclusive_scan(ends, ends + s.count, ends, 0);
  for (std::int64_t i = 0; i < s.tokens * s.chosen; ++i)
    place[i] = is_here(expert[i]) ? ends[expert[i] - s.first]++ : -1;
}

template <class T>
void spread(T* out, const T* x, const std::int32_t* place, std::int64_t cols, const PlaceShape& s) {
  for (std::int64_t i = 0; i < s.tokens * s.chosen; ++i)
    if (place[i] >= 0) std::copy_n(x + i / s.chosen * cols, cols, out + place[i] * cols);
}

template <class T>
void gather(T* y, const T* x, const std::int32_t* place, std::int64_t cols, const PlaceShape& s) {
  std::fill_n(y, s.tokens * cols, T(0));
  for (std::int64_t i = 0; i < s.tokens * s.chosen; ++i) {
    if (place[i] < 0) continue;
    T* const sum = y + i / s.chosen * cols;
    const T* const one = x + place[i] * cols;
    for (std::int64_t c = 0; c < cols; ++c) sum[c] += one[c];
  }
}

template <class T>
void row_dots(T* dots, const T* a, const T* b, std::int64_t rows, std::int64_t cols) {
  for (std::int64_t row = 0; row < rows; ++row)
    dots[row] = std::inner_product(a + row * cols, a + (row + 1) * cols, b + row * cols, T(0));
}

#define INSTANTIATE(T)                                                                            \
  template void choose(std::int32_t*, T*, const T*, const T*, const RouterRules&);                \
  template void choose_backward(T*, const T*, const T*, const std::int32_t*, const RouterRules&); \
  template void spread(T*, const T*, const std::int32_t*, std::int64_t, const PlaceShape&);       \
  template void gather(T*, const T*, const std::int32_t*, std::int64_t, const PlaceShape&);       \
  template void row_dots(T*, const T*, const T*, std::int64_t, std::int64_t);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace mt::cpu
