#include "nn/further_tokens.h"

#include "nn/kv_cache.h"
#include "ops/latent.h"
#include "ops/ops.h"
#include "ops/past_states.h"

namespace mt {

// Its random numbers are of a stack of their own.
Step FurtherTokens::at(const Step& s, std::size_t depth) const {
  constexpr std::uint32_t kFirst = 128;  // behind those of any model's stacks
  Tokens tokens = s.tokens;
  tokens.stack = kFirst + static_cast<std::uint32_t>(depth);
  return s.over(tokens);
}

// Returns the layer's output behind its norm.
Tensor FurtherTokens::forward(Step& s, const Depth& depth, ConstTensor h, ConstTensor ids,
                              SavedDepth* saved) const {
  const std::int64_t rows = h.shape()[0], width = h.shape()[1];
  const Tensor embedded = s.kept(saved, h.shape()), joined = s.kept(saved, {rows, 2 * width}),
               u = s.kept(saved, h.shape());
  embedding_->forward(s, embedded, ids, {}, saved ? &saved->embedding : nullptr);
  {
    const ArenaScope scope(s.layer);
    const Tensor of_embedding = s.scratch(h.shape()), of_hidden = s.scratch(h.shape());
    depth.of_embedding.forward(s, of_embedding, embedded, saved ? &saved->of_embedding : nullptr);
    depth.of_hidden.forward(s, of_hidden, h, saved ? &saved->of_hidden : nullptr);
    merge_columns(joined, of_embedding, of_hidden, s.stream);
    depth.join.forward(s, u, joined);
  }
  const Tensor y = depth.layer.forward(s, u, saved ? &saved->layer : nullptr),
               normed = s.kept(saved, h.shape());
  depth.final_norm.forward(s, normed, y, saved ? &saved->final_norm : nullptr);
  if (saved) {
    saved->embedded = embedded;
    saved->joined = joined;
    saved->y = y;
    saved->h = normed;
  }
  return normed;
}

void FurtherTokens::forward(Step& s, ConstTensor h0, const Asked& asked, Saved* saved) const {
  const auto depths = static_cast<std::int64_t>(depths_.size()), tokens = s.tokens.count();
  const auto of = [&](const auto& all, std::int64_t depth) {
    return all.reshape({depths, tokens}).rows(depth, depth + 1).reshape({tokens});
  };
  if (saved) {
    saved->h0 = h0;
    saved->depths.resize(depths_.size());
  }
  ConstTensor h = h0;
  for (std::int64_t i = 0; i < depths; ++i) {
    const auto number = static_cast<std::size_t>(i);
    const NamedRange range("further token ", i + 1);
    SavedDepth* const kept = saved ? &saved->depths[number] : nullptr;
    Step of_depth = at(s, number);
    h = forward(of_depth, depths_[number], h, of(asked.ids, i), kept);
    head_->loss(of_depth, of(asked.loss, i), h, of(asked.labels, i),
                kept ? of(asked.weight, i) : ConstTensor(), kept ? &kept->head : nullptr);
  }
}

std::size_t FurtherTokens::followed(const Step& s) const {
  if (s.past.cache == nullptr) return 0;
  const auto is_kept = [&](const Depth& depth) {
    return s.past.cache->layers() > depth.first_layer;
  };
  return static_cast<std::size_t>(std::ranges::count_if(depths_, is_kept));
}

// What one depth makes of the Step's tokens and of what the one before it left in the cache.
Tensor FurtherTokens::go_on(Step& s, std::size_t depth, ConstTensor ids) const {
  const TokenPlaces places{s.tokens.positions, s.past.pages};
  const auto before = [&](std::size_t of) { return s.past.cache->before(depths_[of].first_layer); };
  Step of_depth = at(s, depth);
  const Tensor h = s.scratch({s.tokens.count(), before(depth).shape()[2]}),
               first = s.layer.alloc(DType::i32, {s.tokens.count()});
  states_before(h, first, before(depth), places, static_cast<std::int32_t>(depth + 1), s.stream);
  of_depth.tokens.first_key = first;
  const Tensor made = forward(of_depth, depths_[depth], h, ids, nullptr);
  if (depth + 1 < followed(s)) keep_states(before(depth + 1), made, places, s.stream);
  return made;
}

void FurtherTokens::follow(Step& s, ConstTensor h0, ConstTensor ids) const {
  keep_states(s.past.cache->before(depths_.front().first_layer), h0,
              {s.tokens.positions, s.past.pages}, s.stream);
  for (std::size_t i = 0; i < followed(s); ++i) {
    const ArenaScope scope(s.layer);
    go_on(s, i, ids);
  }
}

// Deeper layers take their keys and values of these tokens, too.
Tensor FurtherTokens::guess(Step& s, std::int64_t depth, ConstTensor ids) const {
  const auto first = static_cast<std::size_t>(depth - 1);
  const Tensor said = go_on(s, first, ids);
  for (std::size_t i = first + 1; i < followed(s); ++i) {
    const ArenaScope scope(s.layer);
    go_on(s, i, ids);
  }
  return said;
}

// dy: the gradient of h_i;  d_h = residual + that of h, the h_{i-1}.
void FurtherTokens::backward(Step& s, const Depth& depth, Tensor d_h, ConstTensor dy,
                             ConstTensor residual, ConstTensor h, const SavedDepth& v) const {
  const ArenaScope scope(s.layer);
  const Tensor of_norm = s.gradient(d_h.shape());
  depth.final_norm.backward(s, of_norm, dy, v.y, v.final_norm);
  const Tensor du = depth.layer.backward(s, of_norm, v.layer),
               d_joined = s.scratch(v.joined.shape()), of_embedding = s.scratch(d_h.shape()),
               of_hidden = s.scratch(d_h.shape()), d_embedded = s.scratch(d_h.shape());
  depth.join.backward(s, d_joined, du, v.joined);
  split_columns(of_embedding, of_hidden, d_joined, s.stream);
  depth.of_hidden.backward(s, d_h, of_hidden, h, v.of_hidden, residual);
  depth.of_embedding.backward(s, d_embedded, of_embedding, v.embedded, v.of_embedding);
  s.complete(depth.rows);
  embedding_->backward(s, d_embedded, v.embedding);
}

Tensor FurtherTokens::backward(Step& s, ConstTensor d_h0, const Saved& saved) const {
  Tensor d_h[2] = {s.scratch(d_h0.shape()), s.scratch(d_h0.shape())};
  ConstTensor dy = saved.depths.back().head.dx;
  for (std::size_t i = depths_.size(); i-- > 0;) {
    Step of_depth = at(s, i);
    ConstTensor said = d_h0, h = saved.h0;  // of the depth before
    if (i > 0) {
      said = saved.depths[i - 1].head.dx;
      h = saved.depths[i - 1].h;
    }
    backward(of_depth, depths_[i], d_h[i % 2], dy, said, h, saved.depths[i]);
    dy = d_h[i % 2];
  }
  return d_h[0];
}

}  // namespace mt
