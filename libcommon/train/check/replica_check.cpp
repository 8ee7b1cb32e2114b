#include "train/check/replica_check.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "ops/ops.h"

namespace mt {

static constexpr std::int64_t kPart = std::int64_t{1} << 24;  // elements that are copied at once

// 53 bits of a hash of the values' bits: a whole number that a double has.
static double hash_of(const ConstTensor& value, Stream& stream) {
  Hasher hasher;
  std::vector<std::byte> here;
  for (std::int64_t at = 0; at < value.numel(); at += kPart) {
    const std::int64_t end = std::min(at + kPart, value.numel());
    const ConstTensor part = value.reshape({value.numel()}).rows(at, end);
    here.resize(part.bytes());
    transfer({here.data(), value.dtype(), part.shape()}, part, stream);
    stream.synchronize();
    hasher.update(Bytes(here));
  }
  return static_cast<double>(hasher.digest().low >> 11);
}

// What ranks have different bits of, or "".  whole_alone: of what each has whole.
std::string ReplicaCheck::difference(Group& ranks, Copies copies, bool whole_alone) const {
  if (ranks.size() == 1) return {};
  std::vector<const Param*> rows;
  std::vector<double> own;
  for (const Param& row : table_.rows()) {
    if (row.copies != copies || (whole_alone && row.is_cut())) continue;
    rows.push_back(&row);
    own.push_back(hash_of(row.value, stream_));
  }
  if (rows.empty()) return {};
  const auto count = std::ssize(own);
  std::vector<double> all(own.size() * static_cast<std::size_t>(ranks.size()));
  ranks
      .all_gather({all.data(), DType::f64, {ranks.size() * count}},
                  {own.data(), DType::f64, {count}})
      .wait();
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (std::size_t rank = 1; rank < static_cast<std::size_t>(ranks.size()); ++rank)
      if (all[rank * rows.size() + i] != all[i])
        return concat(rows[i]->name(), " is not the same on ranks 0 and ", rank, " of the ",
                      ranks.size(), " that ",
                      whole_alone ? "share matrices and have it whole" : "have copies of it");
  return {};
}

void ReplicaCheck::check(std::int64_t iteration) const {
  std::string what;
  for (const auto& [ranks, copies, whole_alone] :
       {std::tuple{&world_.data_context(), Copies::dense, false},
        std::tuple{&world_.expert_data(), Copies::experts, false},
        std::tuple{&world_.tensor(), Copies::dense, true},
        std::tuple{&world_.expert_tensor(), Copies::experts, true}}) {
    std::string found = difference(*ranks, copies, whole_alone);
    if (what.empty()) what = std::move(found);
  }
  Group& everyone = world_.all();
  std::vector<double> differs(static_cast<std::size_t>(everyone.size()));
  const double own = what.empty() ? 0 : 1;
  everyone.all_gather({differs.data(), DType::f64, {everyone.size()}}, {&own, DType::f64, {1}})
      .wait();
  const auto first = std::ranges::find(differs, 1.0);
  if (first == differs.end()) return;
  if (first - differs.begin() == everyone.rank())
    fail(Exit::difference, "weights after iteration ", iteration, ", seen by rank ",
         everyone.rank(), ": ", what);
  everyone.barrier();  // until that rank has failed
}

}  // namespace mt
