// Task: what a run trains, on what, and to what end: its model, its objective and its data.  A run
// and its plan are of RunOptions and a Task.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "data/samples/split.h"
#include "model/pass_ranks.h"
#include "model/stage_range.h"
#include "model/tensor_part.h"
#include "tensor/fields.h"
#include "tensor/param.h"
#include "train/run/step_report.h"

namespace mt {

class Group;
class Log;
class Model;
class ModelSource;
class Objective;
class Optimizer;
class PyValue;
class Rendezvous;
class Stream;
class Tokenizer;
class World;
struct BatchOptions;
struct ModelConfig;
struct SampleSet;
struct TokenizerOptions;

// DrawnWork: what a plan has to know of texts that the model itself writes for a step.
struct DrawnWork {
  std::int64_t texts = 0, group = 1;        // drawn at once, and of each prompt
  std::int64_t prompt = 0, completion = 0;  // tokens of each
  std::int64_t steps = 1;                   // that learn from them
  bool asks = false;  // whether training's own pass says of them how likely they were
  int together = 1;   // ranks, of consecutive numbers, that draw by parts of the same matrices
  std::int64_t in_flight = 0;  // further draws, whose texts are under way while steps learn
};

class Task {
 public:
  virtual ~Task() = default;

  virtual const ModelConfig& model() const = 0;
  // Some stages of a model, as one of the ranks that share every matrix has them.
  virtual std::unique_ptr<Model> make_model(const StageRanges& stages,
                                            const TensorPart& part) const = 0;
  // The rows of the whole model that are saved, as one rank alone has them.
  virtual ParamTable rows() const;
  // What the rows of a teacher in the model (model/families/distilled.h) are read from; null: it
  // has none.
  virtual std::unique_ptr<ModelSource> open_teacher() const;
  virtual const Objective& objective() const = 0;

  virtual std::int64_t seq_length() const = 0;   // tokens of a sample
  virtual FieldSpecs sample_fields() const = 0;  // what the samples that it learns from bring
  // All that a micro-batch brings, where its sequences are shared by so many ranks.
  FieldSpecs fields(std::int64_t ranks = 1) const;
  virtual double flops(std::int64_t samples) const;  // model_flops()

  // Makes the samples for a run so long, whose steps are divided so.  A task that is only planned
  // has none, nor a tokenizer.
  virtual void build(const TrainingLength& length, std::uint64_t seed, const BatchOptions& batch,
                     const Log& log) = 0;
  virtual const SampleSet& training() const = 0;
  // How many of a step's samples, from that one of the run on and the first ones, are not empty: a
  // step takes no more micro-batches than these need.  Once they are there, after draw().
  virtual std::int64_t filled(std::int64_t /*first*/, std::int64_t samples) const {
    return samples;
  }
  virtual std::span<const std::unique_ptr<SampleSet>> evaluations(Split which) const = 0;
  // Whether each validation takes all of its samples, once.
  virtual bool has_full_validation() const = 0;

  // How many steps an epoch has; 0: the run knows none.  At the end of each it is saved, and all of
  // the task's sets of Split::test are evaluated, which a run without epochs does once at its end.
  virtual std::int64_t steps_of_epoch() const { return 0; }
  // What an evaluation of all of a set came to: of each sample what Objective::scores() counts.
  struct SetScores {
    std::vector<double> scores;
    double seconds = 0;
  };
  // Called by every rank once the run's model is there, before any of its steps: what a task has to
  // know of it.  `iteration` is the one that the model comes from; 0: the run begins with it.  A
  // Scorer says what an evaluation of all of a set comes to, as SetScores have it, where all ranks
  // ask it for the same sets.
  using Scorer = std::function<std::vector<double>(const SampleSet&)>;
  virtual void begin(std::int64_t iteration, const Scorer& score) const;

  // Whether its samples are made of what its model says by then: each step then waits for the one
  // before, and draw() is told before it, on every rank, which samples it is to have.
  struct Drawing {
    std::int64_t iteration = 0;           // from 1
    std::int64_t first = 0, samples = 0;  // of the run
    Group& ranks;                         // all
    std::function<bool()> ends = {};      // asked now and then: whether a signal came to this rank
    // What this rank draws by (train/run/drawing_model.h), which every rank asks for, or none.
    std::function<const Model&()> model = {};
    PassRanks together = {};  // which draw together, by parts of that model
    // The first of `ranks`, and behind it those that draw for all of them (draw_for()); on the
    // others a group of one.  Null: there are none.
    Group* drawers = nullptr;
    Rendezvous* met = nullptr;  // of all, where they are processes
    Scorer score = {};  // of sets that Objective::scores() has numbers of, by the model as it is
  };
  virtual bool draws() const { return false; }
  virtual std::optional<DrawnWork> drawn_work() const { return std::nullopt; }
  // False where a signal came to some rank and nothing was drawn, the same on every rank.
  virtual bool draw(const Drawing& drawing) const;
  // What a rank does that draws texts for those that learn meanwhile, until it is dismissed.
  struct DrawingFor {
    Group& first;  // the first of those, and behind it all that draw for them
    Group& own;    // the latter
    Model& model;  // all of it, which gets the values that are drawn by
    Stream& stream;
    Rendezvous* met = nullptr;  // as of Drawing
  };
  virtual void draw_for(const DrawingFor& /*drawing*/) const {}
  // Called by those that learn: before a save, of which all that is being drawn for them is a part,
  // and at last.
  virtual void await_drawn(const Drawing& /*drawing*/) const {}
  virtual void dismiss(const Drawing& /*drawing*/) const {}
  // Called on every rank of these, however a run ends, while what it has drawn by is there still.
  virtual void forget(const Group& /*ranks*/) const {}
  // Whether it validates by itself, by texts that it draws, say, which no step learns from, and
  // what it says of that; nothing where a signal came to some rank.
  virtual bool validates() const { return false; }
  virtual std::optional<DrawnReport> validate(const Drawing& drawing) const;
  // What is told beside its losses of a step that was drawn, on rank 0.
  virtual TermValues told() const { return {}; }

  // What is done to a model once a step's update is queued, on every rank.
  struct StepEnd {
    std::int64_t iteration = 0;  // from 1
    std::int64_t samples = 0;    // of the step, of all ranks
    Model& model;
    Optimizer& optimizer;
    const World& world;
    Stream& stream;
  };
  virtual void end_step(const StepEnd& /*step*/) const {}

  // What is to be said of an epoch, numbered from 0, of whose sets these are the scores, in their
  // order; -1: there was none.  Called on rank 0 alone.
  virtual std::vector<EpochReport> end_epoch(std::int64_t epoch,
                                             std::span<const SetScores> sets) const;

  virtual const Tokenizer& tokenizer() const = 0;
  virtual const TokenizerOptions& tokenizer_options() const = 0;

  // Puts what a checkpoint keeps of the task into its args.
  virtual void describe(DType dtype, PyValue& args) const = 0;

  // The same task to be planned with something else.
  struct Change {
    std::optional<std::int64_t> seq_length = {};
    bool recomputes = false;  // all layers
    // That will share every matrix, and every sequence.
    std::optional<int> tensor_ranks = {}, context_ranks = {};

    // Puts it into a model, which `complete` completes for so many of these ranks.
    void put_into(ModelConfig& model, const std::function<void(int ranks)>& complete) const;
  };
  virtual std::unique_ptr<Task> changed(const Change& change) const = 0;
};

}  // namespace mt
