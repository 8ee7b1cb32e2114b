#include "nn/head_exchange.h"

#include "nn/context_parallel.h"
#include "ops/ops.h"

namespace mt {

// body(i, j): chunk i in the order of sequences and positions is chunk j in that of ranks,
// sequences and positions.
template <class Body>
static void for_chunks(std::int64_t sequences, int ranks, const Body& body) {
  for (int rank = 0; rank < ranks; ++rank)
    for (std::int64_t sequence = 0; sequence < sequences; ++sequence) {
      const auto places = chunk_starts(1, ranks, rank);
      for (std::int64_t half = 0; half < 2; ++half)
        body(2 * ranks * sequence + places[static_cast<std::size_t>(half)],
             2 * (rank * sequences + sequence) + half);
    }
}

template <class AnyTensor>
static AnyTensor chunk_of(const AnyTensor& all, std::int64_t chunks, std::int64_t i) {
  return all.reshape({chunks, all.numel() / chunks}).rows(i, i + 1);
}

void HeadExchange::order(Tensor ordered, ConstTensor by_rank) {
  const std::int64_t chunks = 2 * ranks_.size() * s_.tokens.sequences;
  for_chunks(s_.tokens.sequences, ranks_.size(), [&](std::int64_t i, std::int64_t j) {
    copy(chunk_of(ordered, chunks, i), chunk_of(by_rank, chunks, j), s_.stream);
  });
}

void HeadExchange::part(Tensor by_rank, ConstTensor ordered) {
  const std::int64_t chunks = 2 * ranks_.size() * s_.tokens.sequences;
  for_chunks(s_.tokens.sequences, ranks_.size(), [&](std::int64_t i, std::int64_t j) {
    copy(chunk_of(by_rank, chunks, j), chunk_of(ordered, chunks, i), s_.stream);
  });
}

ConstTensor HeadExchange::all(ConstTensor own) {
  if (ranks_.size() == 1 || !own) return own;
  const Shape shape{ranks_.size() * own.numel()};
  const Tensor ordered = s_.layer.alloc(own.dtype(), shape);
  const ArenaScope scope(s_.layer);
  const Tensor gathered = s_.layer.alloc(own.dtype(), shape);
  ranks_.all_gather(gathered, own).wait();
  order(ordered, gathered);
  return ordered;
}

Tensor HeadExchange::room(Tensor own) {
  return ranks_.size() == 1 || !own ? own : s_.scratch(parts_of(own.shape()));
}

Shape HeadExchange::parts_of(const Shape& own) const {
  return Shape(own.extents().subspan(2))
      .with_front(own[1] / ranks_.size())
      .with_front(own[0] * ranks_.size());
}

ConstTensor HeadExchange::to_heads(ConstTensor own) {
  if (ranks_.size() == 1 || !own) return own;
  const Tensor parts = s_.scratch(parts_of(own.shape()));
  const ArenaScope scope(s_.layer);
  const Tensor arrived = s_.scratch(parts.shape());
  swap_axes(parts, own, s_.tokens.count(), ranks_.size(), s_.stream);
  ranks_.all_to_all(arrived, parts).wait();
  order(parts, arrived);
  return parts;
}

void HeadExchange::to_tokens(Tensor own, ConstTensor parts) {
  if (ranks_.size() == 1 || !own) return;
  const ArenaScope scope(s_.layer);
  const Tensor by_rank = s_.scratch(parts.shape()), arrived = s_.scratch(parts.shape());
  part(by_rank, parts);
  ranks_.all_to_all(arrived, by_rank).wait();
  swap_axes(own, arrived, ranks_.size(), s_.tokens.count(), s_.stream);
}

}  // namespace mt
