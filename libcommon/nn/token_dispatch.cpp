#include "nn/token_dispatch.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "nn/expert_parallel.h"
#include "ops/ops.h"

namespace mt {
namespace {

bool is_shared(const Step& s) { return s.experts != nullptr && s.experts->is_shared(); }
bool travels(const Step& s) { return is_shared(s) && !s.experts->gathers(); }
bool gathers(const Step& s) { return is_shared(s) && s.experts->gathers(); }

std::vector<std::int64_t> on_host(Step& s, ConstTensor numbers) {
  std::vector<std::int32_t> here(static_cast<std::size_t>(numbers.numel()));
  transfer({here.data(), DType::i32, numbers.shape()}, numbers, s.stream);
  s.stream.synchronize();
  s.stream.note_host_read();
  return {here.begin(), here.end()};
}

// The rows of all ranks, one after another.
Tensor all_rows(Step& s, ConstTensor rows) {
  Group& ranks = s.experts->ranks();
  const Tensor all = s.layer.alloc(rows.dtype(), {rows.shape()[0] * ranks.size(), rows.shape()[1]});
  ranks.all_gather(all, rows).wait();
  return all;
}

// As many as there are in each part.
std::vector<std::int64_t> sums_of(const std::vector<std::int64_t>& counts, std::size_t part) {
  std::vector<std::int64_t> sums;
  for (std::size_t i = 0; i < counts.size(); i += part)
    sums.push_back(std::accumulate(counts.begin() + static_cast<std::ptrdiff_t>(i),
                                   counts.begin() + static_cast<std::ptrdiff_t>(i + part),
                                   std::int64_t{0}));
  return sums;
}

// Blocks of rows: each rank's for each expert.  They lie by ranks, and by experts of each, from
// `start` on, and by experts, and by ranks of each, from `row` on.  body(start, row, count, expert)
template <class Body>
void for_blocks(const std::vector<std::int64_t>& counts, std::size_t experts, const Body& body) {
  std::vector<std::int64_t> starts(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), starts.begin(), std::int64_t{0});
  std::int64_t row = 0;
  for (std::size_t expert = 0; expert < experts; ++expert)
    for (std::size_t i = expert; i < counts.size(); i += experts) {
      body(starts[i], row, counts[i], expert);
      row += counts[i];
    }
}

}  // namespace

std::int64_t TokenDispatch::experts_here(const Step& s) const {
  return s.experts == nullptr ? experts_ : experts_ / s.experts->expert_ranks();
}

// Where nothing is computed, all experts have as many rows.
void TokenDispatch::find_room(const Step& s, Saved& v, std::int64_t rows,
                              std::int64_t chosen) const {
  const std::int64_t ranks = s.experts == nullptr ? 1 : s.experts->expert_ranks(),
                     here = experts_here(s), all = rows * chosen;
  const auto factor = s.experts == nullptr ? std::nullopt : s.experts->buffer_factor();
  v.room = rows * std::min(chosen, here);
  if (factor)
    v.room =
        std::min(v.room, static_cast<std::int64_t>(std::ceil(*factor * static_cast<double>(all) /
                                                             static_cast<double>(ranks))));
  if (s.stream.device() == Device::meta) {
    const std::int64_t balanced = std::min(v.room, all / ranks);
    for (std::int64_t e = 0; e < here; ++e) v.ends.push_back(balanced * (e + 1) / here);
    return;
  }
  if (v.on_device()) return;
  if (v.rows() > v.room)
    fail(Exit::bad_config, "--moe-buffer-factor ", *factor, ": the router sent ", v.rows(),
         " rows to one rank's experts, which have room for ", v.room);
  v.room = v.rows();
}

// The counts of all ranks say what leaves and what arrives.
void TokenDispatch::plan_travel(Step& s, Saved& v, const Tensor& ends) const {
  const ExpertParallel& grid = *s.experts;
  const auto ranks = static_cast<std::size_t>(grid.ranks().size()),
             experts = static_cast<std::size_t>(experts_),
             here = static_cast<std::size_t>(experts_here(s)),
             first = here * static_cast<std::size_t>(grid.expert_rank()),
             rank = static_cast<std::size_t>(grid.ranks().rank());
  const Tensor of_all = all_rows(s, ends.reshape({1, experts_}));
  if (s.stream.device() == Device::meta) {  // as many everywhere
    const auto slots = static_cast<std::size_t>(v.place.numel());
    v.leaving.assign(experts / here, static_cast<std::int64_t>(slots * here / experts));
    v.arriving.assign(ranks * here, static_cast<std::int64_t>(slots / experts));
    return;
  }
  const std::vector<std::int64_t> all = on_host(s, of_all);
  const auto count = [&](std::size_t of, std::size_t expert) {
    const std::size_t i = of * experts + expert;
    return all[i] - (expert == 0 ? 0 : all[i - 1]);
  };
  for (std::size_t expert = 0; expert < experts; ++expert) v.leaving.push_back(count(rank, expert));
  v.leaving = sums_of(v.leaving, here);
  for (std::size_t of = 0; of < ranks; ++of)
    for (std::size_t expert = 0; expert < here; ++expert)
      v.arriving.push_back(count(of, first + expert));
  v.ends.assign(here, 0);
  for_blocks(v.arriving, here,
             [&](std::int64_t, std::int64_t row, std::int64_t rows, std::size_t expert) {
               v.ends[expert] = row + rows;
             });
}

TokenDispatch::Saved TokenDispatch::plan(Step& s, ConstTensor expert, const void* kept,
                                         bool stay) const {
  Saved v;
  const bool on_meta = s.stream.device() == Device::meta;
  const std::int64_t here = experts_here(s), chosen = expert.shape()[1],
                     ranks = s.experts == nullptr ? 1 : s.experts->ranks().size();
  if (gathers(s)) {
    v.place = s.kept(kept, {expert.shape()[0] * ranks, chosen}, DType::i32);
    v.counted = s.kept(kept, {here}, DType::i32);
    place_rows(v.place, v.counted, all_rows(s, expert), here * s.experts->expert_rank(), s.stream);
    if (!on_meta) v.ends = on_host(s, v.counted);
  } else {
    v.place = s.kept(kept, expert.shape(), DType::i32);
    v.counted = s.kept(kept, {experts_}, DType::i32);
    place_rows(v.place, v.counted, expert, 0, s.stream);
    if (travels(s))
      plan_travel(s, v, v.counted);
    else if (!on_meta && !stay)
      v.ends = on_host(s, v.counted);
  }
  find_room(s, v, expert.shape()[0] * ranks, chosen);
  return v;
}

void TokenDispatch::send(Step& s, Tensor here, ConstTensor by_experts, const Saved& v) const {
  const ArenaScope scope(s.layer);
  const ExpertParallel& grid = *s.experts;
  const auto experts = static_cast<std::size_t>(experts_here(s));
  const Tensor by_ranks = s.layer.alloc(here.dtype(), {v.room, here.shape()[1]});
  std::vector<Tensor> arriving;
  std::vector<ConstTensor> leaving;
  std::int64_t at = 0;
  for (const std::int64_t rows : sums_of(v.arriving, experts)) {
    arriving.push_back(by_ranks.rows(at, at + rows));
    at += rows;
  }
  at = 0;
  for (const std::int64_t rows : v.leaving) {
    leaving.insert(leaving.end(), static_cast<std::size_t>(grid.tensor_ranks()),
                   by_experts.rows(at, at + rows));
    at += rows;
  }
  grid.ranks().exchange(arriving, leaving).wait();
  for_blocks(v.arriving, experts,
             [&](std::int64_t start, std::int64_t row, std::int64_t rows, std::size_t) {
               if (rows > 0)
                 copy(here.rows(row, row + rows), by_ranks.rows(start, start + rows), s.stream);
             });
}

// Each of an expert's ranks has a part of the sum.
void TokenDispatch::send_back(Step& s, Tensor by_experts, ConstTensor here, const Saved& v) const {
  const ArenaScope scope(s.layer);
  const ExpertParallel& grid = *s.experts;
  const auto experts = static_cast<std::size_t>(experts_here(s));
  const Tensor by_ranks = s.layer.alloc(here.dtype(), {v.room, here.shape()[1]});
  for_blocks(v.arriving, experts,
             [&](std::int64_t start, std::int64_t row, std::int64_t rows, std::size_t) {
               if (rows > 0)
                 copy(by_ranks.rows(start, start + rows), here.rows(row, row + rows), s.stream);
             });
  std::vector<Tensor> parts{by_experts}, arriving;
  while (std::ssize(parts) < grid.tensor_ranks())
    parts.push_back(s.layer.alloc(by_experts.dtype(), by_experts.shape()));
  std::vector<ConstTensor> leaving;
  std::int64_t at = 0;
  for (const std::int64_t rows : sums_of(v.arriving, experts)) {
    leaving.push_back(by_ranks.rows(at, at + rows));
    at += rows;
  }
  at = 0;
  for (const std::int64_t rows : v.leaving) {
    for (const Tensor& part : parts) arriving.push_back(part.rows(at, at + rows));
    at += rows;
  }
  grid.ranks().exchange(arriving, leaving).wait();
  for (std::size_t i = 1; i < parts.size(); ++i) add(by_experts, by_experts, parts[i], s.stream);
}

void TokenDispatch::move_there(Step& s, Tensor out, ConstTensor x, ConstTensor place,
                               const Saved& v) const {
  const ArenaScope scope(s.layer);
  const std::int64_t cols = out.shape()[1];
  const ConstTensor all = gathers(s) ? all_rows(s, x) : x,
                    rows = all.reshape({place.shape()[0], cols});
  if (!travels(s)) return spread_rows(out, rows, place, s.stream);
  const Tensor sorted = s.layer.alloc(out.dtype(), {place.numel(), cols});
  spread_rows(sorted, rows, place, s.stream);
  send(s, out, sorted, v);
}

void TokenDispatch::move_back(Step& s, Tensor y, ConstTensor out, ConstTensor place,
                              const Saved& v) const {
  const ArenaScope scope(s.layer);
  const std::int64_t cols = out.shape()[1];
  const Shape rows{place.shape()[0], cols};
  if (travels(s)) {
    const Tensor sorted = s.layer.alloc(y.dtype(), {place.numel(), cols});
    send_back(s, sorted, out, v);
    return gather_rows(y.reshape(rows), sorted, place, s.stream);
  }
  if (!gathers(s)) return gather_rows(y.reshape(rows), out, place, s.stream);
  Group& ranks = s.experts->ranks();
  const Tensor all = s.layer.alloc(y.dtype(), {y.shape()[0] * ranks.size(), y.shape()[1]});
  gather_rows(all.reshape(rows), out, place, s.stream);
  ranks.reduce_scatter(y, all).wait();
}

void TokenDispatch::there(Step& s, Tensor out, ConstTensor x, const Saved& v) const {
  move_there(s, out, x, v.place, v);
}

void TokenDispatch::back(Step& s, Tensor y, ConstTensor out, const Saved& v) const {
  move_back(s, y, out, v.place, v);
}

// A number is a row of one.
void TokenDispatch::numbers_there(Step& s, Tensor out, ConstTensor numbers, const Saved& v) const {
  move_there(s, out.reshape({out.numel(), 1}), numbers, v.place.reshape({v.place.numel(), 1}), v);
}

void TokenDispatch::numbers_back(Step& s, Tensor numbers, ConstTensor out, const Saved& v) const {
  move_back(s, numbers, out.reshape({out.numel(), 1}), v.place.reshape({v.place.numel(), 1}), v);
}

}  // namespace mt
