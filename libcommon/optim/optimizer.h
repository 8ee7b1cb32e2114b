// Optimizer: all that happens to a step's gradients once the last micro-batch has added its own.
// Reduces them over the ranks, checks that they are finite, clips them, updates the weights.
//
// With --use-distributed-optimizer each rank keeps the state of a part of every bucket of the
// parameters and updates it (optim/shared_buffers.h).  Adam's parts may cut a parameter; Muon,
// which needs whole matrices, gives each parameter to one rank.
//
// Where ranks share matrices or layers, gradients of which each has a part are summed over them,
// and so are the norm and the number of zeros: of the whole model, each parameter once.
//
// Every rank calls step() with its own sums of gradients; afterwards all have the same weights.
// What is done with them is decided where they lie (kernels/update.h): a GPU need not wait for the
// host, which may begin a step before it asks what came of the one before.
// Each Optimizer belongs to one thread; the table and the world must outlive it.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/world.h"
#include "kernels/update.h"
#include "ops/ops.h"
#include "optim/optimizer_options.h"
#include "optim/outcome_stage.h"
#include "optim/param_schedule.h"
#include "optim/shared_buffers.h"
#include "tensor/arena.h"
#include "tensor/param.h"
#include "tensor/stream.h"

namespace mt {

// What the optimizer is to do with the gradients.
struct StepOrder {
  StepRates rates = {};
  // Instead, if the step before is skipped, which has begun and not ended.
  StepRates rates_after_skipped = {};
  // What the sum of all ranks' gradients is divided by, beside the loss scale; 0: the count of the
  // first loss.
  double divisor = 1;
  int losses = 1;           // that were put into sums()
  bool all_finite = false;  // a step whose loss or gradient is not is the last to be looked at
};

struct StepResult {
  // Sums over the micro-batches of all ranks, if they were put there.
  std::array<LossSum, kMostLosses> losses = {};
  std::array<double, kRequests> requests = {};  // likewise
  double grad_norm = 0;  // of the averaged, unscaled gradient, before clipping
  std::optional<std::int64_t> num_zeros = {};  // with --log-num-zeros-in-grad
  bool skipped = false;   // not finite: neither weights nor their state changed
  double loss_scale = 1;  // of the next step
};

class Optimizer {
 public:
  enum class Rule : std::uint8_t { adam, sgd, muon };

  // A rank's part of a trainable row, and what is remembered of it.
  struct Piece {
    const Param* row = nullptr;
    std::int64_t begin = 0, end = 0;  // elements of this rank's part of the row
    Rule rule = Rule::adam;
    // [end - begin] each, as are those of `state`, by state_names().
    Tensor value = {}, gradient = {};
    std::vector<Tensor> state = {};
    std::vector<Tensor> scales = {};  // as many: [1] f32 of one that is scaled (kernels/adam.h)
    // What is updated: `value` itself, or if that has 16 bits a copy in f32, or scaled in fp16.
    Tensor master = {}, master_scale = {};
    bool has_master = false;
  };

  // Allocates the table.
  Optimizer(ParamTable& table, Device device, DType dtype, const OptimizerOptions& options,
            const World& world);

  // What the loss is to be multiplied by before its backward.
  double loss_scale() const { return loss_scale_.scale; }  // known of the last step that has ended
  ConstTensor loss_scale_on_device() const {               // [1] f64, of the next step
    return of_outcome(offsetof(StepOutcome, loss_scale) + offsetof(LossScaleState, scale), 1);
  }
  // Sets all values: fill(row) writes row.value.
  void set_values(const std::function<void(const Param&)>& fill, Stream& stream);
  // Calls read(row) for every row while row.value is whole and the newest; called on every rank.
  void read_values(const std::function<void(const Param&)>& read, Stream& stream) {
    buffers_.read_values(read, stream);
  }
  // From now on codes are gathered of the rows that have them, which must outlive this.
  void gather_codes(WeightCodes& codes, Stream& stream) { buffers_.gather_codes(codes, stream); }
  // On all ranks at once: has all values come, before the end or before others than steps read
  // them.
  void finish_values() { buffers_.finish(); }
  // What the first micro-batch is added to.
  void zero_gradients(Stream& stream) { buffers_.begin(stream); }
  // Who is to be told of the use of parameters (Step::sharing), or null.
  ParamSharing* sharing() { return buffers_.are_due_in_steps() ? &buffers_ : nullptr; }
  // Whether a rank has the gradients of its own micro-batches, not a part of all ranks' sum, and
  // all values.
  bool has_own_gradients() const { return !buffers_.shard_gradients(); }
  bool has_whole_values() const { return !buffers_.shard_values(); }
  // Where the requests and, behind them, a LossSum for each of so many losses go, f64 on the
  // device: before a step, which knows them then; requests of the ranks of data_context(), which
  // the step adds up over the model.
  Tensor sums(int losses) const {
    return of_outcome(offsetof(StepOutcome, requests), kRequests + 2 * losses);
  }
  // A step in two parts.  begin_step() queues all of it; end_step() says what came of the first one
  // that was begun and not ended, which is to be waited for.  Two steps may be begun.
  void begin_step(const StepOrder& order, Stream& stream);
  StepResult end_step(Stream& stream);
  StepResult step(const StepRates& rates, double divisor, Stream& stream) {
    begin_step({.rates = rates, .rates_after_skipped = rates, .divisor = divisor}, stream);
    return end_step(stream);
  }

  // The norm of all weights but packed ones, whichever rank has them.
  double parameter_norm(Stream& stream);

  const OptimizerOptions& options() const { return options_; }
  // Bytes of the optimizer's state, the same number on every rank.
  std::size_t bytes() const { return bytes_; }
  std::size_t value_bytes() const { return buffers_.value_bytes(); }
  std::size_t gradient_bytes() const { return buffers_.gradient_bytes(); }
  const std::deque<SharedBuffer>& buffers() const { return buffers_.all(); }

  // --- For checkpoints. ---

  std::int64_t steps() const { return steps_; }  // that were not skipped
  void set_steps(std::int64_t steps) { steps_ = steps; }
  const LossScaleState& scaler() const { return loss_scale_; }
  void set_scaler(const LossScaleState& state);  // before a step
  // Whether this rank's part of a row is added to sums over the model, and stored, and not that of
  // another rank that has the same.
  bool counts(const Param& row) const {
    return !row.copy && (row.is_cut() || tensor_of(row).rank() == 0);
  }
  // Whether this rank's piece of a row is not that of another rank as well.
  bool keeps_own_piece(const Param& row) const { return buffers_.of(row).is_first_copy(); }
  bool keeps_own_pieces() const;  // whether there is a row of which it does
  Rule rule_of(const Param& row) const;
  const std::vector<Piece>& pieces() const { return pieces_; }  // by buffers, in the table's order
  // Megatron's names of what a rule remembers.
  static const std::vector<std::string>& state_names(Rule rule);

 private:
  struct Need {
    std::size_t state = 0, scratch = 0;  // bytes
  };
  // Pieces that are updated together, by Adam or SGD: their states, and the masters of values of 16
  // bits, lie in flat tensors, every piece at the same place of each.  Scales are by all pieces.
  struct Flat {
    std::vector<Kept> state;
    Kept master;
    std::int64_t size = 0;  // elements of each
  };
  std::vector<Piece> pieces_of(const SharedBuffer& buffer, int rank) const;
  Need place(std::span<Piece> pieces, DType dtype, Flat& flat, Arena& state) const;
  // What is updated together, with one learning rate.
  struct Part {
    std::size_t turn = 0;
    bool decoupled = false;
    Buffer storage = {};
    ConstTensor chunks = {};  // of UpdateChunk, as bytes on the device; empty on meta
    std::int64_t elements = 0;
  };
  // What is updated of the rows in a buffer: they have one dtype.
  struct Share {
    SharedBuffer* buffer = nullptr;
    std::span<Piece> pieces = {};
    Flat flat = {};
    Arena state = {};
    std::vector<Part> parts = {};  // by turns
  };
  Need measure(const SharedBuffer& buffer) const;
  std::vector<UpdateChunk> chunks_of(const Share& share, const Part& part) const;
  void upload_chunks(Share& share);
  Group& tensor_of(const Param& row) const {  // ranks that share its matrix
    return row.copies == Copies::experts ? world_.expert_tensor() : world_.tensor();
  }
  void sum_over_tensor_ranks();
  void sum_shared();
  void over_model(Tensor value);  // becomes the sum of what the ranks of the model have
  using PutNumber = std::function<void(const Share&, Tensor)>;
  void add_up_shares(bool of_experts, Tensor sum, const PutNumber& put, Stream& stream);
  void add_experts(Tensor sum, const PutNumber& put, Stream& stream);
  std::vector<ConstTensor> counted_gradients(const Share& share) const;
  Tensor of_outcome(std::size_t offset, std::int64_t count) const {
    return outcome_.tensor(DType::f64, {count}, offset);
  }
  void sum_squares(Stream& stream);
  void count_zeros(Stream& stream);
  std::span<StepRecord> put_records(const StepOrder& order, Stream& stream);
  void update(const Share& share, std::span<const StepRecord> records, Stream& stream);
  void update_flat(const Share& share, const Part& part, const StepRecord* record, Stream& stream);

  ParamTable& table_;
  OptimizerOptions options_;
  const World& world_;
  SharedBuffers buffers_;
  std::vector<Piece> pieces_;
  std::deque<Share> shares_;  // of the buffers that have trainable rows, in their order
  std::size_t bytes_ = 0;
  Arena scratch_;
  Buffer numbers_;  // f64: one for each share, and two
  Buffer records_;  // StepRecords: see put_records()
  Buffer outcome_;  // a StepOutcome
  OutcomeStage outcomes_;
  LossScaleState loss_scale_;
  std::int64_t steps_ = 0;
};

}  // namespace mt
