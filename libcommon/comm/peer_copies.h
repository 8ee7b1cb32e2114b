// PeerCopies: gathers and sums among the GPUs of one host by their copy engines, which leave the
// multiprocessors to what computes beside, and sums of little by one small kernel.  Each rank's
// engine reads the other ranks' memory, which is mapped into its process (CUDA's interprocess
// communication).  Streams keep the order among ranks: by numbers in one another's memory they tell
// what can be read and what was read, and wait for what the others tell.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "comm/group.h"
#include "kernels/peer_reduce.h"
#include "tensor/buffer.h"

namespace mt {

class PeerCopies {
 public:
  static constexpr int kMost = cuda::PeerMailbox::kRanks;
  // What a rank needs besides `bytes` of memory that the others reach: for their addends, and for
  // all of those of a sum of `at_once` bytes.
  static constexpr std::size_t stage_bytes(std::size_t bytes, std::size_t at_once, int ranks) {
    const auto parts = static_cast<std::size_t>(ranks);
    return std::max(std::min(std::size_t{64} << 20, bytes / parts * (parts - 1)),
                    at_once / parts * (parts - 1));
  }
  // What a reduce_scatter's additions move: each rank's addend is read, and the sum written.
  static Cost cost_of_sum(const ConstTensor& out, int ranks) {
    return {.bytes = static_cast<double>(out.bytes()) * (ranks + 1)};
  }

  // Every rank of `ranks`, which must outlive this, calls this and reach() in its turn among the
  // group's operations.
  explicit PeerCopies(Group& ranks);
  PeerCopies(const PeerCopies&) = delete;
  ~PeerCopies();

  // Whether from now on the others can read `memory`, which is as large on every rank: whether all
  // are processes of one host whose GPUs reach one another.  It must outlive this.  There is room
  // for the addends of sums of `at_once` bytes together.
  bool reach(const Tensor& memory, std::size_t at_once);
  bool reaches(const ConstTensor& part) const { return region_of(part) != nullptr; }

  // Do what Group's do, queued on `stream`, always the same one.  What is read is at the same place
  // of its memory on every rank: reaches(out) of all_gather; reaches(in) of reduce_scatter, which
  // takes f32, bf16 and fp16 and adds ranks 0, 1, 2, … in this order.
  void all_gather(const Tensor& out, const ConstTensor& in, StreamHandle stream);
  void reduce_scatter(const Tensor& out, const ConstTensor& in, StreamHandle stream);
  // The two halves of a reduce_scatter(): bring_addends() has the engines alone work, and add_up()
  // is queued, on any stream, behind it.  Between them the others' addends lie among room() bytes,
  // at byte `at`; reduce_scatter() uses all of these.
  std::size_t room() const { return stage_.bytes(); }
  std::size_t addend_bytes(const ConstTensor& in) const {
    return stage_bytes(0, in.bytes(), ranks_.size());
  }
  void bring_addends(const ConstTensor& in, std::size_t at, StreamHandle stream);
  void add_up(const Tensor& out, const ConstTensor& in, std::size_t at, StreamHandle stream) const;
  // Does what Group's does; reaches(there).
  void pass(const Tensor& out, const ConstTensor& there, int ahead, StreamHandle stream);

  // all_reduce() does what Group's does with what reduces(), in one step.  It may be captured.
  static bool is_little(const ConstTensor& t) {
    return t.bytes() <= cuda::PeerMailbox::kBytes && t.dtype() != DType::i64;
  }
  bool reduces(const ConstTensor& t) const { return together_ && is_little(t); }
  void all_reduce(void* t, std::int64_t count, DType dtype, Reduction reduction,
                  StreamHandle stream);

  // Before the end, which is when all ranks have done so: `stream` is done with other ranks'
  // memory, and no operation follows.
  void let_go(StreamHandle stream) noexcept;
  // Streams go on that wait for other ranks; what they compute then is nothing.  For half a second,
  // while `waiting` have work, what ranks still write that have not given up does not hold them.
  void give_up(std::initializer_list<StreamHandle> waiting) noexcept;

 private:
  // A rank's memory, and the allocation that it is in, where this process has them.
  struct Mapped {
    void* allocation = nullptr;
    std::byte* memory = nullptr;
  };
  struct Region {
    std::byte* own = nullptr;
    std::size_t bytes = 0;
    std::vector<Mapped> of;  // each rank's; one's own is empty
  };
  // In a rank's memory: what the others write there.
  struct Counts {
    std::uint64_t mark;
    std::uint32_t ready[kMost], read[kMost];  // each rank's operations whose data it has; has read
    cuda::PeerMailbox mailbox;
  };

  std::vector<int> peers() const;  // the other ranks, the next one first
  bool map(const Tensor& memory, Region& region) const;
  void close(Region& region) const noexcept;
  void close() noexcept;  // all that is mapped
  const Region* region_of(const ConstTensor& part) const;
  const std::byte* of_peer(int peer, const ConstTensor& part) const;  // what lies at that place
  Counts* counts_of(int rank) const;
  // `own` is a part of this rank's addend: copy_addends() brings the other ranks' of that part to
  // the stage, from its byte `at`, and sum() adds all up.
  void copy_addends(const ConstTensor& own, std::size_t at, StreamHandle stream) const;
  void sum(const Tensor& out, const ConstTensor& own, std::size_t at, StreamHandle stream) const;
  template <class Copy>
  void exchange(const std::vector<int>& readers, const std::vector<int>& sources,
                StreamHandle stream, const Copy& copy);

  Group& ranks_;
  Buffer own_counts_;
  Region counts_;
  bool together_ = false;  // all on one host
  bool gave_up_ = false;
  std::vector<Region> regions_;
  Buffer stage_;                  // other ranks' addends
  std::uint32_t operations_ = 0;  // queued
};

}  // namespace mt
